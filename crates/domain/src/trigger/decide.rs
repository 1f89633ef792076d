//! Decides whether and when a trigger fires. The functions are pure.

use serde_json::{Map, Value};

use super::{EventConfig, EventKind, EventTrigger, Firing, FiringCause, MissedPolicy, SkipReason};
use crate::{
    change::Change,
    cron::{Cron, Zone},
    filter::Condition,
    ids::RunId,
    time::Timestamp,
    workflow_template::is_written_by_workflows,
};

/// How many seconds late a schedule may be processed and still count as on time.
const ON_TIME_SECONDS: u64 = 60;
/// What it takes to look at a name or at a value, besides its bytes.
const NAME_WORK: usize = 32;

/// A graph change together with the data that a trigger may need.
#[derive(Debug)]
pub struct ObservedChange<'a> {
    pub change: &'a Change,
    /// The content of the version that the change created.
    pub content: Option<&'a Content>,
    /// The run that wrote the change, and the length of the trigger chain before that run.
    pub cause: Option<(RunId, i64)>,
}

/// The labels and properties that conditions refer to.
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
    /// The trigger does not apply to the change.
    Ignore,
}

/// The conditions of a trigger in the form in which they are compared. Whoever compares them with many changes reads them
/// once.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckedConditions {
    /// `None` if one of them cannot be read. It matches nothing.
    conditions: Option<Vec<Condition>>,
    /// The bytes of the types and the conditions.
    bytes: usize,
    /// The bytes of the labels, which are compared with each label of an object.
    label_bytes: usize,
}

impl CheckedConditions {
    pub fn new(config: &EventConfig) -> Self {
        let conditions: Option<Vec<Condition>> =
            config.conditions.iter().map(|filter| filter.check().ok()).collect();
        let bytes_of = |names: &[String]| names.iter().map(|name| name.len() + NAME_WORK).sum::<usize>();
        let values = conditions.iter().flatten().map(|condition| condition.bytes() + NAME_WORK);
        let bytes = NAME_WORK + bytes_of(&config.types) + values.sum::<usize>();
        Self { conditions, bytes, label_bytes: bytes_of(&config.labels) }
    }

    /// An estimate of the bytes that [`decide_with`] compares at most, for an object with this content.
    pub fn work(&self, content: Option<&Content>) -> usize {
        let Some(content) = content else { return self.bytes };
        let searched = self.conditions.iter().flatten();
        let searched: usize = searched.map(|condition| condition.searched_bytes(&content.properties)).sum();
        self.bytes + self.label_bytes * content.labels.len() + searched
    }

    fn match_properties(&self, properties: &Map<String, Value>) -> bool {
        let conditions = self.conditions.as_ref();
        conditions.is_some_and(|all| all.iter().all(|condition| condition.matches(properties)))
    }
}

/// Decides how a trigger reacts to a change.
pub fn decide(observed: &ObservedChange<'_>, trigger: &EventTrigger, now: Timestamp) -> Decision {
    decide_with(observed, trigger, &CheckedConditions::new(&trigger.config), now)
}

/// Like [`decide`], with the conditions of the trigger.
pub fn decide_with(
    observed: &ObservedChange<'_>,
    trigger: &EventTrigger,
    conditions: &CheckedConditions,
    now: Timestamp,
) -> Decision {
    let (change, config) = (observed.change, &trigger.config);
    if EventKind::from_change(change.kind) != Some(trigger.event) || !trigger.since.includes(change.position)
    {
        return Decision::Ignore;
    }
    // Otherwise a workflow would start the next one by writing its own tasks.
    if trigger.dispatch.is_some() && is_written_by_workflows(trigger.event, &change.entity_type) {
        return Decision::Ignore;
    }
    if !matches_type(config, &change.entity_type) || !matches_content(config, conditions, observed.content) {
        return Decision::Ignore;
    }
    let depth = observed.cause.map_or(0, |(_, depth)| depth + 1);
    if depth > config.max_depth() {
        return Decision::Skip { why: SkipReason::Depth, depth };
    }
    Decision::Fire { due_at: now + config.window(trigger.event), depth }
}

fn matches_type(config: &EventConfig, type_: &String) -> bool {
    config.types.is_empty() || config.types.contains(type_)
}

/// Returns whether the content of an entity decides if a trigger accepts an event. The type is compared first, because
/// content may be large, and is read only for what the type does not decide.
pub fn needs_content(trigger: &EventTrigger, event: EventKind, type_: &String) -> bool {
    trigger.config.needs_content() && event == trigger.event && matches_type(&trigger.config, type_)
}

/// Returns whether labels and properties match. If the trigger requires none, the content is not
/// needed.
fn matches_content(config: &EventConfig, conditions: &CheckedConditions, content: Option<&Content>) -> bool {
    if !config.needs_content() {
        return true;
    }
    content.is_some_and(|content| {
        config.labels.iter().all(|label| content.labels.contains(label))
            && conditions.match_properties(&content.properties)
    })
}

/// Returns why a pending firing must not start a run, according to the current settings of its
/// trigger. `content` is that of the version which the event refers to.
pub fn skip_reason(firing: &Firing, trigger: &EventTrigger, content: Option<&Content>) -> Option<SkipReason> {
    let FiringCause::Event { event, entity_type, at, .. } = &firing.fired else {
        return Some(SkipReason::Changed);
    };
    let config = &trigger.config;
    let in_feed_range = at.is_none_or(|position| trigger.since.includes(position));
    if *event != trigger.event || !in_feed_range || !matches_type(config, entity_type) {
        Some(SkipReason::Changed)
    } else if config.needs_content() && content.is_none() {
        Some(SkipReason::Gone)
    } else if !matches_content(config, &CheckedConditions::new(config), content) {
        Some(SkipReason::Changed)
    } else if firing.cause_depth > config.max_depth() {
        Some(SkipReason::Depth)
    } else {
        None
    }
}

/// A schedule whose firing time has come.
#[derive(Debug)]
pub struct DueSchedule<'a> {
    pub cron: &'a Cron,
    pub zone: &'a Zone,
    pub missed: MissedPolicy,
    /// The earliest firing time that has not been processed yet.
    pub next_at: Timestamp,
    /// Since when the due schedule has been waiting because the run queue was full.
    pub waiting_since: Option<Timestamp>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ScheduleDecision {
    /// The firing time that this decision is about: the newest one that is due. Older ones are not
    /// fired separately.
    pub at: Timestamp,
    /// The reason why the schedule does not fire, if it does not.
    pub skip: Option<SkipReason>,
    pub next_at: Option<Timestamp>,
}

/// Decides what to do with a due schedule. `live` is true while its previous run is active.
pub fn decide_schedule(schedule: &DueSchedule<'_>, live: bool, now: Timestamp) -> ScheduleDecision {
    let due_at = schedule.cron.latest_due(schedule.next_at, now, schedule.zone);
    // A schedule that waited for the queue was on time when it became due.
    let late = schedule.waiting_since.unwrap_or(now).since(due_at).as_secs() > ON_TIME_SECONDS;
    let skip = if live {
        Some(SkipReason::StillRunning)
    } else if late && schedule.missed == MissedPolicy::Skip {
        Some(SkipReason::Missed)
    } else {
        None
    };
    ScheduleDecision {
        at: due_at,
        skip,
        next_at: schedule.cron.next(now.max(schedule.next_at), schedule.zone),
    }
}
