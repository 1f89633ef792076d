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
    let references = body.start_ids.clone();
    let start = match body.as_of {
        Some(as_of) => app.graph.resolve_objects_at(project, "startIds", references, as_of).await?,
        None => {
            let start = app.graph.resolve_objects(project, references).await?;
            start.into_iter().collect::<emergent_graph::Result<Vec<_>>>()?
        }
    };
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
    let (from, to) = (body.from_id.clone(), body.to_id.clone());
    let (from, to) = match body.as_of {
        Some(as_of) => (
            app.graph.resolve_object_at(project, "fromId", from, as_of).await?,
            app.graph.resolve_object_at(project, "toId", to, as_of).await?,
        ),
        None => {
            (app.graph.resolve_object(project, from).await?, app.graph.resolve_object(project, to).await?)
        }
    };
    ok(app.graph.shortest_path(project, body.into_query(from, to)).await?)
}
