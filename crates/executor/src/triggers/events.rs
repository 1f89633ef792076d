//! Reads the change feed of a project from its cursor and creates firings for event triggers.
//!
//! The changes are compared with the triggers in a read, because that may take long and keeps nobody from writing. A short
//! transaction then inserts the firings and moves the cursor, unless another server has moved it meanwhile. A trigger
//! that was changed in between receives no changes from before it (`since`), and a firing is checked again when it is
//! due, so the changes of the page are decided as if they had been read before the trigger was changed.

use std::collections::{BTreeMap, HashMap};

use emergent_domain::{
    change::FeedPosition,
    ids::{AgentId, ProjectId},
    time::Timestamp,
    trigger::{CheckedConditions, EventKind, EventTrigger, Firing, FiringStatus},
};
use emergent_store::{
    Tx, feed,
    triggers::{self as rows, firings},
};
use parking_lot::Mutex;

use super::{
    comparison::Comparison,
    firing_counts::{FiringCounts, FiringOutcomeKind, firing_kind},
};
use crate::{Executor, Result};

/// The most changes that are read at once.
const PAGE_SIZE: usize = 500;

/// How far this process has compared the next change of each project, if its triggers are too many or too large to do so
/// at once. It is lost with the process, and the change is compared from the first trigger on again: firings that exist
/// already stay as they are.
#[derive(Default)]
pub(crate) struct StartedChanges(Mutex<HashMap<ProjectId, StartedChange>>);

/// A change that was compared with some of its triggers.
#[derive(Debug, Clone, Copy, PartialEq)]
struct StartedChange {
    position: FeedPosition,
    /// The last of these triggers. They are compared in the order of their ids.
    last: AgentId,
}

/// The changes of a project that were compared with its triggers.
struct ComparedPage {
    /// The cursor before the changes.
    cursor: FeedPosition,
    /// The cursor after those that were compared with all triggers.
    next: FeedPosition,
    /// The first of the other changes, if it was compared with some.
    started: Option<StartedChange>,
    firings: Vec<Firing>,
    /// How many changes were compared, also with only some triggers.
    count: usize,
}

impl Executor {
    /// Reads new changes of a project's feed and inserts the firings they cause. Returns the number of
    /// changes; one that is too large for a single pass is counted in each.
    pub async fn read_events(&self, project: ProjectId) -> Result<usize> {
        let now = self.clock().now();
        let started = self.started_changes().0.lock().get(&project).copied();
        let compare = move |tx: &mut Tx<'_>| compare_page(tx, project, started, now);
        let Some(page) = self.db().snapshot(compare).await? else { return Ok(0) };
        let (started, count) = (page.started, page.count);
        let written = self.db().write(move |tx| write_page(tx, project, &page)).await?;
        let Some(counts) = written else { return Ok(0) };
        let mut all_started = self.started_changes().0.lock();
        match started {
            Some(started) => all_started.insert(project, started),
            None => all_started.remove(&project),
        };
        drop(all_started);
        self.telemetry().record_firings(counts);
        Ok(count)
    }
}

/// Compares the next changes of a project with its triggers; `None` if there are none.
fn compare_page(
    tx: &mut Tx<'_>,
    project: ProjectId,
    started: Option<StartedChange>,
    now: Timestamp,
) -> Result<Option<ComparedPage>> {
    let Some(cursor) = rows::get_cursor(tx, project)? else { return Ok(None) };
    let changes = feed::read_after(tx, project, cursor, PAGE_SIZE)?;
    if changes.position == cursor {
        return Ok(None);
    }
    let occurs = |event: &EventKind| {
        changes.items.iter().any(|change| EventKind::from_change(change.kind) == Some(*event))
    };
    let events: Vec<EventKind> = EventKind::ALL.iter().copied().filter(occurs).collect();
    let triggers = rows::list_for_events(tx, project, &events)?;
    let triggers: Vec<(EventTrigger, CheckedConditions)> = triggers
        .into_iter()
        .map(|trigger| {
            let conditions = CheckedConditions::new(&trigger.config);
            (trigger, conditions)
        })
        .collect();
    let mut comparison = Comparison::new(project, &triggers, now);
    // A change that was started before is the first one: the cursor does not move past it.
    let first = changes.items.first().map(|change| change.position);
    let mut last = started.filter(|started| Some(started.position) == first).map(|started| started.last);
    let (mut next, mut started, mut count) = (cursor, None, 0);
    for change in &changes.items {
        let open = comparison.compare(tx, change, last.take())?;
        started = open.map(|last| StartedChange { position: change.position, last });
        count += 1;
        if started.is_some() {
            break;
        }
        next = change.position;
        if comparison.is_full() {
            break;
        }
    }
    if count == changes.items.len() && started.is_none() {
        // It is past the changes of other projects, too.
        next = changes.position;
    }
    Ok(Some(ComparedPage { cursor, next, started, firings: comparison.firings, count }))
}

/// Inserts the firings of a page and moves the cursor; `None` if another server has moved it or is moving it.
fn write_page(tx: &mut Tx<'_>, project: ProjectId, page: &ComparedPage) -> Result<Option<FiringCounts>> {
    if rows::try_lock_cursor(tx, project)? != Some(page.cursor) {
        return Ok(None);
    }
    let counts = insert_firings(tx, &page.firings)?;
    if page.next != page.cursor {
        rows::set_cursor(tx, project, page.next)?;
    }
    Ok(Some(counts))
}

/// Inserts firings. Firings that exist already stay as they are.
fn insert_firings(tx: &mut Tx<'_>, firings: &[Firing]) -> Result<FiringCounts> {
    let mut by_outcome: BTreeMap<(&'static str, bool), Vec<Firing>> = BTreeMap::new();
    for firing in firings {
        let skipped = firing.status == FiringStatus::Skipped;
        by_outcome.entry((firing_kind(&firing.fired), skipped)).or_default().push(firing.clone());
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
