//! Conversations and their messages. The frames of an answer's stream are in [`crate::chat_frame`].

use emergent_domain::{
    approval::{Approval, ApprovalKind},
    conversation::{
        ChatMemory, ChatMemoryStatus, ChatMessage, ChatMessageStatus, ChatRole, Citation, CitationKind,
        Conversation, ConversationStatus, RetrievalContext, RetrievedPassage,
    },
    run::Reason,
    time::Timestamp,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::{author::AuthorView, schema};

/// A message to be answered.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SendMessage {
    /// At most 65536 bytes.
    #[schema(min_length = 1, max_length = 65536)]
    pub message: String,
    /// Without it, a new conversation is made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation_id: Option<Uuid>,
    /// The agent of a new conversation. Without one, answers are based on what a search finds. Ignored for a
    /// conversation that exists: its agent never changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_definition_id: Option<Uuid>,
    /// The message goes on after this answer, or takes the place of this message of a person: both begin a branch.
    /// Without it, the message follows the newest one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_id: Option<Uuid>,
    /// While another message is being answered, this one waits for its turn; otherwise it is refused with 409.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub queue: bool,
}

/// A conversation without messages.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateConversation {
    /// Without one, the title is made from the first message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 200)]
    pub title: Option<String>,
    /// The agent that answers. Without one, answers are based on what a search finds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_definition_id: Option<Uuid>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UpdateConversation {
    #[schema(min_length = 1, max_length = 200)]
    pub title: String,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Conversation)]
pub struct ConversationView {
    pub id: Uuid,
    /// Empty until the first message, if none was given.
    pub title: String,
    /// Null: answers are based on what a search finds.
    pub agent_definition_id: Option<Uuid>,
    pub agent_name: Option<String>,
    #[schema(value_type = schema::ConversationStatus)]
    pub status: ConversationStatus,
    /// The run that answers, while the status is `answering`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active_run_id: Option<Uuid>,
    /// What kind of request its answer waits for; absent if it does not wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::ApprovalKind>)]
    pub waiting_kind: Option<ApprovalKind>,
    /// What the answer waits for, if it waits for a person: the run itself, or one below it. Not in lists.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waiting_for: Vec<WaitingForView>,
    pub message_count: i64,
    /// What the answers needed so far. Not in lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<ChatUsageView>,
    pub author: AuthorView,
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    pub updated_at: Timestamp,
}

/// A request to a person for which an answer waits.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = WaitingFor)]
pub struct WaitingForView {
    pub approval_id: Uuid,
    #[schema(value_type = schema::ApprovalKind)]
    pub kind: ApprovalKind,
    pub tool_name: String,
    /// The agent that asks, and its run.
    pub agent_name: String,
    pub run_id: Uuid,
}

impl From<Approval> for WaitingForView {
    fn from(approval: Approval) -> Self {
        Self {
            approval_id: approval.id.0,
            kind: approval.kind,
            tool_name: approval.tool,
            agent_name: approval.agent_name,
            run_id: approval.run.0,
        }
    }
}

impl From<Conversation> for ConversationView {
    fn from(conversation: Conversation) -> Self {
        Self {
            id: conversation.id.0,
            title: conversation.title,
            agent_definition_id: conversation.agent.map(|agent| agent.0),
            agent_name: conversation.agent_name,
            status: conversation.status,
            active_run_id: conversation.active_run.map(|run| run.0),
            waiting_kind: None,
            waiting_for: Vec::new(),
            message_count: conversation.message_count,
            usage: None,
            author: conversation.author.into(),
            created_at: conversation.created_at,
            updated_at: conversation.updated_at,
        }
    }
}

/// Tokens and costs of answers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ChatUsage)]
pub struct ChatUsageView {
    pub input_tokens: i64,
    pub output_tokens: i64,
    /// In US dollars. Null if the price of a model is unknown.
    pub cost: Option<f64>,
}

/// A message of a person (`user`), or the answer to one (`assistant`).
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ChatMessage)]
pub struct ChatMessageView {
    pub id: Uuid,
    pub conversation_id: Uuid,
    /// The message before this one in its branch.
    pub parent_id: Option<Uuid>,
    #[schema(value_type = schema::ChatRole)]
    pub role: ChatRole,
    pub content: String,
    #[schema(value_type = schema::ChatMessageStatus)]
    pub status: ChatMessageStatus,
    /// Why the answer is paused or failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Reason>)]
    pub reason: Option<Reason>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The id of the answer to a message of a person, also before there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer_id: Option<Uuid>,
    /// The run of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<Uuid>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retrieval_context: Option<RetrievalContextView>,
    /// What the answer is based on: at most 50, those that it names first.
    #[serde(default)]
    pub citations: Vec<CitationView>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<ChatUsageView>,
    /// How many tools the run of an answer called. Only in lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_count: Option<i64>,
    /// Present, and true, for an answer that a script gave instead of a model.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub rehearsal: bool,
    /// What became of the facts of a message of a person, if the agent has `config.remember`. Only in lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<ChatMemoryView>,
    pub author: AuthorView,
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
}

/// What became of the facts of a message.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ChatMemory)]
pub struct ChatMemoryView {
    #[schema(value_type = schema::ChatMemoryStatus)]
    pub status: ChatMemoryStatus,
    /// Why the message is not extracted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The message as a document, which starts the extraction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub document_id: Option<Uuid>,
}

impl From<ChatMemory> for ChatMemoryView {
    fn from(memory: ChatMemory) -> Self {
        Self {
            status: memory.status,
            reason: memory.reason,
            document_id: memory.document.map(|document| document.0),
        }
    }
}

impl From<ChatMessage> for ChatMessageView {
    fn from(message: ChatMessage) -> Self {
        let usage = message.input_tokens.map(|input_tokens| ChatUsageView {
            input_tokens,
            output_tokens: message.output_tokens.unwrap_or(0),
            cost: message.cost,
        });
        Self {
            id: message.id.0,
            conversation_id: message.conversation.0,
            parent_id: message.parent.map(|parent| parent.0),
            role: message.role,
            content: message.content,
            status: message.status,
            reason: message.reason,
            error: message.error,
            answer_id: message.answer.map(|answer| answer.0),
            run_id: message.run.map(|run| run.0),
            retrieval_context: message.retrieval_context.map(Into::into),
            citations: message.citations.into_iter().map(Into::into).collect(),
            usage,
            tool_call_count: None,
            rehearsal: false,
            memory: None,
            author: message.author.into(),
            created_at: message.created_at,
        }
    }
}

/// The run of an answer, and the passages that it was given.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = RetrievalContext)]
pub struct RetrievalContextView {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_run_id: Option<Uuid>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub passages: Vec<PassageView>,
}

impl From<RetrievalContext> for RetrievalContextView {
    fn from(context: RetrievalContext) -> Self {
        Self {
            agent_run_id: context.agent_run_id.map(|run| run.0),
            passages: context.passages.into_iter().map(Into::into).collect(),
        }
    }
}

/// An object or a part of a document that a search found.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Passage)]
pub struct PassageView {
    #[serde(flatten)]
    pub source: CitationView,
    pub text: String,
    pub score: f64,
}

impl From<RetrievedPassage> for PassageView {
    fn from(passage: RetrievedPassage) -> Self {
        let RetrievedPassage { source, text, score } = passage;
        Self { source: source.into(), text, score }
    }
}

/// Something that an answer is based on.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Citation)]
pub struct CitationView {
    #[schema(value_type = schema::CitationKind)]
    pub kind: CitationKind,
    pub id: Uuid,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub document_id: Option<Uuid>,
    /// The type of the object or relationship.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The position of a part of a document in it, from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<i64>,
    /// The object that a relationship starts at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_id: Option<Uuid>,
    /// The object that a relationship ends at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_id: Option<Uuid>,
}

impl From<Citation> for CitationView {
    fn from(citation: Citation) -> Self {
        let Citation { kind, id, document_id, type_, key, title, index, from_id, to_id } = citation;
        Self { kind, id, document_id, type_, key, title, index, from_id, to_id }
    }
}
