//! Whether and when a trigger fires, in values.

use serde_json::{Map, Value};

use super::{EventConfig, EventKind, EventTrigger, Fired, Firing, Missed, Why};
use crate::{
    cron::{Cron, Zone},
    event::Change,
    ids::RunId,
    time::Timestamp,
};

/// How late a schedule may be found due and still be on time.
const ON_TIME_SECONDS: u64 = 60;

/// A change as a trigger sees it.
#[derive(Debug)]
pub struct Seen<'a> {
    pub change: &'a Change,
    /// Of the version the change tells of.
    pub content: Option<&'a Content>,
    /// The run that wrote it, and how long the chain before that run is.
    pub cause: Option<(RunId, i64)>,
}

/// What conditions ask for.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Content {
    pub labels: Vec<String>,
    pub properties: Map<String, Value>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Decision {
    Fire {
        due_at: Timestamp,
        depth: i64,
    },
    Skip {
        why: Why,
        depth: i64,
    },
    /// The trigger has nothing to do with it.
    No,
}

/// What a change is to a trigger.
pub fn decide(seen: &Seen<'_>, trigger: &EventTrigger, now: Timestamp) -> Decision {
    let (change, config) = (seen.change, &trigger.config);
    if EventKind::of(change.kind) != Some(trigger.event) || !trigger.since.hears(change.position) {
        return Decision::No;
    }
    if !is_of_type(config, &change.entity_type) || !has_content(config, seen.content) {
        return Decision::No;
    }
    let depth = seen.cause.map_or(0, |(_, depth)| depth + 1);
    if depth > config.max_depth() {
        return Decision::Skip { why: Why::Depth, depth };
    }
    Decision::Fire { due_at: now + config.window(trigger.event), depth }
}

fn is_of_type(config: &EventConfig, type_: &String) -> bool {
    config.types.is_empty() || config.types.contains(type_)
}

/// Whether labels and properties are as asked for; where nothing is, nobody has to know them.
fn has_content(config: &EventConfig, content: Option<&Content>) -> bool {
    if !config.asks_for_content() {
        return true;
    }
    content.is_some_and(|content| {
        config.labels.iter().all(|label| content.labels.contains(label))
            && config.conditions.iter().all(|one| one.matches(&content.properties))
    })
}

/// Why a firing that waited starts nothing, by what its trigger says now that its moment has come.
/// The content is that of the version the event tells of.
pub fn objection(firing: &Firing, trigger: &EventTrigger, content: Option<&Content>) -> Option<Why> {
    let Fired::Event { event, entity_type, at, .. } = &firing.fired else { return Some(Why::Changed) };
    let config = &trigger.config;
    let heard = at.is_none_or(|at| trigger.since.hears(at));
    if *event != trigger.event || !heard || !is_of_type(config, entity_type) {
        Some(Why::Changed)
    } else if config.asks_for_content() && content.is_none() {
        Some(Why::Gone)
    } else if !has_content(config, content) {
        Some(Why::Changed)
    } else if firing.cause_depth > config.max_depth() {
        Some(Why::Depth)
    } else {
        None
    }
}

/// A schedule whose time has come.
#[derive(Debug)]
pub struct Due<'a> {
    pub cron: &'a Cron,
    pub zone: &'a Zone,
    pub missed: Missed,
    /// The earliest of the times that were not looked at yet.
    pub next_at: Timestamp,
    /// When it was seen to be due, and had to wait because too many runs did.
    pub waiting_since: Option<Timestamp>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ScheduleStep {
    /// The time this step is about: the newest that has come. Older ones are not made up for.
    pub at: Timestamp,
    /// Why it does not fire.
    pub skip: Option<Why>,
    pub next_at: Option<Timestamp>,
}

/// What becomes of a schedule that is due; `live` when its last run has not ended.
pub fn due(schedule: &Due<'_>, live: bool, now: Timestamp) -> ScheduleStep {
    let at = schedule.cron.newest(schedule.next_at, now, schedule.zone);
    // One that had to wait was on time when it was seen.
    let late = schedule.waiting_since.unwrap_or(now).since(at).as_secs() > ON_TIME_SECONDS;
    let skip = if live {
        Some(Why::StillRunning)
    } else if late && schedule.missed == Missed::Skip {
        Some(Why::Missed)
    } else {
        None
    };
    ScheduleStep { at, skip, next_at: schedule.cron.next(now.max(schedule.next_at), schedule.zone) }
}
