//! The citations of an object or relationship: the chunks that back it.

use emergent_domain::merge::Source;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

/// A passage that something was found in.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Source)]
pub struct SourceView {
    pub chunk_id: Uuid,
    pub document_id: Uuid,
    /// The document's.
    pub title: String,
    /// The chunk's place in the document, from 0.
    pub index: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heading: Option<String>,
    /// Present and true when the document was deleted since.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false)]
    pub document_deleted: bool,
    /// The message, if the document is a message of a conversation that exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_id: Option<Uuid>,
    /// The conversation of the message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation_id: Option<Uuid>,
    /// The run that answered the message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<Uuid>,
}

impl From<Source> for SourceView {
    fn from(source: Source) -> Self {
        Self {
            chunk_id: source.chunk.0,
            document_id: source.document.0,
            title: source.title,
            index: source.index,
            heading: source.heading,
            document_deleted: source.deleted,
            message_id: source.message.map(|message| message.0),
            conversation_id: source.conversation.map(|conversation| conversation.0),
            run_id: source.run.map(|run| run.0),
        }
    }
}
