//! Workflows: one graph of tasks being walked, and the decisions on the way.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    agent::string_enum,
    ids::{ObjectId, ProjectId, RunId, TokenId, WorkflowId},
    task::MAX_TASKS,
    time::Timestamp,
};

string_enum! {
    WorkflowStatus {
        /// The planner is making its tasks.
        Planning = "planning",
        Running = "running",
        Completed = "completed",
        Failed = "failed",
        /// A person has to say how it goes on.
        Escalated = "escalated",
        Cancelled = "cancelled",
    }
}

impl WorkflowStatus {
    /// Whether the dispatcher still has something to do, or to wait for by itself.
    pub fn is_active(self) -> bool {
        matches!(self, WorkflowStatus::Planning | WorkflowStatus::Running)
    }

    /// Final. An escalated or failed one can be resumed.
    pub fn is_terminal(self) -> bool {
        !self.is_active() && self != WorkflowStatus::Escalated
    }
}

string_enum! {
    /// Who chooses an agent for a task that names none.
    #[derive(Default)]
    SelectorKind {
        Rules = "rules",
        Llm = "llm",
        /// Rules where they are clear, a model where they are not.
        #[default]
        Hybrid = "hybrid",
    }
}

string_enum! {
    /// Who chooses what a task is told of the work before it.
    #[derive(Default)]
    ThreadingKind {
        /// What is nearest, as much as fits.
        #[default]
        Rules = "rules",
        /// A model leaves out and reorders where there is much to tell.
        Llm = "llm",
    }
}

string_enum! {
    /// What a task that failed for good means for the rest.
    #[derive(Default)]
    OnFailure {
        /// What waits for it is skipped, the rest goes on.
        Skip = "skip",
        /// What does not wait for it goes on, then a person decides.
        #[default]
        Escalate = "escalate",
    }
}

/// An amount that may be spent, or was.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Amount {
    /// Whole micro-dollars.
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
        amounts.fold(Self::default(), |one, other| one + other)
    }
}

/// What may be spent; `None` is without end.
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

    /// Whether this much fits.
    pub fn allows(self, amount: Amount) -> bool {
        self.microusd.is_none_or(|most| amount.microusd <= most)
            && self.tokens.is_none_or(|most| amount.tokens <= most)
    }
}

/// How a workflow is walked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WorkflowSettings {
    /// Tasks at once.
    pub max_concurrent: usize,
    pub budget: Limit,
    pub selector: SelectorKind,
    /// Whether a model looks at what a task brought before it counts as done.
    pub evaluate: bool,
    /// Settings that were stored before it existed read as rules.
    pub threading: ThreadingKind,
    pub on_failure: OnFailure,
    /// Who plans; `None`: the agent called `task-planner`.
    pub planner: Option<String>,
    /// How much of what went before a task is told.
    pub context_tokens: usize,
    pub max_tasks: usize,
    /// How often a task's run is resumed after a limit.
    pub max_resumes: i64,
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
    /// What was done, what failed and why, what it cost, where the results are.
    pub summary: Option<String>,
    /// The run that plans, or planned last, and how often that was tried.
    pub planner_run: Option<RunId>,
    pub plan_attempts: i64,
    /// Which dispatcher has it in hand.
    pub owner: Option<String>,
    /// Counts every change of its tasks and edges.
    pub revision: i64,
    /// The place of its newest event.
    pub event_seq: i64,
    pub started_by: Option<TokenId>,
    /// The run that started it, if an agent did.
    pub started_by_run: Option<RunId>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub completed_at: Option<Timestamp>,
}

/// Why a workflow waits for a person, and what that person can do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Escalation {
    pub reason: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<ObjectId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub discussion: Option<ObjectId>,
    /// Of: retry, reassign, skip, decide, cancel.
    pub options: Vec<String>,
    pub at: Timestamp,
}

/// What happened in a workflow: a decision and its reason.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkflowEvent {
    pub seq: i64,
    /// One of the kinds of [`WorkflowEventBody`](crate::workflow_event::WorkflowEventBody).
    pub kind: String,
    pub task: Option<ObjectId>,
    pub run: Option<RunId>,
    /// `reason` and whatever else there is to know.
    pub data: Value,
    pub at: Timestamp,
}

string_enum! {
    /// What a run for a workflow has to hand in besides its words.
    Deliverable {
        TestVerdict = "test_verdict",
        ReviewVerdict = "review_verdict",
        Vote = "vote",
    }
}

/// What a run has to do with a workflow. What it spawns has the workflow and the task only.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WorkflowLink {
    pub workflow: Option<WorkflowId>,
    pub task: Option<ObjectId>,
    /// Set for an attempt at the task: its messages are written there too.
    pub session: Option<ObjectId>,
    /// Set for a turn in a discussion, whose place is the run's `part`.
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
        let whole = WorkflowSettings { threading: ThreadingKind::Llm, ..settings };
        let again: WorkflowSettings = serde_json::from_value(serde_json::to_value(&whole).unwrap()).unwrap();
        assert_eq!(again, whole);
    }
}
