//! The frames of the stream of an answer.

use emergent_domain::conversation::ChatMessageStatus;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::{
    chat::{ChatMessageView, PassageView},
    envelope::FailureBody,
    schema,
};

/// One frame. Its `id:` says how far the reader is: a client that follows again with `Last-Event-ID` misses nothing
/// and receives nothing twice.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
#[schema(as = ChatFrame)]
// Each variant has its own `rename_all`, because the schema ignores `rename_all_fields`.
pub enum ChatFrameView {
    /// The first frame. A message that waits for its turn has `queued: true` and no `runId`; a second frame follows
    /// when its run is started.
    #[serde(rename_all = "camelCase")]
    Meta {
        conversation_id: Uuid,
        /// The message of the person.
        message_id: Uuid,
        /// The answer, which is stored when it has ended.
        answer_id: Uuid,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        run_id: Option<Uuid>,
        queued: bool,
        title: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        agent_definition_id: Option<Uuid>,
        /// What a search found for the message. Only in a conversation without an agent.
        passages: Vec<PassageView>,
    },
    /// The next piece of the text of a step.
    #[serde(rename_all = "camelCase")]
    Token {
        text: String,
        step: i64,
        /// Present, and true, when this text takes the place of all text of this step so far: the model was asked
        /// again.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        replace: bool,
    },
    /// A tool call of the agent.
    #[serde(rename_all = "camelCase")]
    McpTool {
        tool: String,
        status: ToolFrameStatus,
        tool_call_id: Uuid,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        input: Option<Value>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        result: Option<Value>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
        /// Present, and true, when `input` or `result` was too large for a frame: it is then the start of its JSON
        /// as a text. The run has all of it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        truncated: bool,
        /// Present, and true, when the call was not made: a person or a rule denied it, or nobody decided in time.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        denied: bool,
        /// The call waits until a person has decided about this approval or question (`/api/approvals/{id}`).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        approval_id: Option<Uuid>,
    },
    /// The answer failed, or the stream of it did; `code` is the reason of the run.
    Error { error: FailureBody },
    /// The last frame. `message` is the answer as it is stored.
    #[serde(rename_all = "camelCase")]
    Done {
        #[schema(value_type = schema::ChatMessageStatus)]
        status: ChatMessageStatus,
        message: Box<ChatMessageView>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolFrameStatus {
    Started,
    Completed,
    Error,
}
