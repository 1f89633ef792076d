//! `POST /api/documents`: ingests a document.

use axum::extract::State;
use emergent_domain::token::Scope;

use super::upload::Upload;
use crate::{
    App,
    auth::{AsActor, Caller},
    response::{Envelope, Result, created, ok, written},
    views::document::{CreateDocument, DocumentView, UploadDocument},
};

/// Ingests a document (text, Markdown, HTML or PDF) and makes it searchable. The same content again
/// returns the existing document; without the scope `graph:read`, only with what identifies it.
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
    caller: Caller,
    AsActor(actor): AsActor,
    Upload(document): Upload,
) -> Result<DocumentView> {
    let (document, is_new) = app.graph.create_document(actor, document).await?;
    if is_new {
        return created(document);
    }
    written(&caller, Scope::GraphRead, ok(document))
}
