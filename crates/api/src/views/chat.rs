//! Converts conversations, their messages and the frames of an answer.

use emergent_chat::{
    ChatUsage, ConversationDetail, ListedConversation, ListedMessage, NewMessage,
    frame::{FrameBody, Meta, StoredAnswer, ToolFrame, ToolOutcome},
};
use emergent_domain::ids::{AgentId, ChatMessageId, ConversationId};
pub(crate) use emergent_wire::{chat::*, chat_frame::*};

use super::IntoView;
use crate::error::FailureBody;

impl IntoView<ConversationView> for ConversationDetail {
    fn into_view(self) -> ConversationView {
        let ConversationDetail { conversation, usage, waiting_for } = self;
        let ChatUsage { input_tokens, output_tokens, cost } = usage;
        let usage = Some(ChatUsageView { input_tokens, output_tokens, cost });
        let waiting_kind = waiting_for.first().map(|approval| approval.kind);
        let waiting_for = waiting_for.into_iter().map(Into::into).collect();
        ConversationView { usage, waiting_for, waiting_kind, ..conversation.into() }
    }
}

impl IntoView<ConversationView> for ListedConversation {
    fn into_view(self) -> ConversationView {
        ConversationView { waiting_kind: self.waiting_for, ..self.conversation.into() }
    }
}

impl IntoView<ChatMessageView> for ListedMessage {
    fn into_view(self) -> ChatMessageView {
        let ListedMessage { message, memory, tool_call_count, is_rehearsal } = self;
        let memory = memory.map(Into::into);
        ChatMessageView { memory, tool_call_count, rehearsal: is_rehearsal, ..message.into() }
    }
}

impl IntoView<ChatMessageView> for StoredAnswer {
    fn into_view(self) -> ChatMessageView {
        ChatMessageView { rehearsal: self.is_rehearsal, ..self.message.into() }
    }
}

/// Converts a message to be sent.
pub(crate) fn new_message(body: SendMessage) -> NewMessage {
    NewMessage {
        text: body.message,
        conversation: body.conversation_id.map(ConversationId),
        agent: body.agent_definition_id.map(AgentId),
        parent: body.parent_id.map(ChatMessageId),
        queue: body.queue,
    }
}

impl IntoView<ChatFrameView> for FrameBody {
    fn into_view(self) -> ChatFrameView {
        match self {
            FrameBody::Meta(meta) => meta_view(meta),
            FrameBody::Token { step, text, replace } => ChatFrameView::Token { text, step, replace },
            FrameBody::Tool(tool) => tool_view(tool),
            FrameBody::Error { reason, message } => {
                let code = reason.map_or("error", |reason| reason.as_str()).into();
                ChatFrameView::Error { error: FailureBody { code, message, details: None } }
            }
            FrameBody::Done(answer) => ChatFrameView::Done {
                status: answer.message.status,
                message: Box::new((*answer).into_view()),
            },
        }
    }
}

fn meta_view(meta: Meta) -> ChatFrameView {
    ChatFrameView::Meta {
        conversation_id: meta.conversation.0,
        message_id: meta.message.0,
        answer_id: meta.answer.0,
        run_id: meta.run.map(|run| run.0),
        queued: meta.run.is_none(),
        title: meta.title,
        agent_definition_id: meta.agent.map(|agent| agent.0),
        passages: meta.passages.into_iter().map(Into::into).collect(),
    }
}

fn tool_view(frame: ToolFrame) -> ChatFrameView {
    let ToolFrame { tool, call, outcome, truncated } = frame;
    let denied = matches!(outcome, ToolOutcome::Failed { denied: true, .. });
    let (status, input, result, error, approval_id) = match outcome {
        ToolOutcome::Started { input } => (ToolFrameStatus::Started, Some(input), None, None, None),
        ToolOutcome::Held { approval } => (ToolFrameStatus::Started, None, None, None, Some(approval.0)),
        ToolOutcome::Completed { result } => (ToolFrameStatus::Completed, None, Some(result), None, None),
        ToolOutcome::Approved => (ToolFrameStatus::Completed, None, None, None, None),
        ToolOutcome::Failed { error, .. } => (ToolFrameStatus::Error, None, None, Some(error), None),
    };
    ChatFrameView::McpTool {
        tool,
        status,
        tool_call_id: call.0,
        input,
        result,
        error,
        truncated,
        denied,
        approval_id,
    }
}
