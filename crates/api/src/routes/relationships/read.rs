//! Lists and returns relationships.

use axum::extract::State;
use emergent_domain::{
    cursor::Page,
    ids::{ObjectId, RelationshipId},
};
use emergent_graph::RelationshipFilter;
use serde::Deserialize;
use utoipa::IntoParams;
use uuid::Uuid;

use crate::{
    App,
    auth::InProject,
    extract::{Path, Query},
    response::{Envelope, Result, ok, page},
    views::relationship::RelationshipView,
};

/// The filter and page of a list of relationships.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct RelationshipListQuery {
    /// Only relationships of one of these types.
    #[serde(default, rename = "type")]
    types: Vec<String>,
    from_id: Option<Uuid>,
    to_id: Option<Uuid>,
    /// The maximum number of results; the default is 50.
    #[param(minimum = 1, maximum = 100)]
    limit: Option<i64>,
    /// The `x-next-cursor` of the previous page.
    cursor: Option<String>,
}

/// Lists the project's relationships, newest first.
#[utoipa::path(
    get, path = "/api/graph/relationships", tag = "relationships", operation_id = "listRelationships",
    params(RelationshipListQuery),
    responses((status = 200, description = "A page of relationships", body = Envelope<Vec<RelationshipView>>)),
)]
pub(super) async fn list(
    State(app): State<App>,
    InProject(project): InProject,
    Query(query): Query<RelationshipListQuery>,
) -> Result<Vec<RelationshipView>> {
    let requested = Page::new(query.limit, query.cursor.as_deref())?;
    let filter = RelationshipFilter {
        types: query.types,
        from: query.from_id.map(ObjectId),
        to: query.to_id.map(ObjectId),
    };
    page(app.graph.list_relationships(project, filter, requested).await?)
}

/// Returns one relationship.
#[utoipa::path(
    get, path = "/api/graph/relationships/{id}", tag = "relationships", operation_id = "getRelationship",
    params(("id" = Uuid, Path)),
    responses((status = 200, description = "The relationship", body = Envelope<RelationshipView>)),
)]
pub(super) async fn get(
    State(app): State<App>,
    InProject(project): InProject,
    Path(id): Path<RelationshipId>,
) -> Result<RelationshipView> {
    ok(app.graph.relationship_with_sources(project, id).await?)
}
