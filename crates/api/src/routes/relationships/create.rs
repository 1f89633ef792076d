//! Creates one relationship, or many in one request.

use axum::extract::State;
use emergent_domain::{ids::ObjectId, relationship::NewRelationship, token::Scope};

use crate::{
    App,
    auth::{AsActor, Caller},
    extract::Json,
    response::{Envelope, Result, created, ok, written},
    views::{
        bulk::{BulkItem, BulkRelationships, bulk_items, check_count},
        relationship::{CreateRelationship, RelationshipView},
    },
};

/// Creates a relationship between two objects. If the same relationship exists, it is returned; without the scope
/// `graph:read`, only with what identifies it.
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
    caller: Caller,
    AsActor(actor): AsActor,
    Json(body): Json<CreateRelationship>,
) -> Result<RelationshipView> {
    let from = app.graph.resolve_object(actor.project, body.from_id.clone()).await?;
    let to = app.graph.resolve_object(actor.project, body.to_id.clone()).await?;
    let (relationship, is_new) = app.graph.create_relationship(actor, body.into_new(from, to)).await?;
    if is_new {
        return created(relationship);
    }
    written(&caller, Scope::GraphRead, ok(relationship))
}

/// Creates up to 1,000 relationships. The response has, in order, the relationship or the error of each
/// item. With `atomic`, the first error refuses all of them. Without the scope `graph:read`, the response has only what
/// identifies the relationships.
#[utoipa::path(
    post, path = "/api/graph/relationships/bulk", tag = "relationships",
    operation_id = "bulkCreateRelationships", request_body = BulkRelationships,
    responses((
        status = 200, description = "One result per item, in order", body = Envelope<Vec<BulkItem<RelationshipView>>>,
    )),
)]
pub(super) async fn bulk(
    State(app): State<App>,
    caller: Caller,
    AsActor(actor): AsActor,
    Json(body): Json<BulkRelationships>,
) -> Result<Vec<BulkItem<RelationshipView>>> {
    check_count("relationships", body.relationships.len())?;
    let ends = body.relationships.iter().flat_map(|edge| [edge.from_id.clone(), edge.to_id.clone()]);
    let ends = app.graph.resolve_objects(actor.project, ends.collect()).await?;
    let resolved = resolve_items(body.relationships, ends);
    if body.atomic {
        // The first end that names nothing refuses all items.
        let relationships = resolved.into_iter().collect::<emergent_graph::Result<_>>()?;
        let results = app.graph.bulk_create_relationships(actor, relationships, true).await?;
        return written(&caller, Scope::GraphRead, ok(bulk_items::<RelationshipView, _>(results)));
    }
    let mut failures = Vec::new();
    let mut relationships = Vec::with_capacity(resolved.len());
    for (index, item) in resolved.into_iter().enumerate() {
        match item {
            Ok(relationship) => relationships.push(relationship),
            Err(failure) => failures.push((index, failure)),
        }
    }
    let mut results = app.graph.bulk_create_relationships(actor, relationships, false).await?;
    // In ascending order, each failure ends up at the index of its item.
    for (index, failure) in failures {
        results.insert(index, Err(failure));
    }
    // Some of them may have been there before.
    written(&caller, Scope::GraphRead, ok(bulk_items::<RelationshipView, _>(results)))
}

/// Puts the ends of the items, two for each, into them. An item whose end was not found is an error.
fn resolve_items(
    items: Vec<CreateRelationship>,
    ends: Vec<emergent_graph::Result<ObjectId>>,
) -> Vec<emergent_graph::Result<NewRelationship>> {
    let mut ends = ends.into_iter();
    let mut next = move || ends.next().unwrap_or_else(|| Ok(ObjectId(uuid::Uuid::nil())));
    items
        .into_iter()
        .map(|item| {
            let (from, to) = (next(), next());
            Ok(item.into_new(from?, to?))
        })
        .collect()
}
