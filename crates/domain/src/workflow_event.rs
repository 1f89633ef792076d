//! The events of a workflow. Each kind that is stored has one variant here, so that writers, streams
//! and clients agree on its name and its fields.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    ids::{ObjectId, RunId},
    task::TaskStatus,
    verdict::VerdictWord,
    workflow::WorkflowStatus,
};

/// The asker of a model call of a run.
pub const AGENT_ASKER: &str = "agent";

/// What happened. The name of the variant is the stored kind, its fields are the stored data, with their
/// names in camelCase.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", content = "data", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum WorkflowEventBody {
    WorkflowStarted {
        description: String,
        status: WorkflowStatus,
        tasks: usize,
    },
    PlanningStarted {
        attempt: i64,
    },
    PlanMade(WorkflowMove),
    PlanRefused {
        reason: String,
    },
    Escalated(WorkflowMove),
    WorkflowResumed {
        reason: String,
        by: EventActor,
    },
    /// A person replaced the budget. What has no limit is `None`.
    BudgetChanged {
        usd: Option<f64>,
        tokens: Option<i64>,
        reason: String,
        by: EventActor,
    },
    WorkflowEnded(WorkflowMove),
    TaskAdded {
        key: String,
        title: String,
        kind: String,
        assigned_agent: Option<String>,
        blocked_by: Vec<String>,
    },
    TaskStarted(AttemptStart),
    TaskResumed(AttemptStart),
    TaskCompleted(TaskMove),
    TaskRetried(TaskMove),
    TaskSentBack(TaskMove),
    TaskVerdict(TaskMove),
    TaskReopened(TaskMove),
    TaskFailed(TaskMove),
    TaskSkipped(TaskMove),
    TaskPaused(TaskMove),
    TaskAskedAgain(TaskMove),
    /// The task waits for something that its workflow does not drive.
    TaskWaiting {
        reason: String,
    },
    /// The provider failed while a model was asked about a task, outside any run or in a run of the workflow, which the
    /// event then has. It is asked again after a wait.
    ModelRetry {
        /// Who asks: `selector`, `threader`, `evaluator` or `triage`, or [`AGENT_ASKER`].
        asker: String,
        /// The name of the agent of the run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        agent: Option<String>,
        model: String,
        error: String,
        /// The number of failed attempts, from 1.
        attempt: u32,
        wait_ms: u64,
    },
    /// A model gave no usable answer to a question about the task, and the rules decided.
    JudgeFailed {
        /// What it was asked as, such as `evaluator` or `selector`.
        role: String,
        reason: String,
    },
    DiscussionStarted {
        discussion: ObjectId,
        topic: String,
        participants: Vec<String>,
        /// What was set and cannot hold, such as a quorum above the number of participants or the kind of a review.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        note: Option<String>,
    },
    DiscussionTurn {
        discussion: ObjectId,
        agent: String,
        phase: String,
        round: i64,
    },
    DiscussionEntry {
        discussion: ObjectId,
        agent: String,
        entry_type: String,
        round: i64,
        text: String,
    },
    DiscussionResolved {
        discussion: ObjectId,
        consensus_level: f64,
        text: String,
    },
    DiscussionEscalated {
        discussion: ObjectId,
        reason: String,
        options: Vec<String>,
    },
    /// A person decided an escalated discussion.
    DiscussionDecided {
        discussion: ObjectId,
        decision: Value,
        reason: String,
        by: EventActor,
    },
    /// The tasks that a decision asked for are invalid.
    TasksRefused {
        discussion: ObjectId,
        reason: String,
    },
}

/// A change of the workflow's status.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorkflowMove {
    pub status: WorkflowStatus,
    pub reason: String,
    /// What a person can do, if the workflow is escalated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub options: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
}

/// The start of an attempt at a task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AttemptStart {
    pub agent: String,
    pub attempt: i64,
    pub reason: String,
}

/// A change of a task's status.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskMove {
    pub reason: String,
    /// The verdict of the task's own attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<VerdictWord>,
    /// The status before, if the task moved without an attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<TaskStatus>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<EventActor>,
}

impl TaskMove {
    pub fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), verdict: None, from: None, by: None }
    }
}

/// Who caused an event: a person, or the run of an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum EventActor {
    Person,
    Run(RunId),
}

const PERSON: &str = "person";

impl From<EventActor> for String {
    fn from(actor: EventActor) -> Self {
        match actor {
            EventActor::Person => PERSON.to_owned(),
            EventActor::Run(run) => run.to_string(),
        }
    }
}

impl TryFrom<String> for EventActor {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        if text == PERSON {
            return Ok(EventActor::Person);
        }
        let run = text.parse().map_err(|_| format!("`{text}` is neither `{PERSON}` nor the id of a run"))?;
        Ok(EventActor::Run(run))
    }
}

impl WorkflowEventBody {
    /// The kind as it is stored.
    pub fn kind(&self) -> &'static str {
        match self {
            WorkflowEventBody::WorkflowStarted { .. } => "workflow_started",
            WorkflowEventBody::PlanningStarted { .. } => "planning_started",
            WorkflowEventBody::PlanMade(_) => "plan_made",
            WorkflowEventBody::PlanRefused { .. } => "plan_refused",
            WorkflowEventBody::Escalated(_) => "escalated",
            WorkflowEventBody::WorkflowResumed { .. } => "workflow_resumed",
            WorkflowEventBody::BudgetChanged { .. } => "budget_changed",
            WorkflowEventBody::WorkflowEnded(_) => "workflow_ended",
            WorkflowEventBody::TaskAdded { .. } => "task_added",
            WorkflowEventBody::TaskStarted(_) => "task_started",
            WorkflowEventBody::TaskResumed(_) => "task_resumed",
            WorkflowEventBody::TaskCompleted(_) => "task_completed",
            WorkflowEventBody::TaskRetried(_) => "task_retried",
            WorkflowEventBody::TaskSentBack(_) => "task_sent_back",
            WorkflowEventBody::TaskVerdict(_) => "task_verdict",
            WorkflowEventBody::TaskReopened(_) => "task_reopened",
            WorkflowEventBody::TaskFailed(_) => "task_failed",
            WorkflowEventBody::TaskSkipped(_) => "task_skipped",
            WorkflowEventBody::TaskPaused(_) => "task_paused",
            WorkflowEventBody::TaskAskedAgain(_) => "task_asked_again",
            WorkflowEventBody::TaskWaiting { .. } => "task_waiting",
            WorkflowEventBody::ModelRetry { .. } => "model_retry",
            WorkflowEventBody::JudgeFailed { .. } => "judge_failed",
            WorkflowEventBody::DiscussionStarted { .. } => "discussion_started",
            WorkflowEventBody::DiscussionTurn { .. } => "discussion_turn",
            WorkflowEventBody::DiscussionEntry { .. } => "discussion_entry",
            WorkflowEventBody::DiscussionResolved { .. } => "discussion_resolved",
            WorkflowEventBody::DiscussionEscalated { .. } => "discussion_escalated",
            WorkflowEventBody::DiscussionDecided { .. } => "discussion_decided",
            WorkflowEventBody::TasksRefused { .. } => "tasks_refused",
        }
    }

    /// The data as it is stored.
    pub fn data(&self) -> Value {
        // Strings, numbers and lists of them always serialise.
        let mut stored = serde_json::to_value(self).unwrap_or_default();
        stored["data"].take()
    }

    /// Reads a stored event. An unknown kind, or data that do not fit it, is an error.
    pub fn from_stored(kind: &str, data: &Value) -> Result<Self, serde_json::Error> {
        serde_json::from_value(serde_json::json!({ "kind": kind, "data": data }))
    }
}

#[cfg(test)]
mod tests;
