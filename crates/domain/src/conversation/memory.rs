//! What becomes of a message of a person whose agent remembers what people write.

use crate::{
    agent::string_enum,
    ids::{ChatMessageId, ConversationId, DocumentId, ProjectId, RunId},
    time::Timestamp,
};

string_enum! {
    ChatMemoryStatus {
        /// The message is being answered.
        Waiting = "waiting",
        /// The message is answered, and a job stores it as a document.
        Queued = "queued",
        /// The message is stored as a document, which starts the extraction.
        Stored = "stored",
        /// The message is not extracted; the reason says why.
        Skipped = "skipped",
    }
}

/// A message of a person whose facts are to be extracted.
#[derive(Debug, Clone, PartialEq)]
pub struct ChatMemory {
    pub message: ChatMessageId,
    pub project: ProjectId,
    pub conversation: ConversationId,
    /// The run that answers the message.
    pub run: RunId,
    pub status: ChatMemoryStatus,
    /// Why the message is not extracted.
    pub reason: Option<String>,
    /// The message as a document.
    pub document: Option<DocumentId>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}
