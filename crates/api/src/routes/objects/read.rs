//! Lists and returns objects, their versions, their relationships, and similar objects.

use axum::extract::State;
use emergent_domain::{
    cursor::Page,
    filter::Filter,
    invalid::Invalid,
    query::{Direction, ObjectFilter},
};
use serde::Deserialize;
use utoipa::IntoParams;

use crate::{
    App,
    auth::InProject,
    extract::{AnyObjectPath, ObjectPath, Paging, Query, fields::JsonMap},
    response::{Envelope, Result, ok, page},
    views::{
        object::ObjectView,
        relationship::RelationshipView,
        schema,
        search::{SearchView, parse_limit},
    },
};

/// The filter and page of a list of objects.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
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
    /// The maximum number of results; the default is 50.
    #[param(minimum = 1, maximum = 100)]
    limit: Option<i64>,
    /// The `x-next-cursor` of the previous page.
    cursor: Option<String>,
}

impl ObjectListQuery {
    fn into_filter(self) -> std::result::Result<(ObjectFilter, Page), Invalid> {
        let requested = Page::new(self.limit, self.cursor.as_deref())?;
        let filters = match &self.filters {
            Some(text) => serde_json::from_str::<Vec<JsonMap<Filter>>>(text)
                .map(|filters| filters.into_iter().map(|filter| filter.0).collect())
                .map_err(|failure| Invalid::new("filters", format!("is not a list of filters: {failure}")))?,
            None => Vec::new(),
        };
        let Self { types, labels, status, key, .. } = self;
        let filter = ObjectFilter { types, labels, status, key, filters, ..ObjectFilter::default() };
        filter.check()?;
        Ok((filter, requested))
    }
}

/// Lists the project's objects, newest first.
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
    let (filter, requested) = query.into_filter()?;
    page(app.graph.list_objects(project, filter, requested).await?)
}

/// Returns one object.
#[utoipa::path(
    get, path = "/api/graph/objects/{id}", tag = "objects", operation_id = "getObject",
    params(("id" = String, Path, description = "The id of an object, or `Type/key` with the slash as `%2F`")),
    responses((status = 200, description = "The object", body = Envelope<ObjectView>)),
)]
pub(super) async fn get(
    State(app): State<App>,
    InProject(project): InProject,
    ObjectPath(id): ObjectPath,
) -> Result<ObjectView> {
    ok(app.graph.object_with_sources(project, id).await?)
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

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct EdgeListQuery {
    #[serde(default)]
    #[param(value_type = Option<schema::Direction>, inline)]
    direction: Direction,
    /// Only relationships of one of these types.
    #[serde(default, rename = "type")]
    types: Vec<String>,
    /// The maximum number of results; the default is 50.
    #[param(minimum = 1, maximum = 100)]
    limit: Option<i64>,
    /// The `x-next-cursor` of the previous page.
    cursor: Option<String>,
}

/// Lists the relationships of an object, newest first.
#[utoipa::path(
    get, path = "/api/graph/objects/{id}/edges", tag = "objects", operation_id = "listObjectEdges",
    params(("id" = String, Path, description = "The id of an object, or `Type/key` with the slash as `%2F`"), EdgeListQuery),
    responses((status = 200, description = "A page of relationships", body = Envelope<Vec<RelationshipView>>)),
)]
pub(super) async fn edges(
    State(app): State<App>,
    InProject(project): InProject,
    ObjectPath(id): ObjectPath,
    Query(query): Query<EdgeListQuery>,
) -> Result<Vec<RelationshipView>> {
    let requested = Page::new(query.limit, query.cursor.as_deref())?;
    page(app.graph.object_edges(project, id, query.direction, query.types, requested).await?)
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
    #[param(minimum = 1, maximum = 100)]
    limit: Option<i64>,
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
    let SimilarQuery { types, labels, status, .. } = query;
    let filter = ObjectFilter { types, labels, status, ..ObjectFilter::default() };
    filter.check()?;
    ok(app.graph.similar(project, id, filter, limit).await?)
}
