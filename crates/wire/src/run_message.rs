//! The messages of a run. The JSON of the content depends on the kind of message.

use emergent_domain::{
    chat::{Part, Usage},
    ids::RunId,
    run::{MessageRole, Reason},
    run_event::{MessageContent, RecordedMessage},
    time::Timestamp,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::{schema, tool_call::CallStatusView};

/// One message of a run's conversation.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = RunMessage)]
pub struct RunMessageView {
    /// A tool's result has the id of its call.
    pub id: Uuid,
    pub run_id: Uuid,
    #[schema(value_type = schema::MessageRole)]
    pub role: MessageRole,
    pub content: ContentView,
    pub step_number: i64,
    /// Of a model's answer; null for everything else.
    pub tokens: Option<MessageTokens>,
    /// Of a model's answer, in US dollars; null when nobody knows the price.
    pub cost: Option<f64>,
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
#[schema(as = MessageContent)]
pub enum ContentView {
    Result(ResultContent),
    Answer(AnswerContent),
    Text(TextContent),
}

/// Of a system prompt or a user. In the document nothing else may stand beside it: an assistant's
/// content would be one of these as well.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TextContent {
    pub text: String,
    /// The limit that made the server say it; absent when a user did.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Reason>)]
    pub injected: Option<Reason>,
    /// The text stands in for the conversation before it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub summary: bool,
}

/// Of an assistant.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AnswerContent {
    pub text: String,
    /// What the model thought aloud, when it told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thoughts: Option<String>,
    pub tool_calls: Vec<ToolCallRefView>,
}

/// Enough to list a call; the rest is at `tool-calls/{toolCallId}`.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ToolCallRef)]
pub struct ToolCallRefView {
    pub id: Uuid,
    pub tool_name: String,
    /// Absent in an event, which is about the moment the call was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<CallStatusView>,
}

/// Of a tool.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResultContent {
    pub tool_call_id: Uuid,
    pub tool_name: String,
    pub output: Value,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_error: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct MessageTokens {
    pub input: u64,
    pub output: u64,
    pub reasoning: u64,
    pub cache_read: u64,
    pub cache_write: u64,
}

impl From<Usage> for MessageTokens {
    fn from(usage: Usage) -> Self {
        let Usage { input, output, reasoning, cache_read, cache_write } = usage;
        Self { input, output, reasoning, cache_read, cache_write }
    }
}

impl RunMessageView {
    /// Builds the view of a message in an event. Its tool calls have no status, because they are only those
    /// that the message itself names.
    pub fn from_recorded(run: RunId, message: RecordedMessage) -> Self {
        let content = match message.content {
            MessageContent::Text { text, injected } => {
                ContentView::Text(TextContent { text, injected, summary: false })
            }
            MessageContent::Summary { text, .. } => {
                ContentView::Text(TextContent { text, injected: None, summary: true })
            }
            MessageContent::Parts(parts) => ContentView::Answer(answer_content(parts)),
        };
        Self {
            id: message.id.0,
            run_id: run.0,
            role: message.role,
            content,
            step_number: message.step,
            tokens: message.usage.map(Into::into),
            cost: message.cost,
            created_at: message.at,
        }
    }
}

/// Collects the parts of a model's answer.
fn answer_content(parts: Vec<Part>) -> AnswerContent {
    let mut answer = AnswerContent { text: String::new(), thoughts: None, tool_calls: Vec::new() };
    for part in parts {
        match part {
            Part::Text { text, .. } => answer.text.push_str(&text),
            Part::Thought { text, .. } => answer.thoughts.get_or_insert_default().push_str(&text),
            Part::Call(call) => {
                answer.tool_calls.push(ToolCallRefView { id: call.id.0, tool_name: call.name, status: None });
            }
            Part::Result(_) => {}
        }
    }
    answer
}
