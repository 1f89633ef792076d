//! Lists and returns relationships and their versions.

use axum::extract::State;
use emergent_domain::{
    ids::{ObjectId, ProjectId, RelationshipId},
    invalid::Invalid,
    object_ref::ObjectRef,
    time::Timestamp,
};
use emergent_graph::RelationshipFilter;
use serde::Deserialize;
use utoipa::IntoParams;

use crate::{
    ApiError, App,
    auth::InProject,
    extract::{Paging, Path, Query, paged_query},
    response::{Envelope, Result, ok, page},
    views::relationship::RelationshipView,
};

paged_query! {
    /// The filter and page of a list of relationships.
    #[serde(rename_all = "camelCase")]
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
        /// The relationships that were live at that moment, as they were then. A key names the object that had it then.
        #[param(value_type = Option<String>, format = DateTime)]
        as_of: Option<Timestamp>,
        /// True lists deleted relationships instead, as they were when they were deleted; `deletedAt` is the time.
        /// Those that were deleted with an object are left out: they are restored with it. Not with `asOf`.
        deleted: Option<bool>,
    }
}

/// Lists the project's relationships, newest first, as they are or as they were at a time, or the deleted ones.
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
    let requested = query.page()?;
    let (as_of, deleted) = (query.as_of, query.deleted == Some(true));
    let filter = RelationshipFilter {
        types: query.types,
        from: resolve_end(&app, project, "fromId", query.from_id, as_of).await?,
        to: resolve_end(&app, project, "toId", query.to_id, as_of).await?,
    };
    match as_of {
        Some(_) if deleted => {
            Err(Invalid::new("deleted", "must be absent with `asOf`, which lists what was live at that time")
                .into())
        }
        None if deleted => page(app.graph.list_deleted_relationships(project, filter, requested).await?),
        Some(as_of) => page(app.graph.list_relationships_at(project, filter, as_of, requested).await?),
        None => page(app.graph.list_relationships(project, filter, requested).await?),
    }
}

/// A key names the object that had it at the time. An id is not looked up: an unknown one matches no relationship.
async fn resolve_end(
    app: &App,
    project: ProjectId,
    field: &'static str,
    end: Option<ObjectRef>,
    as_of: Option<Timestamp>,
) -> std::result::Result<Option<ObjectId>, ApiError> {
    match (end, as_of) {
        (None, _) => Ok(None),
        (Some(ObjectRef::Id(id)), _) => Ok(Some(id)),
        (Some(reference), Some(as_of)) => {
            Ok(Some(app.graph.resolve_object_at(project, field, reference, as_of).await?))
        }
        (Some(reference), None) => Ok(Some(app.graph.resolve_object(project, reference).await?)),
    }
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct RelationshipAtQuery {
    /// The relationship as it was at that moment, with the sources that were known then, also if it ended since.
    #[param(value_type = Option<String>, format = DateTime)]
    as_of: Option<Timestamp>,
}

/// Returns one relationship, as it is or as it was at a time.
#[utoipa::path(
    get, path = "/api/graph/relationships/{id}", tag = "relationships", operation_id = "getRelationship",
    params(("id" = Uuid, Path), RelationshipAtQuery),
    responses((status = 200, description = "The relationship", body = Envelope<RelationshipView>)),
)]
pub(super) async fn get(
    State(app): State<App>,
    InProject(project): InProject,
    Path(id): Path<RelationshipId>,
    Query(query): Query<RelationshipAtQuery>,
) -> Result<RelationshipView> {
    match query.as_of {
        Some(as_of) => ok(app.graph.relationship_at_with_sources(project, id, as_of).await?),
        None => ok(app.graph.relationship_with_sources(project, id).await?),
    }
}

/// Lists all versions of a relationship, newest first, also of a deleted one.
#[utoipa::path(
    get, path = "/api/graph/relationships/{id}/history", tag = "relationships",
    operation_id = "getRelationshipHistory",
    params(("id" = Uuid, Path), Paging),
    responses((status = 200, description = "A page of versions", body = Envelope<Vec<RelationshipView>>)),
)]
pub(super) async fn history(
    State(app): State<App>,
    InProject(project): InProject,
    Path(id): Path<RelationshipId>,
    Query(paging): Query<Paging>,
) -> Result<Vec<RelationshipView>> {
    page(app.graph.relationship_history(project, id, paging.page()?).await?)
}
