//! What was said in a run. The content's shape depends on who said it.

use emergent_domain::{
    chat::{Part, Usage},
    ids::RunId,
    run::{MessageRole, Reason},
    run_event::{MessageContent, RecordedMessage},
    time::Timestamp,
};
use emergent_executor::history::{RunMessage, RunMessageContent, ToolCallRef};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;
use uuid::Uuid;

use super::{run::ReasonView, tool_call::CallStatusView};

/// One message of a run's conversation.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = RunMessage)]
pub(crate) struct RunMessageView {
    /// A tool's result has the id of its call.
    id: Uuid,
    run_id: Uuid,
    #[schema(value_type = RoleView)]
    role: MessageRole,
    content: ContentView,
    step_number: i64,
    /// Of a model's answer; null for everything else.
    tokens: Option<MessageTokens>,
    /// Of a model's answer, in US dollars; null when nobody knows the price.
    cost: Option<f64>,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
}

#[derive(ToSchema)]
#[schema(as = MessageRole, rename_all = "snake_case")]
#[allow(dead_code, reason = "describes the domain's type")]
pub(crate) enum RoleView {
    System,
    User,
    Assistant,
    ToolResult,
}

#[derive(Serialize, ToSchema)]
#[serde(untagged)]
#[schema(as = MessageContent)]
pub(crate) enum ContentView {
    Result(ResultContent),
    Answer(AnswerContent),
    Text(TextContent),
}

/// Of a system prompt or a user. In the document nothing else may stand beside it: an assistant's
/// content would be one of these as well.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct TextContent {
    text: String,
    /// The limit that made the server say it; absent when a user did.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<ReasonView>)]
    injected: Option<Reason>,
    /// The text stands in for the conversation before it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    summary: bool,
}

/// Of an assistant.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AnswerContent {
    text: String,
    /// What the model thought aloud, when it told.
    #[serde(skip_serializing_if = "Option::is_none")]
    thoughts: Option<String>,
    tool_calls: Vec<ToolCallRefView>,
}

/// Enough to list a call; the rest is at `tool-calls/{toolCallId}`.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ToolCallRef)]
pub(crate) struct ToolCallRefView {
    id: Uuid,
    tool_name: String,
    /// Absent in an event, which is about the moment the call was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<CallStatusView>,
}

/// Of a tool.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ResultContent {
    tool_call_id: Uuid,
    tool_name: String,
    output: Value,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    is_error: bool,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MessageTokens {
    input: u64,
    output: u64,
    reasoning: u64,
    cache_read: u64,
    cache_write: u64,
}

impl From<Usage> for MessageTokens {
    fn from(usage: Usage) -> Self {
        let Usage { input, output, reasoning, cache_read, cache_write } = usage;
        Self { input, output, reasoning, cache_read, cache_write }
    }
}

impl From<RunMessage> for RunMessageView {
    fn from(message: RunMessage) -> Self {
        Self {
            id: message.id,
            run_id: message.run.0,
            role: message.role,
            content: message.content.into(),
            step_number: message.step,
            tokens: message.usage.map(Into::into),
            cost: message.cost,
            created_at: message.at,
        }
    }
}

impl From<RunMessageContent> for ContentView {
    fn from(content: RunMessageContent) -> Self {
        match content {
            RunMessageContent::Text { text, injected } => {
                Self::Text(TextContent { text, injected, summary: false })
            }
            RunMessageContent::Summary { text, .. } => {
                Self::Text(TextContent { text, injected: None, summary: true })
            }
            RunMessageContent::Answer { text, thoughts, calls } => {
                let tool_calls = calls.into_iter().map(Into::into).collect();
                Self::Answer(AnswerContent { text, thoughts, tool_calls })
            }
            RunMessageContent::Result { call, tool, output, is_error } => {
                Self::Result(ResultContent { tool_call_id: call.0, tool_name: tool, output, is_error })
            }
        }
    }
}

impl From<ToolCallRef> for ToolCallRefView {
    fn from(call: ToolCallRef) -> Self {
        Self { id: call.id.0, tool_name: call.tool, status: Some(call.status.into()) }
    }
}

impl RunMessageView {
    /// As an event tells it: the calls are those the message itself names.
    pub(crate) fn from_recorded(run: RunId, message: RecordedMessage) -> Self {
        Self {
            id: message.id.0,
            run_id: run.0,
            role: message.role,
            content: match message.content {
                MessageContent::Text { text, injected } => RunMessageContent::Text { text, injected }.into(),
                MessageContent::Summary { text, upto } => RunMessageContent::Summary { text, upto }.into(),
                MessageContent::Parts(parts) => ContentView::Answer(answer(parts)),
            },
            step_number: message.step,
            tokens: message.usage.map(Into::into),
            cost: message.cost,
            created_at: message.at,
        }
    }
}

fn answer(parts: Vec<Part>) -> AnswerContent {
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
