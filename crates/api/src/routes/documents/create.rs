//! `POST /api/documents`: ingests a document.

use axum::extract::State;

use super::upload::Upload;
use crate::{
    App,
    auth::AsActor,
    response::{Envelope, Result, created_if},
    views::document::{CreateDocument, DocumentView, UploadDocument},
};

/// Ingests a document (text, Markdown, HTML or PDF) and makes it searchable. The same content again
/// returns the existing document.
#[utoipa::path(
    post, path = "/api/documents", tag = "documents", operation_id = "createDocument",
    request_body(content(
        (CreateDocument = "application/json"),
        (UploadDocument = "multipart/form-data"),
    )),
    responses(
        (status = 200, description = "The existing document", body = Envelope<DocumentView>),
        (status = 201, description = "The new document", body = Envelope<DocumentView>),
    ),
)]
pub(super) async fn create(
    State(app): State<App>,
    AsActor(actor): AsActor,
    Upload(document): Upload,
) -> Result<DocumentView> {
    let (document, is_new) = app.graph.create_document(actor, document).await?;
    created_if(is_new, document)
}
