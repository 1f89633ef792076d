//! Creates an object, or changes the existing one with the same type and key.

use axum::extract::State;
use emergent_domain::token::Scope;
use emergent_graph::UpsertOutcome;

use crate::{
    App,
    auth::{AsActor, Caller},
    extract::Json,
    response::{Envelope, Result, created, ok, written},
    views::object::{CreateObject, ObjectView},
};

/// Creates the object with this type and key, or updates the existing one. Of an existing one, the answer has only what
/// identifies it without the scope `graph:read`.
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
    caller: Caller,
    AsActor(actor): AsActor,
    Json(body): Json<CreateObject>,
) -> Result<ObjectView> {
    let (object, outcome) = app.graph.upsert_object(actor, body.into()).await?;
    if outcome == UpsertOutcome::Created {
        return created(object);
    }
    written(&caller, Scope::GraphRead, ok(object))
}
