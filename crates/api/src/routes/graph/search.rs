//! Searches objects.

use axum::extract::State;

use crate::{
    App,
    auth::InProject,
    extract::Json,
    response::{Envelope, Result, ok},
    views::search::{ObjectQuery, SearchObjects, SearchView, object_query},
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
    let ObjectQuery { query, group, budget_tokens, explain } = object_query(body)?;
    let found = app.graph.search(project, query).await?;
    let found: SearchView = app.graph.arrange_objects(project, found, group, budget_tokens).await?.into();
    ok(if explain { found } else { found.without_explanations() })
}
