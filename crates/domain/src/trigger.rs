//! Triggers: schedules and events that start an agent automatically. This module contains their
//! settings and the validation. [`mod@decide`] decides when a trigger fires, and [`mod@firing`]
//! contains the stored rows.

pub mod decide;
pub mod firing;
#[cfg(test)]
mod tests;

use std::{str::FromStr, time::Duration};

use serde::{
    Deserialize, Deserializer, Serialize,
    de::{DeserializeOwned, Error as _},
};
use serde_json::Value;

use crate::{
    agent::{AgentDefinition, string_enum},
    change::ChangeKind,
    cron::{Cron, Zone},
    filter::Filter,
    invalid::{Invalid, Problem},
    pack::{nearest_name, with_nearest_name},
    run::MAX_STEPS,
};

pub use decide::{
    CheckedConditions, Decision, DueSchedule, ObservedChange, ScheduleDecision, decide, decide_schedule,
    decide_with, needs_content, skip_reason,
};
pub use firing::{EventTrigger, FeedStart, Firing, FiringCause, FiringStatus, Schedule, SkipReason};

/// How many agents may trigger one another in a chain before it ends.
pub const DEFAULT_DEPTH: i64 = 3;
const MAX_DEPTH: i64 = 10;
/// Updates come in bursts. All updates of one object within this time share a run.
const UPDATES_COALESCE_SECONDS: u32 = 5;
const MAX_WINDOW_SECONDS: u32 = 3_600;
/// The largest `max_concurrent` of an event trigger.
const MAX_CONCURRENT: i64 = 100;
const MAX_INPUT_BYTES: usize = 100_000;
/// One day. Work that takes longer belongs in a workflow.
const MAX_TIMEOUT_SECONDS: i64 = 86_400;

string_enum! {
    /// The graph events that can trigger an agent.
    EventKind {
        DocumentIngested = "on_document_ingested",
        EntityCreated = "on_entity_created",
        EntityUpdated = "on_entity_updated",
        RelationshipCreated = "on_relationship_created",
    }
}

impl EventKind {
    /// Maps a change to an event. Deletion, restoring and embedding trigger nothing.
    pub fn from_change(change: ChangeKind) -> Option<Self> {
        match change {
            ChangeKind::DocumentIngested => Some(Self::DocumentIngested),
            ChangeKind::ObjectCreated => Some(Self::EntityCreated),
            ChangeKind::ObjectUpdated => Some(Self::EntityUpdated),
            ChangeKind::RelationshipCreated => Some(Self::RelationshipCreated),
            _ => None,
        }
    }

    fn is_entity_event(self) -> bool {
        matches!(self, Self::EntityCreated | Self::EntityUpdated)
    }
}

string_enum! {
    /// What happens to the firing times that passed while no server ran.
    #[derive(Default)]
    MissedPolicy {
        /// All missed times together start one run.
        #[default]
        Once = "once",
        Skip = "skip",
    }
}

string_enum! {
    /// Which events share a run within the coalescing window.
    #[derive(Default)]
    CoalesceBy {
        /// All events of one object share a run.
        #[default]
        Object = "object",
        /// All events that trigger the agent share a run.
        Agent = "agent",
    }
}

/// The settings of a schedule: `config.trigger` of an agent whose trigger is a cron expression, or
/// `config` of a product's job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ScheduleConfig {
    pub time_zone: String,
    pub missed: MissedPolicy,
    /// The input of the run. If absent, a sentence about the schedule.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_steps: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<i64>,
    /// A setting of event triggers, read only so that [`ScheduleConfig::check`] can say why a schedule has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_concurrent: Option<Value>,
}

impl Default for ScheduleConfig {
    fn default() -> Self {
        Self {
            time_zone: "UTC".to_owned(),
            missed: MissedPolicy::Once,
            input: None,
            context: None,
            max_steps: None,
            timeout_seconds: None,
            max_concurrent: None,
        }
    }
}

impl ScheduleConfig {
    /// Validates the settings and returns the time zone.
    pub fn check(&self) -> Result<Zone, Invalid> {
        let mut problems = Vec::new();
        let zone =
            self.time_zone.parse().map_err(|reason: String| problems.push(Problem::new("time_zone", reason)));
        check_input(self.input.as_deref(), &mut problems);
        if self.max_steps.is_some_and(|steps| !(1..=MAX_STEPS).contains(&steps)) {
            problems.push(Problem::new("max_steps", format!("must be 1 to {MAX_STEPS}")));
        }
        if self.timeout_seconds.is_some_and(|seconds| !(1..=MAX_TIMEOUT_SECONDS).contains(&seconds)) {
            problems.push(Problem::new("timeout_seconds", format!("must be 1 to {MAX_TIMEOUT_SECONDS}")));
        }
        if self.max_concurrent.is_some() {
            let reason = "is only for events: a schedule never starts a run while its last one has not ended";
            problems.push(Problem::new("max_concurrent", reason));
        }
        Invalid::if_any(problems)?;
        zone.map_err(|()| Invalid::new("time_zone", "is unknown"))
    }
}

/// The settings of an event trigger: `config.trigger` of the agent.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EventConfig {
    /// The entity has one of these types; for a document, these MIME types. Empty means any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub types: Vec<String>,
    /// The entity has all of these labels.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
    /// The properties satisfy all of these conditions. For a document, its metadata is checked.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Filter>,
    /// The input of the run. If absent, a sentence about the event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_depth: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub coalesce_seconds: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub coalesce_by: Option<CoalesceBy>,
    /// While this many runs of the trigger are unfinished, its events wait, in the order in which they happened.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "read_max_concurrent")]
    pub max_concurrent: Option<i64>,
}

/// Reads `max_concurrent`. The error of serde would not name the field.
fn read_max_concurrent<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<i64>, D::Error> {
    match Option::<Value>::deserialize(deserializer)? {
        None => Ok(None),
        Some(value) => value.as_i64().map(Some).ok_or_else(|| {
            D::Error::custom(format!("`max_concurrent` must be a whole number from 1 to {MAX_CONCURRENT}"))
        }),
    }
}

impl EventConfig {
    pub fn check(&self, event: EventKind) -> Result<(), Invalid> {
        let mut problems = Vec::new();
        let mut add_problem = |field: &str, reason: String| problems.push(Problem::new(field, reason));
        if self.types.len() > 100 || self.types.iter().any(|name| name.is_empty() || name.len() > 200) {
            add_problem("types", "must be at most 100 type names".into());
        }
        if !self.labels.is_empty() && !event.is_entity_event() {
            add_problem("labels", format!("is only for events of entities, and `{event}` is not one"));
        }
        if self.labels.len() > 64 || self.labels.iter().any(|label| label.is_empty() || label.len() > 200) {
            add_problem("labels", "must be at most 64 labels".into());
        }
        if self.conditions.len() > 32 {
            add_problem("conditions", "has more than 32 entries".into());
        }
        if self.max_depth.is_some_and(|depth| !(0..=MAX_DEPTH).contains(&depth)) {
            add_problem("max_depth", format!("must be 0 to {MAX_DEPTH}"));
        }
        if self.coalesce_seconds.is_some_and(|seconds| seconds > MAX_WINDOW_SECONDS) {
            add_problem("coalesce_seconds", format!("must be 0 to {MAX_WINDOW_SECONDS}"));
        }
        if self.coalesce_by.is_some() && self.window(event).is_zero() {
            add_problem(
                "coalesce_by",
                "needs `coalesce_seconds`: the time within which events share a run".into(),
            );
        }
        if self.max_concurrent.is_some_and(|runs| !(1..=MAX_CONCURRENT).contains(&runs)) {
            add_problem("max_concurrent", format!("must be a whole number from 1 to {MAX_CONCURRENT}"));
        }
        for (index, condition) in self.conditions.iter().enumerate() {
            if let Err(invalid) = condition.check() {
                problems.extend(invalid.prefixed(&format!("conditions[{index}]")).problems);
            }
        }
        check_input(self.input.as_deref(), &mut problems);
        Invalid::if_any(problems)
    }

    pub fn max_depth(&self) -> i64 {
        self.max_depth.unwrap_or(DEFAULT_DEPTH)
    }

    /// Returns how long to wait for further events that share the run.
    pub fn window(&self, event: EventKind) -> Duration {
        let default = if event == EventKind::EntityUpdated { UPDATES_COALESCE_SECONDS } else { 0 };
        Duration::from_secs(self.coalesce_seconds.unwrap_or(default).into())
    }

    pub fn coalesce_by(&self) -> CoalesceBy {
        self.coalesce_by.unwrap_or_default()
    }

    /// Returns how many more runs the trigger may start while `unfinished` of its runs have not ended. `None`
    /// means that it has no limit.
    pub fn free_places(&self, unfinished: i64) -> Option<i64> {
        self.max_concurrent.map(|max| (max - unfinished).max(0))
    }

    /// Returns whether the content of the entity is needed to decide. If not, its type is enough
    /// and the object is not read.
    pub fn needs_content(&self) -> bool {
        !self.labels.is_empty() || !self.conditions.is_empty()
    }
}

fn check_input(input: Option<&str>, problems: &mut Vec<Problem>) {
    if let Some(input) = input
        && (input.trim().is_empty() || input.len() > MAX_INPUT_BYTES || input.contains('\0'))
    {
        problems.push(Problem::new("input", format!("must be 1 to {MAX_INPUT_BYTES} bytes of text")));
    }
}

/// The parsed `trigger` of a definition: an event name or a cron expression.
#[derive(Debug, Clone, PartialEq)]
pub enum Trigger {
    Cron(Cron),
    Event(EventKind),
}

impl FromStr for Trigger {
    /// The problem as the rest of a sentence that begins with `trigger`.
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let word = text.trim();
        if word.is_empty() || word.len() > 200 {
            return Err("must be an event such as `on_document_ingested`, or a cron expression".into());
        }
        if let Some(event) = EventKind::parse(word) {
            return Ok(Self::Event(event));
        }
        if word.starts_with(|c: char| c.is_ascii_alphabetic()) && !word.contains(char::is_whitespace) {
            let names = EventKind::ALL.iter().map(|event| event.as_str());
            let unknown = crate::agent::unknown_name("event", word, nearest_name(word, names.clone()));
            let all: Vec<String> = names.map(|name| format!("`{name}`")).collect();
            let rest = format!(
                "a trigger is one of {}, or a cron expression such as `0 8 * * MON-FRI`",
                all.join(", ")
            );
            return Err(crate::text::append(&unknown, "; ", &rest));
        }
        word.parse().map(Self::Cron).map_err(|error: crate::cron::CronError| error.to_string())
    }
}

/// A trigger with its validated settings.
#[derive(Debug, Clone, PartialEq)]
pub enum TriggerSpec {
    Schedule { cron: Cron, config: ScheduleConfig },
    Event { event: EventKind, config: EventConfig },
}

impl TriggerSpec {
    /// Parses the trigger of a definition. Returns `None` if the agent is started by hand only. The
    /// settings in `config.trigger` may remain while the definition has no trigger.
    pub fn from_definition(definition: &AgentDefinition) -> Result<Option<Self>, Invalid> {
        let Some(trigger) = &definition.trigger else { return Ok(None) };
        let trigger: Trigger = trigger.parse().map_err(|reason: String| Invalid::new("trigger", reason))?;
        let settings = definition.config.get("trigger");
        let checked = match trigger {
            Trigger::Cron(cron) => parse_settings::<ScheduleConfig>(settings).and_then(|config| {
                config.check()?;
                Ok(Self::Schedule { cron, config })
            }),
            Trigger::Event(event) => parse_settings::<EventConfig>(settings).and_then(|config| {
                config.check(event)?;
                Ok(Self::Event { event, config })
            }),
        };
        checked.map(Some).map_err(|invalid| invalid.prefixed("config.trigger"))
    }
}

fn parse_settings<T: DeserializeOwned + Default>(settings: Option<&Value>) -> Result<T, Invalid> {
    match settings {
        None | Some(Value::Null) => Ok(T::default()),
        Some(value) => {
            T::deserialize(value).map_err(|error| Invalid::new("", with_nearest_name(&error.to_string())))
        }
    }
}
