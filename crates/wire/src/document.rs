//! Documents and their chunks, and requests to ingest a document.

use emergent_domain::{
    document::{Chunk, Document, DocumentObject, FoundIn, NewDocument},
    json::JsonObject,
    time::Timestamp,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::object::ObjectView;

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Document)]
pub struct DocumentView {
    pub id: Uuid,
    pub title: String,
    pub mime_type: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_url: Option<String>,
    #[schema(value_type = Object)]
    pub metadata: JsonObject,
    /// SHA-256 of the bytes that came in.
    pub content_hash: String,
    /// Bytes of the extracted text.
    pub text_bytes: i64,
    pub chunk_count: i64,
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    /// The extracted text, when it was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// True in the answer to a write of somebody who may not read: only what identifies the result is there, and the other
    /// fields are empty.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false)]
    pub withheld: bool,
}

impl From<Document> for DocumentView {
    fn from(document: Document) -> Self {
        Self {
            id: document.id.0,
            title: document.title,
            mime_type: document.mime_type,
            source_url: document.source_url,
            metadata: document.metadata,
            content_hash: document.content_hash,
            text_bytes: document.text_bytes,
            chunk_count: document.chunk_count,
            created_at: document.created_at,
            text: None,
            withheld: false,
        }
    }
}

impl DocumentView {
    /// Adds the text that was extracted from the document.
    pub fn with_text(mut self, text: String) -> Self {
        self.text = Some(text);
        self
    }
}

/// A document as text. Files are sent as `multipart/form-data` instead.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateDocument {
    #[schema(min_length = 1, max_length = 1024)]
    pub title: String,
    pub content: String,
    /// Found out from the content when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_url: Option<String>,
    #[serde(default)]
    #[schema(value_type = Object)]
    pub metadata: Map<String, Value>,
}

impl From<CreateDocument> for NewDocument {
    fn from(body: CreateDocument) -> Self {
        Self {
            title: body.title,
            content: body.content.into_bytes(),
            mime_type: body.mime_type,
            source_url: body.source_url,
            metadata: body.metadata,
        }
    }
}

/// A file and what is known about it.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(rename_all = "camelCase")]
pub struct UploadDocument {
    #[schema(value_type = String, format = Binary)]
    pub file: Vec<u8>,
    /// The file's name when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    pub title: Option<String>,
    /// The part's own content type when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    pub mime_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    pub source_url: Option<String>,
    /// A JSON object.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    pub metadata: Option<String>,
}

/// A part of a document's text.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Chunk)]
pub struct ChunkView {
    pub id: Uuid,
    pub document_id: Uuid,
    /// Its place in the document, from 0.
    pub index: i64,
    /// Byte offsets into the document's text.
    pub start: i64,
    pub end: i64,
    pub tokens: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heading: Option<String>,
    pub text: String,
}

impl From<Chunk> for ChunkView {
    fn from(chunk: Chunk) -> Self {
        Self {
            id: chunk.id.0,
            document_id: chunk.document.0,
            index: chunk.index,
            start: chunk.start,
            end: chunk.end,
            tokens: chunk.tokens,
            heading: chunk.heading,
            text: chunk.text,
        }
    }
}

/// An object that was found in a document.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = DocumentObject)]
pub struct DocumentObjectView {
    pub object: ObjectView,
    /// The chunks of this document that are its sources, in the order of the text.
    #[schema(max_items = 50)]
    pub found_in: Vec<FoundInView>,
}

/// A chunk that is the source of an object. A chunk that several runs named is listed for each of them.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = FoundIn)]
pub struct FoundInView {
    pub chunk_id: Uuid,
    /// The chunk's place in the document, from 0.
    pub index: i64,
    /// The run that named the chunk; absent for a person or a program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<Uuid>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<Uuid>,
}

impl From<DocumentObject> for DocumentObjectView {
    fn from(found: DocumentObject) -> Self {
        Self {
            object: found.object.into(),
            found_in: found.found_in.into_iter().map(FoundInView::from).collect(),
        }
    }
}

impl From<FoundIn> for FoundInView {
    fn from(found: FoundIn) -> Self {
        Self {
            chunk_id: found.chunk.0,
            index: found.index,
            run_id: found.run.map(Into::into),
            tool_call_id: found.tool_call.map(Into::into),
        }
    }
}
