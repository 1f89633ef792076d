//! Creates one relationship, or many in one request.

use axum::extract::State;
use emergent_domain::relationship::NewRelationship;

use crate::{
    App,
    auth::AsActor,
    extract::Json,
    response::{Envelope, Result, created_if, list},
    views::{
        bulk::{BulkItem, BulkRelationships, check_count},
        relationship::{CreateRelationship, RelationshipView},
    },
};

/// Creates a relationship between two objects. If the same relationship exists, it is returned.
#[utoipa::path(
    post, path = "/api/graph/relationships", tag = "relationships", operation_id = "createRelationship",
    request_body = CreateRelationship,
    responses(
        (status = 200, description = "The existing relationship", body = Envelope<RelationshipView>),
        (status = 201, description = "The new relationship", body = Envelope<RelationshipView>),
    ),
)]
pub(super) async fn create(
    State(app): State<App>,
    AsActor(actor): AsActor,
    Json(body): Json<CreateRelationship>,
) -> Result<RelationshipView> {
    let (relationship, is_new) = app.graph.create_relationship(actor, body.into()).await?;
    created_if(is_new, relationship)
}

/// Creates up to 1,000 relationships. The response has, in order, the relationship or the error of each
/// item. With `atomic`, the first error refuses all of them.
#[utoipa::path(
    post, path = "/api/graph/relationships/bulk", tag = "relationships",
    operation_id = "bulkCreateRelationships", request_body = BulkRelationships,
    responses((
        status = 200, description = "One result per item, in order", body = Envelope<Vec<BulkItem<RelationshipView>>>,
    )),
)]
pub(super) async fn bulk(
    State(app): State<App>,
    AsActor(actor): AsActor,
    Json(body): Json<BulkRelationships>,
) -> Result<Vec<BulkItem<RelationshipView>>> {
    check_count("relationships", body.relationships.len())?;
    let relationships = body.relationships.into_iter().map(NewRelationship::from).collect();
    list(app.graph.bulk_create_relationships(actor, relationships, body.atomic).await?)
}
