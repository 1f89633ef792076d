//! `/api/tokens`. A token bound to a project can see and manage only the tokens of that project.

use std::collections::BTreeSet;

use axum::extract::State;
use emergent_domain::{
    ids::{ProjectId, TokenId},
    token::Scope::{AdminRead, AdminWrite},
};
use emergent_wire::token::CreatedTokenView;
use serde::Deserialize;
use utoipa::IntoParams;

use crate::{
    ApiError, App,
    access::Routes,
    auth::Caller,
    endpoint::routes,
    extract::{Json, Paging, Path, Query},
    response::{Envelope, Result, created, ok, page},
    views::token::{CreateToken, TokenView},
};

pub(super) fn routes() -> Routes {
    Routes::new()
        .scoped(AdminRead, routes!(list))
        .scoped(AdminWrite, routes!(create))
        .scoped(AdminWrite, routes!(revoke))
}

/// Lists the tokens that this token can see, newest first; never their secrets.
#[utoipa::path(
    get, path = "/api/tokens", tag = "tokens", operation_id = "listTokens", params(Paging),
    responses((status = 200, description = "A page of tokens", body = Envelope<Vec<TokenView>>)),
)]
async fn list(
    State(app): State<App>,
    caller: Caller,
    Query(paging): Query<Paging>,
) -> Result<Vec<TokenView>> {
    page(app.graph.list_tokens(caller.bound_project(), paging.page()?).await?)
}

/// Creates a token. The response contains its secret, which is never shown again. A token cannot grant
/// scopes that it does not have.
#[utoipa::path(
    post, path = "/api/tokens", tag = "tokens", operation_id = "createToken", request_body = CreateToken,
    responses((status = 201, description = "The token with its secret", body = Envelope<TokenView>)),
)]
async fn create(State(app): State<App>, caller: Caller, Json(body): Json<CreateToken>) -> Result<TokenView> {
    let project = new_token_project(&app, &caller, body.project.as_deref()).await?;
    let scopes: BTreeSet<_> = body.scopes.into_iter().collect();
    scopes.iter().try_for_each(|scope| caller.require_scope(*scope))?;
    let expires_at = match (body.expires_at, caller.token.expires_at) {
        (Some(requested), Some(own)) if requested > own => {
            return Err(ApiError::invalid("expiresAt", format!("is after the expiry of this token, {own}")));
        }
        (requested, own) => requested.or(own),
    };
    created(app.graph.create_token(&body.name, scopes, project, expires_at).await?)
}

/// What else is revoked with a token.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct RevokeQuery {
    /// Also revoke the tokens that this token created, those that they created, and so on.
    #[serde(default)]
    #[param(required = false, default = false)]
    children: bool,
}

/// Revokes a token at once, and with it the sessions of browsers that stand for it. The answer lists the tokens
/// that it created, which stay valid unless `children` is true.
#[utoipa::path(
    delete, path = "/api/tokens/{id}", tag = "tokens", operation_id = "revokeToken",
    params(("id" = Uuid, Path), RevokeQuery),
    responses((status = 200, description = "The token, revoked", body = Envelope<TokenView>)),
)]
async fn revoke(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<TokenId>,
    Query(query): Query<RevokeQuery>,
) -> Result<TokenView> {
    let project = caller.bound_project();
    let revoked = app.graph.revoke_token(project, id).await?;
    let created = match query.children {
        true => app.graph.revoke_created_tokens(project, id).await?,
        false => app.graph.list_created_tokens(project, id).await?,
    };
    let is_revoked = |token: TokenId| token == id || created.iter().any(|one| one.id == token);
    app.logins.remove_where(|login| is_revoked(login.token.id));
    let created_tokens = Some(created.into_iter().map(CreatedTokenView::from).collect());
    ok(TokenView { created_tokens, ..revoked.into() })
}

/// Returns the project of a new token: the named one, or else that of the caller. `None` means that the token
/// spans projects, which only such a token can create.
async fn new_token_project(
    app: &App,
    caller: &Caller,
    named: Option<&str>,
) -> std::result::Result<Option<ProjectId>, ApiError> {
    let Some(named) = named else { return Ok(caller.named_project()) };
    let project = app.project(named).await?;
    match caller.bound_project() {
        Some(own) if own != project => Err(ApiError::unknown_project(named)),
        _ => Ok(Some(project)),
    }
}
