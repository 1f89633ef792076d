//! Documents: ingested texts, split into chunks that search can find.

use serde_json::{Map, Value};

use crate::{
    ids::{ChunkId, DocumentId, ProjectId, RunId, ToolCallId},
    json::JsonObject,
    object::Object,
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

/// An object that has chunks of a document as its sources.
#[derive(Debug, Clone, PartialEq)]
pub struct DocumentObject {
    pub object: Object,
    /// In the order of the text.
    pub found_in: Vec<FoundIn>,
}

/// A chunk that somebody named as the source of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FoundIn {
    pub chunk: ChunkId,
    pub index: i64,
    /// The run that named it; `None` for a person or a program.
    pub run: Option<RunId>,
    pub tool_call: Option<ToolCallId>,
}
