//! Events: a project's feed is read up to its cursor's new place, which finds firings. Whoever does
//! it holds the project's cursor, and other servers pass the project by.

use std::collections::{BTreeMap, HashMap};

use emergent_domain::{
    author::Author,
    change::Change,
    ids::{FiringId, ProjectId, RunId},
    time::Timestamp,
    trigger::{Decision, EventKind, EventTrigger, Firing, FiringCause, FiringStatus, ObservedChange, decide},
};
use emergent_store::{
    Tx, feed, runs,
    triggers::{self as rows, firings},
};

use super::{
    event_context,
    firing_counts::{FiringCounts, FiringOutcomeKind, firing_kind},
};
use crate::{Error, Executor, Result};

/// Changes read in one transaction.
const PAGE_SIZE: usize = 500;

impl Executor {
    /// Reads what is new in a project's feed and notes what it sets off; how many changes it was.
    pub async fn read_events(&self, project: ProjectId) -> Result<usize> {
        let now = self.clock().now();
        let read = self.db().write(move |tx| {
            let nothing = || Ok((0, FiringCounts::default()));
            let Some(at) = rows::try_lock_cursor(tx, project)? else { return nothing() };
            let changes = feed::read_after(tx, project, at, PAGE_SIZE)?;
            if changes.position == at {
                return nothing();
            }
            let triggers = rows::lock_all(tx, project)?;
            let found = find_firings(tx, project, &changes.items, &triggers, now)?;
            let tally = insert_firings(tx, found)?;
            rows::set_cursor(tx, project, changes.position)?;
            Ok::<_, Error>((changes.items.len(), tally))
        });
        let (count, tally) = read.await?;
        self.telemetry().record_firings(tally);
        Ok(count)
    }
}

/// Writes firings down; those that are there already stay as they are.
fn insert_firings(tx: &mut Tx<'_>, found: Vec<Firing>) -> Result<FiringCounts> {
    let mut alike: BTreeMap<(&'static str, bool), Vec<Firing>> = BTreeMap::new();
    for firing in found {
        let skipped = firing.status == FiringStatus::Skipped;
        alike.entry((firing_kind(&firing.fired), skipped)).or_default().push(firing);
    }
    let mut tally = FiringCounts::default();
    for ((kind, skipped), firings) in alike {
        let new = usize::try_from(firings::insert(tx, &firings)?).unwrap_or(firings.len());
        tally.add(kind, FiringOutcomeKind::Deduplicated, firings.len().saturating_sub(new));
        if skipped {
            tally.add(kind, FiringOutcomeKind::Dropped, new);
        }
    }
    Ok(tally)
}

/// The firings that changes make, skipped ones too.
fn find_firings(
    tx: &mut Tx<'_>,
    project: ProjectId,
    changes: &[Change],
    triggers: &[EventTrigger],
    now: Timestamp,
) -> Result<Vec<Firing>> {
    let mut depths: HashMap<RunId, i64> = HashMap::new();
    let mut found = Vec::new();
    for change in changes {
        let Some(event) = EventKind::from_change(change.kind) else { continue };
        let concerned: Vec<&EventTrigger> = triggers
            .iter()
            .filter(|trigger| trigger.event == event && trigger.since.includes(change.position))
            .collect();
        if concerned.is_empty() {
            continue;
        }
        let cause = match change.author {
            Author::Run { run_id, .. } => {
                let depth = match depths.get(&run_id) {
                    Some(depth) => *depth,
                    None => runs::cause_depth(tx, project, run_id)?.unwrap_or(0),
                };
                depths.insert(run_id, depth);
                Some((run_id, depth))
            }
            Author::Token { .. } | Author::System => None,
        };
        let content = if concerned.iter().any(|trigger| trigger.config.needs_content()) {
            event_context::content_at_version(tx, project, event, change.entity, change.version)?
        } else {
            None
        };
        let seen = ObservedChange { change, content: content.as_ref(), cause };
        for trigger in concerned {
            found.extend(new_firing(&seen, trigger, event, now));
        }
    }
    Ok(found)
}

fn new_firing(
    seen: &ObservedChange<'_>,
    trigger: &EventTrigger,
    event: EventKind,
    now: Timestamp,
) -> Option<Firing> {
    let (status, why, due_at, depth) = match decide(seen, trigger, now) {
        Decision::Ignore => return None,
        Decision::Fire { due_at, depth } => (FiringStatus::Pending, None, due_at, depth),
        Decision::Skip { why, depth } => (FiringStatus::Skipped, Some(why), now, depth),
    };
    let change = seen.change;
    Some(Firing {
        id: FiringId::new(),
        project: trigger.project,
        agent: trigger.agent,
        fired: FiringCause::Event {
            event,
            entity: change.entity,
            entity_type: change.entity_type.clone(),
            version: change.version,
            at: Some(change.position),
        },
        cause: seen.cause.map(|(run, _)| run),
        cause_depth: depth,
        status,
        reason: why.map(|why| why.as_str().to_owned()),
        run: None,
        due_at,
        created_at: now,
        settled_at: why.map(|_| now),
    })
}
