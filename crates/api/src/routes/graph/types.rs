//! The types of a project's objects and relationships, with their numbers.

use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use crate::{
    App,
    auth::InProject,
    response::{Envelope, Result, ok},
};

/// The most types of either kind in an answer.
const MAX_TYPES: usize = 1_000;

/// How many objects and relationships of each type there are, the most frequent type first.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = TypeCounts)]
pub(super) struct TypeCountsView {
    #[schema(max_items = 1000)]
    objects: Vec<TypeCountView>,
    #[schema(max_items = 1000)]
    relationships: Vec<TypeCountView>,
    /// All live objects, also of types that are not listed.
    object_count: i64,
    /// All live relationships, also of types that are not listed.
    relationship_count: i64,
}

#[derive(Serialize, ToSchema)]
#[schema(as = TypeCount)]
pub(super) struct TypeCountView {
    #[serde(rename = "type")]
    type_: String,
    count: i64,
}

/// Counts the project's objects and relationships by type: the 1000 most frequent types of each.
#[utoipa::path(
    get, path = "/api/graph/types", tag = "graph", operation_id = "countTypes",
    responses((status = 200, description = "The counts", body = Envelope<TypeCountsView>)),
)]
pub(super) async fn count(State(app): State<App>, InProject(project): InProject) -> Result<TypeCountsView> {
    let counts = app.graph.count_types(project).await?;
    let total = |counts: &[(String, i64)]| counts.iter().map(|(_, count)| count).sum();
    ok(TypeCountsView {
        object_count: total(&counts.objects),
        relationship_count: total(&counts.relationships),
        objects: most_frequent(counts.objects),
        relationships: most_frequent(counts.relationships),
    })
}

/// Sorts by number, and types of the same number by name, as they come.
fn most_frequent(mut counts: Vec<(String, i64)>) -> Vec<TypeCountView> {
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    counts.into_iter().take(MAX_TYPES).map(|(type_, count)| TypeCountView { type_, count }).collect()
}
