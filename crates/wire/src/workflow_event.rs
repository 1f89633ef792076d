//! The events of a workflow. The server sends the recorded JSON; clients parse it by its kind.

use emergent_domain::{
    ids::WorkflowId,
    time::Timestamp,
    workflow::{WorkflowEvent, WorkflowStatus},
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;
use uuid::Uuid;

/// One thing that happened in a workflow: a decision and its reason. Its place is also the frame's
/// `id:`.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = WorkflowEvent)]
pub struct WorkflowEventView {
    pub seq: i64,
    /// Such as `task_started`, `task_completed`, `escalated`, `workflow_ended`.
    #[serde(rename = "type")]
    pub kind: String,
    pub workflow_id: Uuid,
    pub task_id: Option<Uuid>,
    pub run_id: Option<Uuid>,
    /// `reason`, and whatever else there is to know.
    #[schema(value_type = Object)]
    pub data: Value,
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
}

impl WorkflowEventView {
    pub fn new(workflow: WorkflowId, event: WorkflowEvent) -> Self {
        Self {
            seq: event.seq,
            kind: event.kind,
            workflow_id: workflow.0,
            task_id: event.task.map(Into::into),
            run_id: event.run.map(Into::into),
            data: event.data,
            at: event.at,
        }
    }

    /// Parses the data according to the kind. Returns [`WorkflowEventBody::Unknown`] if that is not possible.
    pub fn body(&self) -> WorkflowEventBody {
        let data = if self.data.is_null() { json!({}) } else { self.data.clone() };
        let tagged = json!({ "type": self.kind, "data": data });
        serde_json::from_value(tagged).unwrap_or(WorkflowEventBody::Unknown)
    }
}

/// The parsed data of an event. Every kind that a workflow records has a variant here. A field that an older
/// record lacks is `None`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(tag = "type", content = "data", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum WorkflowEventBody {
    WorkflowStarted {
        description: Option<String>,
    },
    PlanningStarted {},
    PlanMade {
        reason: Option<String>,
    },
    PlanRefused {
        reason: Option<String>,
    },
    WorkflowResumed {
        reason: Option<String>,
    },
    BudgetChanged {
        reason: Option<String>,
    },
    WorkflowEnded {
        status: Option<WorkflowStatus>,
        reason: Option<String>,
    },
    /// A person has to decide how the workflow continues.
    Escalated {
        reason: Option<String>,
    },
    TaskAdded {
        key: Option<String>,
    },
    /// Tasks that a discussion requested could not be added.
    TasksRefused {
        reason: Option<String>,
    },
    TaskStarted {
        agent: Option<String>,
        attempt: Option<i64>,
        reason: Option<String>,
    },
    TaskResumed {
        agent: Option<String>,
        attempt: Option<i64>,
        reason: Option<String>,
    },
    TaskCompleted {
        reason: Option<String>,
    },
    TaskFailed {
        reason: Option<String>,
    },
    TaskSkipped {
        reason: Option<String>,
    },
    TaskPaused {
        reason: Option<String>,
    },
    TaskAskedAgain {
        reason: Option<String>,
    },
    TaskWaiting {
        reason: Option<String>,
    },
    /// A model that is asked about a task, or that a run calls, failed, and is asked again after a wait.
    ModelRetry {
        asker: Option<String>,
        agent: Option<String>,
        error: Option<String>,
        wait_ms: Option<u64>,
    },
    /// A model gave no usable answer to a question about the task.
    JudgeFailed {
        role: Option<String>,
        reason: Option<String>,
    },
    TaskRetried {
        reason: Option<String>,
    },
    TaskSentBack {
        reason: Option<String>,
    },
    TaskReopened {
        reason: Option<String>,
    },
    TaskVerdict {
        verdict: Option<String>,
        reason: Option<String>,
    },
    DiscussionStarted {
        topic: Option<String>,
        /// What was asked for and cannot hold, such as the kind of a review.
        note: Option<String>,
    },
    DiscussionTurn {
        agent: Option<String>,
        phase: Option<String>,
        round: Option<i64>,
    },
    DiscussionEntry {
        agent: Option<String>,
        entry_type: Option<String>,
        round: Option<i64>,
        text: Option<String>,
    },
    DiscussionResolved {
        text: Option<String>,
    },
    DiscussionEscalated {
        reason: Option<String>,
    },
    DiscussionDecided {
        reason: Option<String>,
    },
    /// A kind that a newer server records.
    #[serde(skip)]
    Unknown,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(kind: &str, data: Value) -> WorkflowEventBody {
        let id = Uuid::nil();
        let event = json!({ "seq": 1, "type": kind, "workflowId": id, "taskId": null, "runId": null,
            "data": data, "at": "2026-01-01T00:00:00Z" });
        serde_json::from_value::<WorkflowEventView>(event).unwrap().body()
    }

    #[test]
    fn data_is_parsed_by_kind_and_an_unknown_kind_is_not_an_error() {
        let ended = WorkflowEventBody::WorkflowEnded {
            status: Some(WorkflowStatus::Failed),
            reason: Some("no money".to_owned()),
        };
        assert_eq!(
            body("workflow_ended", json!({ "status": "failed", "reason": "no money", "more": 1 })),
            ended
        );
        assert_eq!(body("planning_started", Value::Null), WorkflowEventBody::PlanningStarted {});
        assert_eq!(body("something_new", json!({ "a": 1 })), WorkflowEventBody::Unknown);
    }
}
