//! The tool calls of a run.

use emergent_domain::{ids::RunId, run::ToolCallStatus, run_event::RecordedToolCall, time::Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;
use uuid::Uuid;

/// One call of a tool, whole.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ToolCall)]
pub struct ToolCallView {
    pub id: Uuid,
    pub run_id: Uuid,
    /// The assistant's message that asked for it.
    pub message_id: Uuid,
    pub tool_name: String,
    /// An object; a text when the model sent no JSON object.
    pub input: Value,
    /// Null until it is over.
    pub output: Option<Value>,
    pub status: CallStatusView,
    /// Present, and true, when the call was not made: a person or a rule denied it, or nobody decided in time. Its status
    /// is `error`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub denied: bool,
    /// Null until it is over. The time for which it waited for a person does not count.
    pub duration_ms: Option<i64>,
    pub step_number: i64,
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
}

impl ToolCallView {
    pub fn new(run: RunId, call: RecordedToolCall) -> Self {
        let denied = call.is_denied();
        Self {
            id: call.id.0,
            run_id: run.0,
            message_id: call.message.0,
            tool_name: call.tool,
            input: call.input,
            output: call.output,
            status: call.status.into(),
            denied,
            duration_ms: call.duration_ms,
            step_number: call.step,
            created_at: call.at,
        }
    }
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = ToolCallStatus)]
pub enum CallStatusView {
    /// A person has to decide first: about this call, or about another one of the same answer of the model.
    Held,
    Running,
    Completed,
    Error,
}

impl CallStatusView {
    pub fn as_str(self) -> &'static str {
        ToolCallStatus::from(self).as_str()
    }
}

impl From<ToolCallStatus> for CallStatusView {
    fn from(status: ToolCallStatus) -> Self {
        match status {
            // A pending call starts within moments, so the API does not distinguish the two.
            ToolCallStatus::Pending | ToolCallStatus::Running => Self::Running,
            ToolCallStatus::Held => Self::Held,
            ToolCallStatus::Completed => Self::Completed,
            ToolCallStatus::Error => Self::Error,
        }
    }
}

impl From<CallStatusView> for ToolCallStatus {
    fn from(status: CallStatusView) -> Self {
        match status {
            CallStatusView::Held => Self::Held,
            CallStatusView::Running => Self::Running,
            CallStatusView::Completed => Self::Completed,
            CallStatusView::Error => Self::Error,
        }
    }
}
