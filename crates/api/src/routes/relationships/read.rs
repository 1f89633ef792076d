//! Lists and returns relationships.

use axum::extract::State;
use emergent_domain::{
    cursor::Page,
    ids::{ObjectId, ProjectId, RelationshipId},
    object_ref::ObjectRef,
};
use emergent_graph::RelationshipFilter;
use serde::Deserialize;
use utoipa::IntoParams;

use crate::{
    ApiError, App,
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
    /// Only relationships from this object: its id, or `Type/key`.
    #[param(value_type = Option<String>)]
    from_id: Option<ObjectRef>,
    /// Only relationships to this object: its id, or `Type/key`.
    #[param(value_type = Option<String>)]
    to_id: Option<ObjectRef>,
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
        from: resolve_end(&app, project, query.from_id).await?,
        to: resolve_end(&app, project, query.to_id).await?,
    };
    page(app.graph.list_relationships(project, filter, requested).await?)
}

async fn resolve_end(
    app: &App,
    project: ProjectId,
    end: Option<ObjectRef>,
) -> std::result::Result<Option<ObjectId>, ApiError> {
    match end {
        Some(reference) => Ok(Some(app.graph.resolve_object(project, reference).await?)),
        None => Ok(None),
    }
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
