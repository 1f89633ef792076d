use emergent_domain::merge::Source;
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

/// A passage that something was found in.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Source)]
pub(crate) struct SourceView {
    chunk_id: Uuid,
    document_id: Uuid,
    /// The document's.
    title: String,
    /// The chunk's place in the document, from 0.
    index: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    heading: Option<String>,
    /// Present and true when the document was deleted since.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false)]
    document_deleted: bool,
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
        }
    }
}
