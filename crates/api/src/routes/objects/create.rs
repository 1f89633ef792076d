//! Creates one object.

use axum::extract::State;

use crate::{
    App,
    auth::AsActor,
    extract::Json,
    response::{Envelope, Result, created},
    views::object::{CreateObject, ObjectView},
};

/// Creates an object.
#[utoipa::path(
    post, path = "/api/graph/objects", tag = "objects", operation_id = "createObject",
    request_body = CreateObject,
    responses((status = 201, description = "The object", body = Envelope<ObjectView>)),
)]
pub(super) async fn create(
    State(app): State<App>,
    AsActor(actor): AsActor,
    Json(body): Json<CreateObject>,
) -> Result<ObjectView> {
    created(app.graph.create_object(actor, body.into()).await?)
}
