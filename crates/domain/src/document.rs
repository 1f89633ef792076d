//! Documents: what was read, cut into chunks that a search can find.

use serde_json::{Map, Value};

use crate::{
    ids::{ChunkId, DocumentId, ProjectId},
    json::JsonObject,
    time::Timestamp,
};

#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    pub id: DocumentId,
    pub project: ProjectId,
    pub title: String,
    pub mime_type: String,
    pub source_url: Option<String>,
    pub metadata: JsonObject,
    /// SHA-256 of the bytes that came in; the same bytes again are the same document.
    pub content_hash: String,
    /// Bytes of the extracted text.
    pub text_bytes: i64,
    pub chunk_count: i64,
    pub created_at: Timestamp,
}

#[derive(Debug, Clone, PartialEq)]
pub struct NewDocument {
    pub title: String,
    pub content: Vec<u8>,
    pub mime_type: Option<String>,
    pub source_url: Option<String>,
    pub metadata: Map<String, Value>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Chunk {
    pub id: ChunkId,
    pub document: DocumentId,
    pub index: i64,
    /// Byte offsets into the document's text.
    pub start: i64,
    pub end: i64,
    pub tokens: i64,
    pub heading: Option<String>,
    pub text: String,
    pub created_at: Timestamp,
}
