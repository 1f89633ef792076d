//! Workflows: a graph of tasks that the dispatcher executes, and the events it records.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use crate::{
    agent::{ModelConfig, string_enum},
    ids::{ObjectId, ProjectId, RunId, ScheduleId, TokenId, WorkflowId},
    invalid::Invalid,
    task::MAX_TASKS,
    time::Timestamp,
    trigger::EventKind,
};

string_enum! {
    WorkflowStatus {
        /// The planner agent is creating the tasks.
        Planning = "planning",
        Running = "running",
        Completed = "completed",
        Failed = "failed",
        /// The workflow waits for a person's decision.
        Escalated = "escalated",
        Cancelled = "cancelled",
    }
}

impl WorkflowStatus {
    /// Returns whether the dispatcher still drives the workflow.
    pub fn is_active(self) -> bool {
        matches!(self, WorkflowStatus::Planning | WorkflowStatus::Running)
    }

    /// Returns whether the workflow has ended. An escalated or failed workflow can be resumed.
    pub fn is_terminal(self) -> bool {
        !self.is_active() && self != WorkflowStatus::Escalated
    }
}

string_enum! {
    /// How an agent is chosen for a task that names none.
    #[derive(Default)]
    SelectorKind {
        Rules = "rules",
        Llm = "llm",
        /// Rules choose if they are conclusive, otherwise a model chooses.
        #[default]
        Hybrid = "hybrid",
    }
}

string_enum! {
    /// How earlier results are chosen for the prompt of a task.
    #[derive(Default)]
    ThreadingKind {
        /// The nearest results are included, as far as they fit.
        #[default]
        Rules = "rules",
        /// If there are many results, a model selects and orders them.
        Llm = "llm",
    }
}

string_enum! {
    /// What happens to the rest of the workflow when a task fails permanently.
    #[derive(Default)]
    OnFailure {
        /// Its dependents are skipped, and the other tasks continue.
        Skip = "skip",
        /// Tasks that do not depend on it continue; then a person decides.
        #[default]
        Escalate = "escalate",
    }
}

/// An amount of money and tokens, as a limit or as spend.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Amount {
    /// Micro-dollars.
    pub microusd: i64,
    pub tokens: i64,
}

impl std::ops::Add for Amount {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self {
            microusd: self.microusd.saturating_add(other.microusd),
            tokens: self.tokens.saturating_add(other.tokens),
        }
    }
}

impl std::iter::Sum for Amount {
    fn sum<I: Iterator<Item = Self>>(amounts: I) -> Self {
        amounts.fold(Self::default(), |total, amount| total + amount)
    }
}

/// Converts dollars to whole micro-dollars, rounded up. Floating point noise is not rounded up to
/// another micro-dollar.
pub fn to_microusd(dollars: f64) -> i64 {
    (dollars * 1e6 - 1e-6).ceil().max(0.0) as i64
}

/// A spending limit. `None` means no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Limit {
    pub microusd: Option<i64>,
    pub tokens: Option<i64>,
}

impl Limit {
    pub fn is_unlimited(self) -> bool {
        self == Self::default()
    }

    /// Returns whether another limit allows everything that this one allows.
    pub fn is_within(self, other: Self) -> bool {
        let fits = |own: Option<i64>, other: Option<i64>| match (own, other) {
            (_, None) => true,
            (None, Some(_)) => false,
            (Some(own), Some(other)) => own <= other,
        };
        fits(self.microusd, other.microusd) && fits(self.tokens, other.tokens)
    }

    /// Returns whether an amount is within the limit.
    pub fn allows(self, amount: Amount) -> bool {
        self.microusd.is_none_or(|max| amount.microusd <= max)
            && self.tokens.is_none_or(|max| amount.tokens <= max)
    }
}

/// The largest limit in dollars, low enough that sums of limits do not overflow.
const MAX_USD: f64 = 1e9;
/// The largest limit in tokens.
const MAX_TOKENS: i64 = 1_000_000_000_000_000;

/// Checks a limit in dollars and tokens. The names of both fields are used in errors.
pub fn parse_limit(
    usd: Option<f64>,
    usd_field: &str,
    tokens: Option<i64>,
    tokens_field: &str,
) -> Result<Limit, Invalid> {
    if usd.is_some_and(|usd| !(0.000_001..=MAX_USD).contains(&usd)) {
        return Err(Invalid::new(usd_field, "must be at least 0.000001 and at most 1000000000 dollars"));
    }
    if tokens.is_some_and(|tokens| !(1..=MAX_TOKENS).contains(&tokens)) {
        return Err(Invalid::new(tokens_field, format!("must be 1 to {MAX_TOKENS}")));
    }
    #[expect(clippy::cast_possible_truncation, reason = "within the limit above")]
    let microusd = usd.map(|usd| (usd * 1e6).round() as i64);
    Ok(Limit { microusd, tokens })
}

/// The settings for the execution of a workflow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WorkflowSettings {
    /// The maximum number of concurrent tasks.
    pub max_concurrent: usize,
    pub budget: Limit,
    pub selector: SelectorKind,
    /// Whether a model evaluates each result before its task completes.
    pub evaluate: bool,
    /// Settings that were stored before this field existed are read as `rules`.
    pub threading: ThreadingKind,
    pub on_failure: OnFailure,
    /// The agent that plans. `None` means the agent named `task-planner`.
    pub planner: Option<String>,
    /// The maximum size of the earlier results in the prompt of a task, in tokens.
    pub context_tokens: usize,
    pub max_tasks: usize,
    /// How often the run of a task is resumed after a limit.
    pub max_resumes: i64,
    /// The model of every run of the workflow, instead of those of the agents. It is stored only if it is set,
    /// because an older server does not read a field that it does not know.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelConfig>,
    /// The model that judges for this workflow if the server has no judge model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub judge: Option<ModelConfig>,
}

impl WorkflowSettings {
    /// Whether the settings ask for a model that judges, and do not leave it to the configuration.
    pub fn asks_for_judge(&self) -> bool {
        !self.judge_fields().is_empty() || self.threading == ThreadingKind::Llm
    }

    /// The fields that need a model that judges. Threading does not: its rules decide if no model answers.
    pub fn judge_fields(&self) -> Vec<&'static str> {
        let fields = [("selector", self.selector == SelectorKind::Llm), ("evaluate", self.evaluate)];
        fields.into_iter().filter(|(_, asks)| *asks).map(|(field, _)| field).collect()
    }
}

impl Default for WorkflowSettings {
    fn default() -> Self {
        Self {
            max_concurrent: 8,
            budget: Limit::default(),
            selector: SelectorKind::Hybrid,
            evaluate: false,
            threading: ThreadingKind::Rules,
            on_failure: OnFailure::Escalate,
            planner: None,
            context_tokens: 8_000,
            max_tasks: MAX_TASKS,
            max_resumes: 2,
            model: None,
            judge: None,
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Workflow {
    pub id: WorkflowId,
    pub project: ProjectId,
    pub description: String,
    pub status: WorkflowStatus,
    pub settings: WorkflowSettings,
    pub escalation: Option<Escalation>,
    /// What was done, what failed and why, the cost, and where the results are.
    pub summary: Option<String>,
    /// The newest run of the planner, and the number of planning attempts.
    pub planner_run: Option<RunId>,
    pub plan_attempts: i64,
    /// The dispatcher that holds the lease.
    pub owner: Option<String>,
    /// Incremented with every change of its tasks and edges.
    pub revision: i64,
    /// The `seq` of the newest event.
    pub event_seq: i64,
    pub started_by: Option<TokenId>,
    /// The run that started the workflow, if an agent did.
    pub started_by_run: Option<RunId>,
    pub origin: WorkflowOrigin,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub completed_at: Option<Timestamp>,
}

/// What started a workflow, and what its runs inherit from that.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct WorkflowOrigin {
    /// The trigger that started the workflow; `None` if somebody asked for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trigger: Option<TriggerOrigin>,
    /// The run that wrote the change that started the workflow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<RunId>,
    /// How many runs triggered one another before the workflow.
    pub cause_depth: i64,
    /// The trace context (`traceparent`) of the request that started the workflow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
}

impl WorkflowOrigin {
    /// The schedule that started the workflow.
    pub fn schedule(&self) -> Option<ScheduleId> {
        match self.trigger {
            Some(TriggerOrigin::Schedule { schedule, .. }) => Some(schedule),
            _ => None,
        }
    }
}

/// The firing of a trigger that started a workflow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum TriggerOrigin {
    Schedule {
        schedule: ScheduleId,
        name: String,
        /// The time that the schedule was due.
        at: Timestamp,
    },
    Event {
        name: String,
        event: EventKind,
        /// The object, relationship or document that the event is about.
        entity: Uuid,
        entity_type: String,
        version: i64,
    },
}

/// Why a workflow waits for a person, and the available options.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Escalation {
    pub reason: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<ObjectId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub discussion: Option<ObjectId>,
    /// A subset of: retry, reassign, skip, decide, cancel.
    pub options: Vec<String>,
    pub at: Timestamp,
}

/// An event of a workflow: a decision and its reason.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkflowEvent {
    pub seq: i64,
    /// One of the kinds of [`WorkflowEventBody`](crate::workflow_event::WorkflowEventBody).
    pub kind: String,
    pub task: Option<ObjectId>,
    pub run: Option<RunId>,
    /// Contains `reason` and further details.
    pub data: Value,
    pub at: Timestamp,
}

string_enum! {
    /// What a run must submit for a workflow besides its text.
    Deliverable {
        TestVerdict = "test_verdict",
        ReviewVerdict = "review_verdict",
        Vote = "vote",
    }
}

/// Ties a run to a workflow. A spawned run inherits only the workflow and the task.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WorkflowLink {
    pub workflow: Option<WorkflowId>,
    pub task: Option<ObjectId>,
    /// Set for an attempt at the task. The messages of the run are also written to this session.
    pub session: Option<ObjectId>,
    /// Set for a turn in a discussion. The index of the turn is the `child_index` of the run.
    pub discussion: Option<ObjectId>,
    pub deliverable: Option<Deliverable>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn settings_that_were_stored_before_one_existed_still_read() {
        let stored = json!({ "max_concurrent": 2, "selector": "rules", "evaluate": true });
        let settings: WorkflowSettings = serde_json::from_value(stored).unwrap();
        assert_eq!((settings.max_concurrent, settings.evaluate), (2, true));
        assert_eq!(settings.threading, ThreadingKind::Rules);
        let updated = WorkflowSettings { threading: ThreadingKind::Llm, ..settings };
        let again: WorkflowSettings =
            serde_json::from_value(serde_json::to_value(&updated).unwrap()).unwrap();
        assert_eq!(again, updated);
    }
}
