use emergent_domain::{ids::WorkflowId, time::Timestamp, workflow::WorkflowEvent};
use serde::{Deserialize, Serialize};
use serde_json::Value;
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
}
