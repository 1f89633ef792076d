//! Extracts the object that a path names: by its id, or as `Type/key` with the slash encoded as `%2F`.

use axum::{
    extract::{FromRequestParts, RawPathParams},
    http::request::Parts,
};
use emergent_domain::{
    ids::{ObjectId, ProjectId},
    object_ref::ObjectRef,
    token::Scope,
};

use super::truncate;
use crate::{
    ApiError, App,
    auth::{Caller, InProject},
};

/// The id of the object that the path names. A key names a live object. An id is not looked up, so that the
/// handler answers for objects that do not exist.
pub(crate) struct ObjectPath(pub ObjectId);

/// Like [`ObjectPath`], but a key also names a deleted object, if no live one has it.
pub(crate) struct AnyObjectPath(pub ObjectId);

/// How the path names an object. The handler looks it up, because its query says for which time.
pub(crate) struct ObjectRefPath(pub ObjectRef);

/// Like [`ObjectPath`] for a task: a key also names a task that has it as a property, if its object has none.
pub(crate) struct TaskPath(pub ObjectId);

impl FromRequestParts<App> for ObjectPath {
    type Rejection = ApiError;
    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let (project, reference) = parse_reference(parts, app).await?;
        Ok(Self(app.graph.resolve_object(project, reference).await?))
    }
}

impl FromRequestParts<App> for AnyObjectPath {
    type Rejection = ApiError;
    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let (project, reference) = parse_reference(parts, app).await?;
        Ok(Self(app.graph.resolve_any_object(project, reference).await?))
    }
}

impl FromRequestParts<App> for TaskPath {
    type Rejection = ApiError;
    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let (project, reference) = parse_reference(parts, app).await?;
        Ok(Self(app.dispatcher.resolve_task(project, reference).await?))
    }
}

impl FromRequestParts<App> for ObjectRefPath {
    type Rejection = ApiError;
    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let (_, reference) = parse_reference(parts, app).await?;
        Ok(Self(reference))
    }
}

/// The first parameter of the path.
async fn parse_reference(parts: &mut Parts, app: &App) -> Result<(ProjectId, ObjectRef), ApiError> {
    let InProject(project) = InProject::from_request_parts(parts, app).await?;
    let params = RawPathParams::from_request_parts(parts, app)
        .await
        .map_err(|_| ApiError::invalid("id", "is not UTF-8"))?;
    let Some((name, value)) = params.iter().next() else {
        return Err(ApiError::internal_text("the route has no parameter"));
    };
    let reference = value.parse().map_err(|reason: String| ApiError::invalid(name, truncate(&reason)))?;
    // The answer says whether an object has this key. Routes on objects have required a scope of the graph already.
    if let ObjectRef::Key { .. } = &reference {
        let caller = Caller::from_request_parts(parts, app).await?;
        caller.require_scope(Scope::GraphWrite).or_else(|_| caller.require_scope(Scope::GraphRead))?;
    }
    Ok((project, reference))
}
