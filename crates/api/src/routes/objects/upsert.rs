//! Creates an object, or changes the existing one with the same type and key.

use axum::extract::State;
use emergent_graph::UpsertOutcome;

use crate::{
    App,
    auth::AsActor,
    extract::Json,
    response::{Envelope, Result, created_if},
    views::object::{CreateObject, ObjectView},
};

/// Creates the object with this type and key, or updates the existing one.
#[utoipa::path(
    put, path = "/api/graph/objects/upsert", tag = "objects", operation_id = "upsertObject",
    request_body = CreateObject,
    responses(
        (status = 200, description = "The existing object, changed or not", body = Envelope<ObjectView>),
        (status = 201, description = "The new object", body = Envelope<ObjectView>),
    ),
)]
pub(super) async fn upsert(
    State(app): State<App>,
    AsActor(actor): AsActor,
    Json(body): Json<CreateObject>,
) -> Result<ObjectView> {
    let (object, written) = app.graph.upsert_object(actor, body.into()).await?;
    created_if(written == UpsertOutcome::Created, object)
}
