//! Changes, deletes and restores an object.

use axum::extract::State;
use emergent_domain::token::Scope;
use serde::Deserialize;
use utoipa::IntoParams;

use crate::{
    App,
    auth::{AsActor, Caller},
    extract::{Json, ObjectPath, ObjectRefPath, Query},
    response::{Envelope, Result, ok, written},
    views::{
        expected_version,
        object::{ObjectView, UpdateObject},
    },
};

/// Changes an object. A change without effect creates no version. Without the scope `graph:read`, the answer has only what
/// identifies the object.
#[utoipa::path(
    patch, path = "/api/graph/objects/{id}", tag = "objects", operation_id = "updateObject",
    params(("id" = String, Path, description = "The id of an object, or `Type/key` with the slash as `%2F`")), request_body = UpdateObject,
    responses((status = 200, description = "The changed object", body = Envelope<ObjectView>)),
)]
pub(super) async fn update(
    State(app): State<App>,
    caller: Caller,
    AsActor(actor): AsActor,
    ObjectPath(id): ObjectPath,
    Json(body): Json<UpdateObject>,
) -> Result<ObjectView> {
    written(&caller, Scope::GraphRead, ok(app.graph.update_object(actor, id, body.into()).await?))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ExpectedVersion {
    /// Delete only if this is the current version; otherwise 409 with the current version.
    #[serde(default, deserialize_with = "expected_version")]
    #[param(minimum = 1)]
    expected_version: Option<i64>,
}

/// Deletes an object and its relationships; `restore` restores them. Without the scope `graph:read`, the answer has only
/// what identifies the object.
#[utoipa::path(
    delete, path = "/api/graph/objects/{id}", tag = "objects", operation_id = "deleteObject",
    params(("id" = String, Path, description = "The id of an object, or `Type/key` with the slash as `%2F`"), ExpectedVersion),
    responses((status = 200, description = "The tombstone", body = Envelope<ObjectView>)),
)]
pub(super) async fn delete(
    State(app): State<App>,
    caller: Caller,
    AsActor(actor): AsActor,
    ObjectPath(id): ObjectPath,
    Query(expected): Query<ExpectedVersion>,
) -> Result<ObjectView> {
    written(
        &caller,
        Scope::GraphRead,
        ok(app.graph.delete_object(actor, id, expected.expected_version).await?),
    )
}

/// Restores a deleted object, with the relationships that were deleted with it. Without the scope `graph:read`, the answer
/// has only what identifies the object.
#[utoipa::path(
    post, path = "/api/graph/objects/{id}/restore", tag = "objects", operation_id = "restoreObject",
    params(("id" = String, Path, description = "The id of an object, or `Type/key` with the slash as `%2F`")),
    responses((status = 200, description = "The object", body = Envelope<ObjectView>)),
)]
pub(super) async fn restore(
    State(app): State<App>,
    caller: Caller,
    AsActor(actor): AsActor,
    ObjectRefPath(reference): ObjectRefPath,
) -> Result<ObjectView> {
    written(&caller, Scope::GraphRead, ok(app.graph.restore_named_object(actor, reference).await?))
}
