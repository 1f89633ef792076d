//! Lists and returns objects, their versions, their relationships, and similar objects.

use axum::extract::State;
use emergent_domain::{
    cursor::Page,
    filter::Filter,
    foreign_json,
    invalid::Invalid,
    query::{Direction, ObjectFilter},
    time::Timestamp,
};
use serde::Deserialize;
use utoipa::IntoParams;

use crate::{
    App,
    auth::InProject,
    extract::{AnyObjectPath, ObjectPath, ObjectRefPath, Paging, Query, fields::JsonMap, paged_query},
    response::{Envelope, Result, ok, page},
    views::{
        object::ObjectView,
        relationship::RelationshipView,
        schema,
        search::{SearchView, parse_limit},
    },
};

paged_query! {
    /// The filter and page of a list of objects.
    pub(super) struct ObjectListQuery {
        /// Only objects of one of these types.
        #[serde(default, rename = "type")]
        types: Vec<String>,
        /// Only objects with all of these labels.
        #[serde(default, rename = "label")]
        labels: Vec<String>,
        status: Option<String>,
        key: Option<String>,
        /// Conditions on properties, in the JSON format of `filters` in a search.
        filters: Option<String>,
        /// False leaves out tasks, sessions, messages and discussions, unless `type` names their type, as a search
        /// does. The default is true.
        #[serde(rename = "includeSystem")]
        include_system: Option<bool>,
        /// The objects that were live at that moment, as they were then. The filters apply to what they were.
        #[serde(rename = "asOf")]
        #[param(value_type = Option<String>, format = DateTime)]
        as_of: Option<Timestamp>,
        /// True lists deleted objects instead, as they were when they were deleted; `deletedAt` is the time. Not with
        /// `asOf`.
        deleted: Option<bool>,
    }
}

impl ObjectListQuery {
    fn into_filter(self) -> std::result::Result<(ObjectFilter, Page), Invalid> {
        let requested = self.page()?;
        let filters = match &self.filters {
            Some(text) => foreign_json::from_str::<Vec<JsonMap<Filter>>>(text)
                .map(|filters| filters.into_iter().map(|filter| filter.0).collect())
                .map_err(|failure| Invalid::new("filters", format!("is not a list of filters: {failure}")))?,
            None => Vec::new(),
        };
        let Self { types, labels, status, key, include_system, .. } = self;
        let filter = ObjectFilter { types, labels, status, key, filters, ..ObjectFilter::default() };
        filter.check()?;
        match include_system {
            Some(false) => Ok((filter.without_system_types(), requested)),
            _ => Ok((filter, requested)),
        }
    }
}

/// Lists the project's objects, newest first, as they are or as they were at a time, or the deleted ones.
#[utoipa::path(
    get, path = "/api/graph/objects", tag = "objects", operation_id = "listObjects",
    params(ObjectListQuery),
    responses((status = 200, description = "A page of objects", body = Envelope<Vec<ObjectView>>)),
)]
pub(super) async fn list(
    State(app): State<App>,
    InProject(project): InProject,
    Query(query): Query<ObjectListQuery>,
) -> Result<Vec<ObjectView>> {
    let (as_of, deleted) = (query.as_of, query.deleted == Some(true));
    let (filter, requested) = query.into_filter()?;
    match as_of {
        Some(_) if deleted => {
            Err(Invalid::new("deleted", "must be absent with `asOf`, which lists what was live at that time")
                .into())
        }
        None if deleted => page(app.graph.list_deleted_objects(project, filter, requested).await?),
        Some(as_of) => page(app.graph.list_objects_at(project, filter, as_of, requested).await?),
        None => page(app.graph.list_objects(project, filter, requested).await?),
    }
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ObjectAtQuery {
    /// The object as it was at that moment, with the sources that were known then. A key names the object that had it
    /// then.
    #[param(value_type = Option<String>, format = DateTime)]
    as_of: Option<Timestamp>,
}

/// Returns one object.
#[utoipa::path(
    get, path = "/api/graph/objects/{id}", tag = "objects", operation_id = "getObject",
    params(("id" = String, Path, description = "The id of an object, or `Type/key` with the slash as `%2F`"), ObjectAtQuery),
    responses((status = 200, description = "The object", body = Envelope<ObjectView>)),
)]
pub(super) async fn get(
    State(app): State<App>,
    InProject(project): InProject,
    ObjectRefPath(reference): ObjectRefPath,
    Query(query): Query<ObjectAtQuery>,
) -> Result<ObjectView> {
    match query.as_of {
        Some(as_of) => ok(app.graph.object_at_with_sources(project, reference, as_of).await?),
        None => {
            let id = app.graph.resolve_any_object(project, reference).await?;
            ok(app.graph.object_with_sources(project, id).await?)
        }
    }
}

/// Lists all versions of an object, newest first, also of a deleted one.
#[utoipa::path(
    get, path = "/api/graph/objects/{id}/history", tag = "objects", operation_id = "getObjectHistory",
    params(("id" = String, Path, description = "The id of an object, or `Type/key` with the slash as `%2F`"), Paging),
    responses((status = 200, description = "A page of versions", body = Envelope<Vec<ObjectView>>)),
)]
pub(super) async fn history(
    State(app): State<App>,
    InProject(project): InProject,
    AnyObjectPath(id): AnyObjectPath,
    Query(paging): Query<Paging>,
) -> Result<Vec<ObjectView>> {
    page(app.graph.object_history(project, id, paging.page()?).await?)
}

paged_query! {
    pub(super) struct EdgeListQuery {
        #[serde(default)]
        #[param(value_type = Option<schema::Direction>, inline)]
        direction: Direction,
        /// Only relationships of one of these types.
        #[serde(default, rename = "type")]
        types: Vec<String>,
        /// The relationships that were live at that moment, as they were then. A key names the object that had it then.
        #[serde(rename = "asOf")]
        #[param(value_type = Option<String>, format = DateTime)]
        as_of: Option<Timestamp>,
    }
}

/// Lists the relationships of an object, newest first, as they are or as they were at a time.
#[utoipa::path(
    get, path = "/api/graph/objects/{id}/edges", tag = "objects", operation_id = "listObjectEdges",
    params(("id" = String, Path, description = "The id of an object, or `Type/key` with the slash as `%2F`"), EdgeListQuery),
    responses((status = 200, description = "A page of relationships", body = Envelope<Vec<RelationshipView>>)),
)]
pub(super) async fn edges(
    State(app): State<App>,
    InProject(project): InProject,
    ObjectRefPath(reference): ObjectRefPath,
    Query(query): Query<EdgeListQuery>,
) -> Result<Vec<RelationshipView>> {
    let requested = query.page()?;
    let EdgeListQuery { direction, types, as_of, .. } = query;
    match as_of {
        Some(as_of) => {
            page(app.graph.object_edges_at(project, reference, (direction, types), as_of, requested).await?)
        }
        None => {
            let id = app.graph.resolve_any_object(project, reference).await?;
            page(app.graph.object_edges(project, id, direction, types, requested).await?)
        }
    }
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct SimilarQuery {
    /// Only objects of one of these types.
    #[serde(default, rename = "type")]
    types: Vec<String>,
    /// Only objects with all of these labels.
    #[serde(default, rename = "label")]
    labels: Vec<String>,
    status: Option<String>,
    /// The maximum number of results; the default is 10.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<i64>,
    /// Leaves out objects below this cosine; the default is the value of the embedder.
    #[serde(rename = "minSimilarity")]
    #[param(minimum = -1, maximum = 1)]
    min_similarity: Option<f64>,
}

/// Finds the objects whose vectors are nearest to the vector of this one.
#[utoipa::path(
    get, path = "/api/graph/objects/{id}/similar", tag = "objects", operation_id = "listSimilarObjects",
    params(("id" = String, Path, description = "The id of an object, or `Type/key` with the slash as `%2F`"), SimilarQuery),
    responses((status = 200, description = "The nearest first", body = Envelope<SearchView>)),
)]
pub(super) async fn similar(
    State(app): State<App>,
    InProject(project): InProject,
    ObjectPath(id): ObjectPath,
    Query(query): Query<SimilarQuery>,
) -> Result<SearchView> {
    let limit = parse_limit(query.limit)?;
    let SimilarQuery { types, labels, status, min_similarity, .. } = query;
    let filter = ObjectFilter { types, labels, status, ..ObjectFilter::default() };
    filter.check()?;
    ok(app.graph.similar(project, id, filter, limit, min_similarity).await?)
}
