//! Changes, deletes and restores a relationship.

use axum::extract::State;
use emergent_domain::{ids::RelationshipId, token::Scope};
use serde::Deserialize;
use utoipa::IntoParams;

use crate::{
    App,
    auth::{AsActor, Caller},
    extract::{Json, Path, Query},
    response::{Envelope, Result, ok, written},
    views::{
        expected_version,
        relationship::{RelationshipView, UpdateRelationship},
    },
};

/// Changes the properties or the weight of a relationship. Without the scope `graph:read`, the answer has only what
/// identifies the relationship.
#[utoipa::path(
    patch, path = "/api/graph/relationships/{id}", tag = "relationships",
    operation_id = "updateRelationship",
    params(("id" = Uuid, Path)), request_body = UpdateRelationship,
    responses((status = 200, description = "The changed relationship", body = Envelope<RelationshipView>)),
)]
pub(super) async fn update(
    State(app): State<App>,
    caller: Caller,
    AsActor(actor): AsActor,
    Path(id): Path<RelationshipId>,
    Json(body): Json<UpdateRelationship>,
) -> Result<RelationshipView> {
    written(&caller, Scope::GraphRead, ok(app.graph.update_relationship(actor, id, body.into()).await?))
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

/// Deletes a relationship. Without the scope `graph:read`, the answer has only what identifies the relationship.
#[utoipa::path(
    delete, path = "/api/graph/relationships/{id}", tag = "relationships",
    operation_id = "deleteRelationship",
    params(("id" = Uuid, Path), ExpectedVersion),
    responses((status = 200, description = "The tombstone", body = Envelope<RelationshipView>)),
)]
pub(super) async fn delete(
    State(app): State<App>,
    caller: Caller,
    AsActor(actor): AsActor,
    Path(id): Path<RelationshipId>,
    Query(expected): Query<ExpectedVersion>,
) -> Result<RelationshipView> {
    written(
        &caller,
        Scope::GraphRead,
        ok(app.graph.delete_relationship(actor, id, expected.expected_version).await?),
    )
}

/// Restores a deleted relationship, if both its ends exist and no other relationship of its type connects them.
#[utoipa::path(
    post, path = "/api/graph/relationships/{id}/restore", tag = "relationships",
    operation_id = "restoreRelationship",
    params(("id" = Uuid, Path)),
    responses((status = 200, description = "The relationship", body = Envelope<RelationshipView>)),
)]
pub(super) async fn restore(
    State(app): State<App>,
    caller: Caller,
    AsActor(actor): AsActor,
    Path(id): Path<RelationshipId>,
) -> Result<RelationshipView> {
    written(&caller, Scope::GraphRead, ok(app.graph.restore_relationship(actor, id).await?))
}
