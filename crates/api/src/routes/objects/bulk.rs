//! Creates many objects in one request.

use axum::extract::State;
use emergent_domain::object::NewObject;

use crate::{
    App,
    auth::AsActor,
    extract::Json,
    response::{Envelope, Result, ok},
    views::{
        bulk::{BulkItem, BulkObjects, bulk_items, check_count},
        object::ObjectView,
    },
};

/// Creates up to 1,000 objects. The response has, in order, the object or the error of each item. With
/// `atomic`, the first error refuses all of them.
#[utoipa::path(
    post, path = "/api/graph/objects/bulk", tag = "objects", operation_id = "bulkCreateObjects",
    request_body = BulkObjects,
    responses((status = 200, description = "One result per item, in order", body = Envelope<Vec<BulkItem<ObjectView>>>)),
)]
pub(super) async fn bulk(
    State(app): State<App>,
    AsActor(actor): AsActor,
    Json(body): Json<BulkObjects>,
) -> Result<Vec<BulkItem<ObjectView>>> {
    check_count("objects", body.objects.len())?;
    let objects = body.objects.into_iter().map(NewObject::from).collect();
    let results = app.graph.bulk_create_objects(actor, objects, body.atomic).await?;
    ok(bulk_items::<ObjectView, _>(results))
}
