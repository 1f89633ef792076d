//! Extracts the project that a path names: by its id or by its name.

use axum::{
    extract::{FromRequestParts, RawPathParams},
    http::request::Parts,
};
use emergent_domain::{
    ids::{InvalidId, ProjectId},
    project::check_name,
};

use super::Path;
use crate::{ApiError, App, auth::Caller};

/// The id of the project that the path names, if the caller may see it: another project than that of a bound token is
/// not found, whether it exists or not. An id is not looked up, so that the handler answers for projects that do not
/// exist.
pub(crate) struct ProjectPath(pub ProjectId);

impl FromRequestParts<App> for ProjectPath {
    type Rejection = ApiError;
    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let caller = Caller::from_request_parts(parts, app).await?;
        let Path(named) = Path::<String>::from_request_parts(parts, app).await?;
        let id = match named.parse() {
            Ok(id) => id,
            Err(_) if check_name(&named).is_err() => {
                let params = RawPathParams::from_request_parts(parts, app).await.ok();
                let field =
                    params.as_ref().and_then(|params| params.iter().next()).map_or("id", |(name, _)| name);
                return Err(ApiError::invalid(field, format!("{InvalidId}, or the name of a project")));
            }
            Err(_) => app.project(&named).await?,
        };
        match caller.bound_project() {
            Some(own) if own != id => Err(ApiError::unknown_project(&named)),
            _ => Ok(Self(id)),
        }
    }
}
