//! Reads the change feed of a project from its cursor and creates firings for event triggers. The
//! reader locks the project's cursor; other servers skip a project whose cursor is locked.

use std::collections::{BTreeMap, HashMap};

use emergent_domain::{
    author::Author,
    change::Change,
    ids::{FiringId, ProjectId, RunId},
    time::Timestamp,
    trigger::{
        Decision, EventKind, EventTrigger, Firing, FiringCause, FiringStatus, ObservedChange, decide,
        needs_content,
    },
};
use emergent_store::{
    Tx, feed, runs,
    triggers::{self as rows, firings},
};

use super::{
    event_context::{self, MAX_CONTENT_BYTES},
    firing_counts::{FiringCounts, FiringOutcomeKind, firing_kind},
};
use crate::{Error, Executor, Result};

/// The maximum number of changes per transaction.
const PAGE_SIZE: usize = 500;

impl Executor {
    /// Reads new changes of a project's feed and inserts the firings they cause. Returns the number of
    /// changes.
    pub async fn read_events(&self, project: ProjectId) -> Result<usize> {
        let now = self.clock().now();
        let read = self.db().write(move |tx| {
            let nothing = || Ok((0, FiringCounts::default()));
            let Some(cursor) = rows::try_lock_cursor(tx, project)? else { return nothing() };
            let changes = feed::read_after(tx, project, cursor, PAGE_SIZE)?;
            if changes.position == cursor {
                return nothing();
            }
            let triggers = rows::lock_all(tx, project)?;
            let FoundFirings { firings, examined } =
                find_firings(tx, project, &changes.items, &triggers, now)?;
            let counts = insert_firings(tx, firings)?;
            let position = match changes.items.get(..examined) {
                Some([.., last]) if examined < changes.items.len() => last.position,
                _ => changes.position,
            };
            rows::set_cursor(tx, project, position)?;
            Ok::<_, Error>((examined, counts))
        });
        let (count, counts) = read.await?;
        self.telemetry().record_firings(counts);
        Ok(count)
    }
}

/// Inserts firings. Firings that exist already stay as they are.
fn insert_firings(tx: &mut Tx<'_>, firings: Vec<Firing>) -> Result<FiringCounts> {
    let mut by_outcome: BTreeMap<(&'static str, bool), Vec<Firing>> = BTreeMap::new();
    for firing in firings {
        let skipped = firing.status == FiringStatus::Skipped;
        by_outcome.entry((firing_kind(&firing.fired), skipped)).or_default().push(firing);
    }
    let mut counts = FiringCounts::default();
    for ((kind, skipped), firings) in by_outcome {
        let new = usize::try_from(firings::insert(tx, &firings)?).unwrap_or(firings.len());
        counts.add(kind, FiringOutcomeKind::Deduplicated, firings.len().saturating_sub(new));
        if skipped {
            counts.add(kind, FiringOutcomeKind::Dropped, new);
        }
    }
    Ok(counts)
}

/// The firings that the first changes of a list cause.
struct FoundFirings {
    firings: Vec<Firing>,
    /// How many changes of the list these are.
    examined: usize,
}

/// Returns the firings that changes cause, including skipped ones. If the changed content is large, only the first
/// changes are examined.
fn find_firings(
    tx: &mut Tx<'_>,
    project: ProjectId,
    changes: &[Change],
    triggers: &[EventTrigger],
    now: Timestamp,
) -> Result<FoundFirings> {
    let mut depths: HashMap<RunId, i64> = HashMap::new();
    let (mut firings, mut examined, mut bytes) = (Vec::new(), 0, 0);
    for change in changes {
        if bytes >= MAX_CONTENT_BYTES {
            break;
        }
        examined += 1;
        let Some(event) = EventKind::from_change(change.kind) else { continue };
        let matching: Vec<&EventTrigger> = triggers
            .iter()
            .filter(|trigger| trigger.event == event && trigger.since.includes(change.position))
            .collect();
        if matching.is_empty() {
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
        let content = if matching.iter().any(|trigger| needs_content(trigger, event, &change.entity_type)) {
            event_context::content_at_version(tx, project, event, change.entity, change.version)?
        } else {
            None
        };
        bytes += content.as_ref().map_or(0, |content| content.bytes);
        let content = content.map(|content| content.content);
        let observed = ObservedChange { change, content: content.as_ref(), cause };
        for trigger in matching {
            firings.extend(new_firing(&observed, trigger, event, now));
        }
    }
    Ok(FoundFirings { firings, examined })
}

/// Returns the firing of a trigger for a change; `None` if the trigger ignores the change.
fn new_firing(
    observed: &ObservedChange<'_>,
    trigger: &EventTrigger,
    event: EventKind,
    now: Timestamp,
) -> Option<Firing> {
    let (status, reason, due_at, depth) = match decide(observed, trigger, now) {
        Decision::Ignore => return None,
        Decision::Fire { due_at, depth } => (FiringStatus::Pending, None, due_at, depth),
        Decision::Skip { why: reason, depth } => (FiringStatus::Skipped, Some(reason), now, depth),
    };
    let change = observed.change;
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
        cause: observed.cause.map(|(run, _)| run),
        cause_depth: depth,
        status,
        reason: reason.map(|reason| reason.as_str().to_owned()),
        run: None,
        workflow: None,
        trigger_name: trigger.name.clone(),
        due_at,
        created_at: now,
        settled_at: reason.map(|_| now),
    })
}
