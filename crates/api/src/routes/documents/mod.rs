//! `/api/documents`: ingested texts, their chunks, and the search in them.

mod create;
mod upload;

use std::collections::BTreeSet;

use axum::extract::State;
use emergent_domain::{
    ids::{ChunkId, DocumentId},
    token::Scope::{GraphRead, GraphWrite},
};
use emergent_graph::arrangement::arrange_chunks;
use serde::Deserialize;
use utoipa::IntoParams;
use uuid::Uuid;

use crate::{
    App,
    access::Routes,
    auth::{AsActor, Caller, InProject},
    endpoint::routes,
    extract::{BodyLimits, Json, Paging, Path, Query, paged_query},
    response::{Envelope, Result, ok, page, written},
    views::{
        document::{ChunkView, DocumentObjectView, DocumentView},
        search::{ChunkQuery, ChunkSearchView, SearchChunks, chunk_query},
    },
};

pub(super) fn routes() -> Routes {
    Routes::new()
        .scoped(GraphRead, routes!(list))
        .upload(GraphWrite, routes!(create::create))
        .merge(Routes::new().scoped(GraphRead, routes!(search)).limit_bodies(BodyLimits::SMALL))
        .scoped(GraphRead, routes!(get))
        .scoped(GraphWrite, routes!(delete))
        .scoped(GraphRead, routes!(chunks))
        .scoped(GraphRead, routes!(objects))
}

/// Lists the project's documents, newest first.
#[utoipa::path(
    get, path = "/api/documents", tag = "documents", operation_id = "listDocuments", params(Paging),
    responses((status = 200, description = "A page of documents", body = Envelope<Vec<DocumentView>>)),
)]
async fn list(
    State(app): State<App>,
    InProject(project): InProject,
    Query(paging): Query<Paging>,
) -> Result<Vec<DocumentView>> {
    page(app.graph.list_documents(project, paging.page()?).await?)
}

/// Searches chunks of documents by text, by meaning, or by both.
#[utoipa::path(
    post, path = "/api/documents/search", tag = "documents", operation_id = "searchDocuments",
    request_body = SearchChunks,
    responses((status = 200, description = "The best first", body = Envelope<ChunkSearchView>)),
)]
async fn search(
    State(app): State<App>,
    InProject(project): InProject,
    Json(body): Json<SearchChunks>,
) -> Result<ChunkSearchView> {
    let ChunkQuery { query, mode, limit, document, min_similarity, by_document, budget_tokens, explain } =
        chunk_query(body)?;
    let found = app.graph.search_chunks(project, &query, mode, limit, document, min_similarity).await?;
    let mut found: ChunkSearchView = arrange_chunks(found, by_document, budget_tokens)?.into();
    let documents: BTreeSet<Uuid> = found.hits.iter().map(|hit| hit.chunk.document_id).collect();
    let titles = app.graph.document_titles(project, documents.into_iter().map(DocumentId).collect()).await?;
    for hit in &mut found.hits {
        hit.document_title = titles.get(&DocumentId(hit.chunk.document_id)).cloned();
    }
    ok(if explain { found } else { found.without_explanations() })
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct DocumentQuery {
    /// Include the text that was extracted from the document.
    #[serde(default)]
    #[param(value_type = Option<bool>)]
    text: bool,
}

/// Returns one document.
#[utoipa::path(
    get, path = "/api/documents/{id}", tag = "documents", operation_id = "getDocument",
    params(("id" = Uuid, Path), DocumentQuery),
    responses((status = 200, description = "The document", body = Envelope<DocumentView>)),
)]
async fn get(
    State(app): State<App>,
    InProject(project): InProject,
    Path(id): Path<DocumentId>,
    Query(query): Query<DocumentQuery>,
) -> Result<DocumentView> {
    let document = DocumentView::from(app.graph.get_document(project, id).await?);
    if !query.text {
        return ok(document);
    }
    ok(document.with_text(app.graph.document_text(project, id).await?))
}

/// Deletes a document and its chunks. Without the scope `graph:read`, the answer has only what identifies the document.
#[utoipa::path(
    delete, path = "/api/documents/{id}", tag = "documents", operation_id = "deleteDocument",
    params(("id" = Uuid, Path)),
    responses((status = 200, description = "The deleted document", body = Envelope<DocumentView>)),
)]
async fn delete(
    State(app): State<App>,
    caller: Caller,
    AsActor(actor): AsActor,
    Path(id): Path<DocumentId>,
) -> Result<DocumentView> {
    written(&caller, GraphRead, ok(app.graph.delete_document(actor, id).await?))
}

/// Lists the chunks of a document, in the order of its text.
#[utoipa::path(
    get, path = "/api/documents/{id}/chunks", tag = "documents", operation_id = "listDocumentChunks",
    params(("id" = Uuid, Path), Paging),
    responses((status = 200, description = "A page of chunks", body = Envelope<Vec<ChunkView>>)),
)]
async fn chunks(
    State(app): State<App>,
    InProject(project): InProject,
    Path(id): Path<DocumentId>,
    Query(paging): Query<Paging>,
) -> Result<Vec<ChunkView>> {
    page(app.graph.document_chunks(project, id, paging.page()?).await?)
}

paged_query! {
    struct DocumentObjectsQuery {
        /// Only objects that were found in this chunk.
        #[serde(rename = "chunkId")]
        #[param(value_type = Option<Uuid>, rename = "chunkId")]
        chunk: Option<ChunkId>,
    }
}

/// Lists the objects that were found in a document, newest first, each with the chunks that are its sources.
#[utoipa::path(
    get, path = "/api/documents/{id}/objects", tag = "documents", operation_id = "listDocumentObjects",
    params(("id" = Uuid, Path), DocumentObjectsQuery),
    responses((status = 200, description = "A page of objects", body = Envelope<Vec<DocumentObjectView>>)),
)]
async fn objects(
    State(app): State<App>,
    InProject(project): InProject,
    Path(id): Path<DocumentId>,
    Query(query): Query<DocumentObjectsQuery>,
) -> Result<Vec<DocumentObjectView>> {
    let requested = query.page()?;
    page(app.graph.document_objects(project, id, query.chunk, requested).await?)
}
