//! `/api/admin/secrets`: values go in, never out.

mod body;

use axum::extract::State;
use emergent_domain::token::Scope::{AdminRead, AdminWrite};
use emergent_secrets::SecretName;
use utoipa_axum::routes;

use crate::{
    ApiError, App,
    access::Routes,
    auth::{Caller, InProject},
    extract::Path,
    response::{Envelope, Result, created_if, list as listed, ok},
    views::secret::{PutSecret, RotatedView, SecretView},
};
use body::SecretBody;

pub(super) fn routes() -> Routes {
    Routes::new()
        .scoped(AdminRead, routes!(list))
        .scoped(AdminWrite, routes!(put))
        .scoped(AdminWrite, routes!(delete))
        .scoped(AdminWrite, routes!(rotate))
}

/// The project's secrets by name, with the external servers that mention each; never their values.
#[utoipa::path(
    get, path = "/api/admin/secrets", tag = "secrets", operation_id = "listSecrets",
    responses((status = 200, description = "Every secret", body = Envelope<Vec<SecretView>>)),
)]
async fn list(State(app): State<App>, InProject(project): InProject) -> Result<Vec<SecretView>> {
    listed(app.secrets.list(project).await?)
}

/// Keeps a value, sealed, in the place of the one before. It is used from the next connection on
/// and cannot be read back.
#[utoipa::path(
    put, path = "/api/admin/secrets/{name}", tag = "secrets", operation_id = "putSecret",
    params(("name" = String, Path, description = "Such as GITHUB_TOKEN: `[A-Z][A-Z0-9_]{0,127}`")),
    request_body = PutSecret,
    responses(
        (status = 200, description = "The secret has another value", body = Envelope<SecretView>),
        (status = 201, description = "The secret is new", body = Envelope<SecretView>),
    ),
)]
async fn put(
    State(app): State<App>,
    InProject(project): InProject,
    caller: Caller,
    Path(name): Path<String>,
    SecretBody(value): SecretBody,
) -> Result<SecretView> {
    let kept = app.secrets.put(project, Some(caller.token.id), &parse_name(&name)?, value).await?;
    created_if(kept.version == 1, kept)
}

/// Forgets a secret. Servers that mention it cannot be connected any more.
#[utoipa::path(
    delete, path = "/api/admin/secrets/{name}", tag = "secrets", operation_id = "deleteSecret",
    params(("name" = String, Path)),
    responses((status = 200, description = "The secret that was deleted", body = Envelope<SecretView>)),
)]
async fn delete(
    State(app): State<App>,
    InProject(project): InProject,
    Path(name): Path<String>,
) -> Result<SecretView> {
    ok(app.secrets.delete(project, &parse_name(&name)?).await?)
}

/// Seals every secret of every project with another key: a new one where the server keeps the key
/// in its data folder, the first of `EMERGENT_SECRET_KEY` otherwise.
#[utoipa::path(
    post, path = "/api/admin/secrets/rotate", tag = "secrets", operation_id = "rotateSecretKey",
    responses((status = 200, description = "The new key's id", body = Envelope<RotatedView>)),
)]
async fn rotate(State(app): State<App>, caller: Caller) -> Result<RotatedView> {
    caller.require_all_projects("a new key for all of them")?;
    ok(app.secrets.rotate().await?)
}

fn parse_name(text: &str) -> std::result::Result<SecretName, ApiError> {
    Ok(text.parse::<SecretName>()?)
}
