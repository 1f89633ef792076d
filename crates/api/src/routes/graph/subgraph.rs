//! Creates objects and the relationships between them in one request.

use axum::extract::State;
use emergent_domain::token::Scope;

use crate::{
    App,
    auth::{AsActor, Caller},
    extract::Json,
    response::{Envelope, Result, created, written},
    views::{
        bulk::check_count,
        subgraph::{CreateSubgraph, SubgraphView, new_subgraph, referenced_objects},
    },
};

/// Creates objects and relationships together, or none of them. A relationship that exists is returned; without the
/// scope `graph:read`, relationships are returned only with what identifies them.
#[utoipa::path(
    post, path = "/api/graph/subgraph", tag = "graph", operation_id = "createSubgraph",
    request_body = CreateSubgraph,
    responses((status = 201, description = "The created objects and relationships, in order", body = Envelope<SubgraphView>)),
)]
pub(super) async fn create(
    State(app): State<App>,
    caller: Caller,
    AsActor(actor): AsActor,
    Json(body): Json<CreateSubgraph>,
) -> Result<SubgraphView> {
    check_count("objects", body.objects.len())?;
    check_count("relationships", body.relationships.len())?;
    let ends = app.graph.resolve_objects(actor.project, referenced_objects(&body)).await?;
    let ends = ends.into_iter().collect::<emergent_graph::Result<Vec<_>>>()?;
    let subgraph = app.graph.create_subgraph(actor, new_subgraph(body, ends)?).await?;
    written(&caller, Scope::GraphRead, created(subgraph))
}
