use emergent_domain::{ids::WorkflowId, time::Timestamp, workflow::WorkflowEvent};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;
use uuid::Uuid;

/// One thing that happened in a workflow: a decision and its reason. Its place is also the frame's
/// `id:`.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = WorkflowEvent)]
pub(crate) struct WorkflowEventView {
    seq: i64,
    /// Such as `task_started`, `task_completed`, `escalated`, `workflow_ended`.
    #[serde(rename = "type")]
    kind: String,
    workflow_id: Uuid,
    task_id: Option<Uuid>,
    run_id: Option<Uuid>,
    /// `reason`, and whatever else there is to know.
    #[schema(value_type = Object)]
    data: Value,
    #[schema(value_type = String, format = DateTime)]
    at: Timestamp,
}

impl WorkflowEventView {
    pub(crate) fn new(workflow: WorkflowId, event: WorkflowEvent) -> Self {
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
