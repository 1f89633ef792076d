//! Documents: ingested texts, split into chunks that search can find.

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
    /// The SHA-256 hash of the ingested bytes. Ingesting the same bytes again returns the existing
    /// document.
    pub content_hash: String,
    /// The size of the extracted text in bytes.
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
    /// The start of the chunk, as a byte offset into the text of the document.
    pub start: i64,
    pub end: i64,
    pub tokens: i64,
    pub heading: Option<String>,
    pub text: String,
    pub created_at: Timestamp,
}
