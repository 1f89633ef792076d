//! Searches objects.

use axum::extract::State;

use crate::{
    App,
    auth::InProject,
    extract::Json,
    response::{Envelope, Result, ok},
    views::search::{SearchObjects, SearchView, search_query},
};

/// Searches objects by text, by meaning, or by both.
#[utoipa::path(
    post, path = "/api/graph/search", tag = "graph", operation_id = "searchObjects",
    request_body = SearchObjects,
    responses((status = 200, description = "The best first", body = Envelope<SearchView>)),
)]
pub(super) async fn search(
    State(app): State<App>,
    InProject(project): InProject,
    Json(body): Json<SearchObjects>,
) -> Result<SearchView> {
    ok(app.graph.search(project, search_query(body)?).await?)
}
