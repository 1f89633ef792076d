//! `/api/admin/secrets`: values can be set, but never read.

mod body;

use axum::extract::State;
use emergent_domain::token::Scope::{AdminRead, AdminWrite};
use emergent_secrets::SecretName;

use crate::{
    ApiError, App,
    access::Routes,
    auth::{Caller, InProject},
    endpoint::routes,
    extract::{Json, Path},
    response::{Envelope, Result, created_if, list as listed, ok},
    views::secret::{BindSecret, PutSecret, RotatedView, SecretView},
};
use body::SecretBody;

pub(super) fn routes() -> Routes {
    Routes::new()
        .scoped(AdminRead, routes!(list))
        .scoped(AdminWrite, routes!(put))
        .scoped(AdminWrite, routes!(delete))
        .scoped(AdminWrite, routes!(bind))
        .scoped(AdminWrite, routes!(rotate))
}

/// Lists the project's secrets by name, with the external servers that use each; never their values.
#[utoipa::path(
    get, path = "/api/admin/secrets", tag = "secrets", operation_id = "listSecrets",
    responses((status = 200, description = "Every secret", body = Envelope<Vec<SecretView>>)),
)]
async fn list(State(app): State<App>, InProject(project): InProject) -> Result<Vec<SecretView>> {
    listed(app.secrets.list(project).await?)
}

/// Sets or replaces a secret. It is stored encrypted, is used from the next connection on, and cannot
/// be read back.
#[utoipa::path(
    put, path = "/api/admin/secrets/{name}", tag = "secrets", operation_id = "putSecret",
    params(("name" = String, Path, description = "Such as GITHUB_TOKEN: `[A-Z][A-Z0-9_]{0,127}`")),
    request_body = PutSecret,
    responses(
        (status = 200, description = "The replaced secret", body = Envelope<SecretView>),
        (status = 201, description = "The new secret", body = Envelope<SecretView>),
    ),
)]
async fn put(
    State(app): State<App>,
    InProject(project): InProject,
    caller: Caller,
    Path(name): Path<String>,
    SecretBody(value): SecretBody,
) -> Result<SecretView> {
    let secret = app.secrets.put(project, Some(caller.token.id), &parse_name(&name)?, value).await?;
    created_if(secret.version == 1, secret)
}

/// Deletes a secret. Servers that use it cannot be connected to any more.
#[utoipa::path(
    delete, path = "/api/admin/secrets/{name}", tag = "secrets", operation_id = "deleteSecret",
    params(("name" = String, Path)),
    responses((status = 200, description = "The deleted secret", body = Envelope<SecretView>)),
)]
async fn delete(
    State(app): State<App>,
    InProject(project): InProject,
    Path(name): Path<String>,
) -> Result<SecretView> {
    ok(app.secrets.delete(project, &parse_name(&name)?).await?)
}

/// Allows an external server to get a secret, at its current address or program. Only the token that gave the
/// value may do this, or one that spans projects.
#[utoipa::path(
    post, path = "/api/admin/secrets/{name}/bindings", tag = "secrets", operation_id = "bindSecret",
    params(("name" = String, Path)), request_body = BindSecret,
    responses((status = 200, description = "The secret, with where it is sent", body = Envelope<SecretView>)),
)]
async fn bind(
    State(app): State<App>,
    InProject(project): InProject,
    caller: Caller,
    Path(name): Path<String>,
    Json(body): Json<BindSecret>,
) -> Result<SecretView> {
    let name = parse_name(&name)?;
    ok(app.secrets.allow(project, caller.configures_as(), &name, &body.server).await?)
}

/// Encrypts the secrets of all projects with another key: a new one if the server stores the key in its
/// data folder, otherwise the first one of `EMERGENT_SECRET_KEY`.
#[utoipa::path(
    post, path = "/api/admin/secrets/rotate", tag = "secrets", operation_id = "rotateSecretKey",
    responses((status = 200, description = "The new key's id", body = Envelope<RotatedView>)),
)]
async fn rotate(State(app): State<App>, caller: Caller) -> Result<RotatedView> {
    caller.require_all_projects("rotating the key of all projects")?;
    ok(app.secrets.rotate().await?)
}

fn parse_name(text: &str) -> std::result::Result<SecretName, ApiError> {
    Ok(text.parse::<SecretName>()?)
}
