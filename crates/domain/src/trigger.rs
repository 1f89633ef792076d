//! Triggers: what starts an agent without anybody asking. What may be said of one is here; when it
//! fires is in [`mod@decide`], what is kept of it in [`mod@firing`].

pub mod decide;
pub mod firing;
#[cfg(test)]
mod tests;

use std::{str::FromStr, time::Duration};

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::{
    agent::{AgentDefinition, string_enum},
    change::ChangeKind,
    cron::{Cron, Zone},
    filter::Filter,
    invalid::{Invalid, Problem},
    pack::nearest_name,
};

pub use decide::{
    Decision, DueSchedule, ObservedChange, ScheduleDecision, decide, decide_schedule, skip_reason,
};
pub use firing::{EventTrigger, FeedStart, Firing, FiringCause, FiringStatus, Schedule, SkipReason};

/// How often agents may set one another off before a chain ends.
pub const DEFAULT_DEPTH: i64 = 3;
const MAX_DEPTH: i64 = 10;
/// Updates come in bursts: one run for what happens to one object within this time.
const UPDATES_COALESCE_SECONDS: u32 = 5;
const MAX_WINDOW_SECONDS: u32 = 3_600;
const MAX_INPUT_BYTES: usize = 100_000;
/// A day: longer work is a workflow.
const MAX_TIMEOUT_SECONDS: i64 = 86_400;

string_enum! {
    /// What can happen to a graph that an agent may wait for.
    EventKind {
        DocumentIngested = "on_document_ingested",
        EntityCreated = "on_entity_created",
        EntityUpdated = "on_entity_updated",
        RelationshipCreated = "on_relationship_created",
    }
}

impl EventKind {
    /// What a change is to a trigger. Deleting, restoring and embedding set nothing off.
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
    /// What becomes of the times a schedule came due while no server ran.
    #[derive(Default)]
    MissedPolicy {
        /// One run for all of them.
        #[default]
        Once = "once",
        Skip = "skip",
    }
}

string_enum! {
    /// What shares a run within the coalescing window.
    #[derive(Default)]
    CoalesceBy {
        /// Everything that happens to one object.
        #[default]
        Object = "object",
        /// Everything the agent is triggered by.
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
    /// What the agent is told; a sentence about the schedule otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_steps: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<i64>,
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
        }
    }
}

impl ScheduleConfig {
    /// Every rule it must keep; returns its zone.
    pub fn check(&self) -> Result<Zone, Invalid> {
        let mut problems = Vec::new();
        let zone =
            self.time_zone.parse().map_err(|why: String| problems.push(Problem::new("time_zone", why)));
        check_input(self.input.as_deref(), &mut problems);
        if self.max_steps.is_some_and(|steps| steps < 1) {
            problems.push(Problem::new("max_steps", "must be at least 1"));
        }
        if self.timeout_seconds.is_some_and(|seconds| !(1..=MAX_TIMEOUT_SECONDS).contains(&seconds)) {
            problems.push(Problem::new("timeout_seconds", format!("must be 1 to {MAX_TIMEOUT_SECONDS}")));
        }
        Invalid::if_any(problems)?;
        zone.map_err(|()| Invalid::new("time_zone", "is unknown"))
    }
}

/// The settings of an event trigger: `config.trigger` of the agent.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EventConfig {
    /// Any of these types; of a document, MIME types. Empty is all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub types: Vec<String>,
    /// All of these labels.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
    /// All of these hold for the properties; of a document, for its metadata.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Filter>,
    /// What the agent is told; a sentence about the event otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_depth: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub coalesce_seconds: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub coalesce_by: Option<CoalesceBy>,
}

impl EventConfig {
    pub fn check(&self, event: EventKind) -> Result<(), Invalid> {
        let mut problems = Vec::new();
        let mut wrong = |field: &str, why: String| problems.push(Problem::new(field, why));
        if self.types.len() > 100 || self.types.iter().any(|name| name.is_empty() || name.len() > 200) {
            wrong("types", "must be at most 100 names of types".into());
        }
        if !self.labels.is_empty() && !event.is_entity_event() {
            wrong("labels", format!("is only for entities, and `{event}` tells of none"));
        }
        if self.labels.len() > 64 || self.labels.iter().any(|label| label.is_empty() || label.len() > 200) {
            wrong("labels", "must be at most 64 labels".into());
        }
        if self.conditions.len() > 32 {
            wrong("conditions", "has more than 32 entries".into());
        }
        if self.max_depth.is_some_and(|depth| !(0..=MAX_DEPTH).contains(&depth)) {
            wrong("max_depth", format!("must be 0 to {MAX_DEPTH}"));
        }
        if self.coalesce_seconds.is_some_and(|seconds| seconds > MAX_WINDOW_SECONDS) {
            wrong("coalesce_seconds", format!("must be 0 to {MAX_WINDOW_SECONDS}"));
        }
        if self.coalesce_by.is_some() && self.window(event).is_zero() {
            wrong("coalesce_by", "needs `coalesce_seconds`: the time within which events share a run".into());
        }
        for (at, condition) in self.conditions.iter().enumerate() {
            if let Err(invalid) = condition.check() {
                problems.extend(invalid.prefixed(&format!("conditions[{at}]")).problems);
            }
        }
        check_input(self.input.as_deref(), &mut problems);
        Invalid::if_any(problems)
    }

    pub fn max_depth(&self) -> i64 {
        self.max_depth.unwrap_or(DEFAULT_DEPTH)
    }

    /// How long to wait for more of the same.
    pub fn window(&self, event: EventKind) -> Duration {
        let default = if event == EventKind::EntityUpdated { UPDATES_COALESCE_SECONDS } else { 0 };
        Duration::from_secs(self.coalesce_seconds.unwrap_or(default).into())
    }

    pub fn coalesce_by(&self) -> CoalesceBy {
        self.coalesce_by.unwrap_or_default()
    }

    /// Whether the type alone decides, so that nobody has to read the object.
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

/// The word or expression of a definition's `trigger`.
#[derive(Debug, Clone, PartialEq)]
pub enum Trigger {
    Cron(Cron),
    Event(EventKind),
}

impl FromStr for Trigger {
    /// What is wrong, reading on from `trigger`.
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
            return Err(format!(
                "{unknown}; a trigger is one of {}, or a cron expression such as `0 8 * * MON-FRI`",
                all.join(", ")
            ));
        }
        word.parse().map(Self::Cron).map_err(|error: crate::cron::CronError| error.to_string())
    }
}

/// A trigger with its settings, checked.
#[derive(Debug, Clone, PartialEq)]
pub enum TriggerSpec {
    Schedule { cron: Cron, config: ScheduleConfig },
    Event { event: EventKind, config: EventConfig },
}

impl TriggerSpec {
    /// What a definition says; `None` when it is started by hand only. Its settings may stay in
    /// `config.trigger` while it has no trigger.
    pub fn from_definition(definition: &AgentDefinition) -> Result<Option<Self>, Invalid> {
        let Some(trigger) = &definition.trigger else { return Ok(None) };
        let trigger: Trigger = trigger.parse().map_err(|why: String| Invalid::new("trigger", why))?;
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
        Some(value) => T::deserialize(value).map_err(|error| Invalid::new("", error.to_string())),
    }
}
