//! Conversations of people with agents: their messages, what an answer is based on, and what an agent is shown of
//! the messages before.

mod citations;
mod history;
mod memory;
mod title;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{
    agent::string_enum,
    author::Author,
    ids::{AgentId, ChatMessageId, ConversationId, ProjectId, RunId},
    invalid::Invalid,
    run::{Reason, RunStatus},
    time::Timestamp,
};

pub use citations::{MAX_CITATIONS, find_citations};
pub use history::{HistoryTurn, MAX_HISTORY_TURNS, select_history};
pub use memory::{ChatMemory, ChatMemoryStatus};
pub use title::{MAX_TITLE_CHARS, check_title, title_from_message};

/// The maximum size of a message in bytes.
pub const MAX_MESSAGE_BYTES: usize = 64 << 10;
/// The maximum number of messages of a conversation, answers included.
pub const MAX_MESSAGES: i64 = 20_000;
/// The maximum number of messages of a conversation that wait for their answer.
pub const MAX_QUEUED: i64 = 20;

string_enum! {
    ConversationStatus {
        Idle = "idle",
        /// A message is being answered.
        Answering = "answering",
        Deleted = "deleted",
    }
}

string_enum! {
    ChatRole {
        User = "user",
        Assistant = "assistant",
    }
}

string_enum! {
    /// A message of a person is `queued`, `answering` or `answered`. An answer has one of the other statuses.
    ChatMessageStatus {
        /// The message waits until those before it are answered.
        Queued = "queued",
        Answering = "answering",
        Answered = "answered",
        Completed = "completed",
        Failed = "failed",
        /// The run of the answer reached a limit.
        Paused = "paused",
        /// Somebody stopped the answer, or its run was cancelled otherwise.
        Stopped = "stopped",
    }
}

impl ChatMessageStatus {
    /// The status of an answer whose run has ended with this status.
    pub fn from_run(status: RunStatus) -> Self {
        match status {
            RunStatus::Completed => Self::Completed,
            RunStatus::Paused => Self::Paused,
            RunStatus::Cancelled => Self::Stopped,
            _ => Self::Failed,
        }
    }
}

/// A conversation with one agent, or without an agent: then answers are based on what a search finds.
#[derive(Debug, Clone, PartialEq)]
pub struct Conversation {
    pub id: ConversationId,
    pub project: ProjectId,
    pub title: String,
    /// The agent that answers. It never changes.
    pub agent: Option<AgentId>,
    pub agent_name: Option<String>,
    pub status: ConversationStatus,
    /// The run that answers, while the status is `answering`.
    pub active_run: Option<RunId>,
    /// How many messages it has; also the `seq` of the newest one.
    pub message_count: i64,
    pub author: Author,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub deleted_at: Option<Timestamp>,
    /// The name that a caller from outside gave it. The caller knows the conversation by this name only.
    pub external_id: Option<String>,
}

/// A message of a person, or the answer to one.
#[derive(Debug, Clone, PartialEq)]
pub struct ChatMessage {
    pub id: ChatMessageId,
    pub project: ProjectId,
    pub conversation: ConversationId,
    /// The position in the conversation, from 1.
    pub seq: i64,
    /// The message before this one; `None` for the first one. Several messages may follow the same one: each of
    /// them begins a branch.
    pub parent: Option<ChatMessageId>,
    pub role: ChatRole,
    pub content: String,
    pub status: ChatMessageStatus,
    /// Why the answer is paused or failed.
    pub reason: Option<Reason>,
    pub error: Option<String>,
    /// The run that answers or answered; `None` while the message is queued, and if no run could be started.
    pub run: Option<RunId>,
    /// The id of the answer to this message, also before there is one; `None` for an answer.
    pub answer: Option<ChatMessageId>,
    pub retrieval_context: Option<RetrievalContext>,
    pub citations: Vec<Citation>,
    pub input_tokens: Option<i64>,
    pub output_tokens: Option<i64>,
    /// The cost in US dollars. `None` if the price of the model is unknown.
    pub cost: Option<f64>,
    /// Who wrote the message.
    pub author: Author,
    pub created_at: Timestamp,
}

/// What an answer is based on.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RetrievalContext {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_run_id: Option<RunId>,
    /// What a search found for the message. Only in a conversation without an agent.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub passages: Vec<RetrievedPassage>,
}

/// An object or a part of a document that a search found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RetrievedPassage {
    /// What an answer that is based on the passage cites.
    #[serde(flatten)]
    pub source: Citation,
    pub text: String,
    pub score: f64,
}

string_enum! {
    /// What a citation refers to.
    CitationKind {
        Object = "object",
        Relationship = "relationship",
        /// A part of a document.
        Chunk = "chunk",
        Run = "run",
    }
}

/// Something that an answer is based on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Citation {
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

/// Validates the text of a message.
pub fn check_message(text: &str) -> Result<(), Invalid> {
    if text.trim().is_empty() {
        return Err(Invalid::new("message", "is required: it says what to answer"));
    }
    if text.len() > MAX_MESSAGE_BYTES {
        return Err(Invalid::new("message", format!("is longer than {MAX_MESSAGE_BYTES} bytes")));
    }
    if text.contains('\0') {
        return Err(Invalid::new("message", "must not contain a NUL character"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_that_is_empty_too_long_or_has_a_nul_is_refused_by_name() {
        for text in ["", " \n", "a\0b", &"x".repeat(MAX_MESSAGE_BYTES + 1)] {
            assert_eq!(check_message(text).unwrap_err().problems[0].field, "message");
        }
        check_message(&"x".repeat(MAX_MESSAGE_BYTES)).unwrap();
    }
}
