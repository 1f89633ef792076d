//! Whether and when a trigger fires, in values.

use serde_json::{Map, Value};

use super::{EventConfig, EventKind, EventTrigger, Firing, FiringCause, MissedPolicy, SkipReason};
use crate::{
    change::Change,
    cron::{Cron, Zone},
    ids::RunId,
    time::Timestamp,
};

/// How late a schedule may be found due and still be on time.
const ON_TIME_SECONDS: u64 = 60;

/// A change as a trigger sees it.
#[derive(Debug)]
pub struct ObservedChange<'a> {
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
        why: SkipReason,
        depth: i64,
    },
    /// The trigger has nothing to do with it.
    Ignore,
}

/// What a change is to a trigger.
pub fn decide(seen: &ObservedChange<'_>, trigger: &EventTrigger, now: Timestamp) -> Decision {
    let (change, config) = (seen.change, &trigger.config);
    if EventKind::from_change(change.kind) != Some(trigger.event) || !trigger.since.includes(change.position)
    {
        return Decision::Ignore;
    }
    if !matches_type(config, &change.entity_type) || !matches_content(config, seen.content) {
        return Decision::Ignore;
    }
    let depth = seen.cause.map_or(0, |(_, depth)| depth + 1);
    if depth > config.max_depth() {
        return Decision::Skip { why: SkipReason::Depth, depth };
    }
    Decision::Fire { due_at: now + config.window(trigger.event), depth }
}

fn matches_type(config: &EventConfig, type_: &String) -> bool {
    config.types.is_empty() || config.types.contains(type_)
}

/// Whether labels and properties are as asked for; where nothing is, nobody has to know them.
fn matches_content(config: &EventConfig, content: Option<&Content>) -> bool {
    if !config.needs_content() {
        return true;
    }
    content.is_some_and(|content| {
        config.labels.iter().all(|label| content.labels.contains(label))
            && config.conditions.iter().all(|one| one.matches(&content.properties))
    })
}

/// Why a firing that waited starts nothing, by what its trigger says now that its moment has come.
/// The content is that of the version the event tells of.
pub fn skip_reason(firing: &Firing, trigger: &EventTrigger, content: Option<&Content>) -> Option<SkipReason> {
    let FiringCause::Event { event, entity_type, at, .. } = &firing.fired else {
        return Some(SkipReason::Changed);
    };
    let config = &trigger.config;
    let heard = at.is_none_or(|at| trigger.since.includes(at));
    if *event != trigger.event || !heard || !matches_type(config, entity_type) {
        Some(SkipReason::Changed)
    } else if config.needs_content() && content.is_none() {
        Some(SkipReason::Gone)
    } else if !matches_content(config, content) {
        Some(SkipReason::Changed)
    } else if firing.cause_depth > config.max_depth() {
        Some(SkipReason::Depth)
    } else {
        None
    }
}

/// A schedule whose time has come.
#[derive(Debug)]
pub struct DueSchedule<'a> {
    pub cron: &'a Cron,
    pub zone: &'a Zone,
    pub missed: MissedPolicy,
    /// The earliest of the times that were not looked at yet.
    pub next_at: Timestamp,
    /// When it was seen to be due, and had to wait because too many runs did.
    pub waiting_since: Option<Timestamp>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ScheduleDecision {
    /// The time this step is about: the newest that has come. Older ones are not made up for.
    pub at: Timestamp,
    /// Why it does not fire.
    pub skip: Option<SkipReason>,
    pub next_at: Option<Timestamp>,
}

/// What becomes of a schedule that is due; `live` when its last run has not ended.
pub fn decide_schedule(schedule: &DueSchedule<'_>, live: bool, now: Timestamp) -> ScheduleDecision {
    let at = schedule.cron.latest_due(schedule.next_at, now, schedule.zone);
    // One that had to wait was on time when it was seen.
    let late = schedule.waiting_since.unwrap_or(now).since(at).as_secs() > ON_TIME_SECONDS;
    let skip = if live {
        Some(SkipReason::StillRunning)
    } else if late && schedule.missed == MissedPolicy::Skip {
        Some(SkipReason::Missed)
    } else {
        None
    };
    ScheduleDecision { at, skip, next_at: schedule.cron.next(now.max(schedule.next_at), schedule.zone) }
}
