//! Traverses the graph, and finds a path between two objects.

use axum::extract::State;

use crate::{
    App,
    auth::InProject,
    extract::Json,
    response::{Envelope, Result, ok},
    views::traverse::{FindPath, PathView, TraversalView, Traverse},
};

/// Traverses the graph breadth first from one or more objects.
#[utoipa::path(
    post, path = "/api/graph/traverse", tag = "graph", operation_id = "traverseGraph",
    request_body = Traverse,
    responses((status = 200, description = "What was reached", body = Envelope<TraversalView>)),
)]
pub(super) async fn traverse(
    State(app): State<App>,
    InProject(project): InProject,
    Json(body): Json<Traverse>,
) -> Result<TraversalView> {
    let start = app.graph.resolve_objects(project, body.start_ids.clone()).await?;
    let start = start.into_iter().collect::<emergent_graph::Result<Vec<_>>>()?;
    ok(app.graph.traverse(project, body.into_query(start)).await?)
}

/// Finds the shortest path between two objects.
#[utoipa::path(
    post, path = "/api/graph/path", tag = "graph", operation_id = "findPath", request_body = FindPath,
    responses((status = 200, description = "The path, if there is one", body = Envelope<PathView>)),
)]
pub(super) async fn path(
    State(app): State<App>,
    InProject(project): InProject,
    Json(body): Json<FindPath>,
) -> Result<PathView> {
    let from = app.graph.resolve_object(project, body.from_id.clone()).await?;
    let to = app.graph.resolve_object(project, body.to_id.clone()).await?;
    ok(app.graph.shortest_path(project, body.into_query(from, to)).await?)
}
