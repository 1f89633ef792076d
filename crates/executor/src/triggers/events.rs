//! Events: a project's feed is read up to its cursor's new place, which finds firings. Whoever does
//! it holds the project's cursor, and other servers pass the project by.

use std::collections::{BTreeMap, HashMap};

use emergent_domain::{
    author::Author,
    event::Change,
    ids::{FiringId, ProjectId, RunId},
    time::Timestamp,
    trigger::{Decision, EventKind, EventTrigger, Fired, Firing, FiringStatus, Seen, decide},
};
use emergent_store::{
    Tx, feed, runs,
    triggers::{self as rows, firings},
};

use super::{
    content,
    tally::{Outcome, Tally, kind_of},
};
use crate::{Error, Executor, Result};

/// Changes read in one transaction.
const PAGE: usize = 500;

impl Executor {
    /// Reads what is new in a project's feed and notes what it sets off; how many changes it was.
    pub async fn read_events(&self, project: ProjectId) -> Result<usize> {
        let now = self.clock().now();
        let read = self.db().write(move |tx| {
            let nothing = || Ok((0, Tally::default()));
            let Some(at) = rows::take_cursor(tx, project)? else { return nothing() };
            let changes = feed::read(tx, project, at, PAGE)?;
            if changes.reached == at {
                return nothing();
            }
            let triggers = rows::hold(tx, project)?;
            let found = look(tx, project, &changes.items, &triggers, now)?;
            let tally = note(tx, found)?;
            rows::set_cursor(tx, project, changes.reached)?;
            Ok::<_, Error>((changes.items.len(), tally))
        });
        let (count, tally) = read.await?;
        self.telemetry().triggered(tally);
        Ok(count)
    }
}

/// Writes firings down; those that are there already stay as they are.
fn note(tx: &mut Tx<'_>, found: Vec<Firing>) -> Result<Tally> {
    let mut alike: BTreeMap<(&'static str, bool), Vec<Firing>> = BTreeMap::new();
    for firing in found {
        let skipped = firing.status == FiringStatus::Skipped;
        alike.entry((kind_of(&firing.fired), skipped)).or_default().push(firing);
    }
    let mut tally = Tally::default();
    for ((kind, skipped), firings) in alike {
        let new = usize::try_from(firings::insert(tx, &firings)?).unwrap_or(firings.len());
        tally.add(kind, Outcome::Deduplicated, firings.len().saturating_sub(new));
        if skipped {
            tally.add(kind, Outcome::Dropped, new);
        }
    }
    Ok(tally)
}

/// The firings that changes make, skipped ones too.
fn look(
    tx: &mut Tx<'_>,
    project: ProjectId,
    changes: &[Change],
    triggers: &[EventTrigger],
    now: Timestamp,
) -> Result<Vec<Firing>> {
    let mut depths: HashMap<RunId, i64> = HashMap::new();
    let mut found = Vec::new();
    for change in changes {
        let Some(event) = EventKind::of(change.kind) else { continue };
        let concerned: Vec<&EventTrigger> = triggers
            .iter()
            .filter(|trigger| trigger.event == event && trigger.since.hears(change.position))
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
        let content = if concerned.iter().any(|trigger| trigger.config.asks_for_content()) {
            content::of_version(tx, project, event, change.entity, change.version)?
        } else {
            None
        };
        let seen = Seen { change, content: content.as_ref(), cause };
        for trigger in concerned {
            found.extend(firing(&seen, trigger, event, now));
        }
    }
    Ok(found)
}

fn firing(seen: &Seen<'_>, trigger: &EventTrigger, event: EventKind, now: Timestamp) -> Option<Firing> {
    let (status, why, due_at, depth) = match decide(seen, trigger, now) {
        Decision::No => return None,
        Decision::Fire { due_at, depth } => (FiringStatus::Pending, None, due_at, depth),
        Decision::Skip { why, depth } => (FiringStatus::Skipped, Some(why), now, depth),
    };
    let change = seen.change;
    Some(Firing {
        id: FiringId::new(),
        project: trigger.project,
        agent: trigger.agent,
        fired: Fired::Event {
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
