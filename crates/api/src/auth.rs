//! Authentication: the token of a request, its scopes, and the project (`X-Project-ID`).

use std::{net::IpAddr, sync::Arc, time::Duration};

use axum::{
    extract::{FromRequestParts, Request, State},
    http::{HeaderMap, header, request::Parts},
    middleware::Next,
    response::Response,
};
use emergent_domain::{
    audit::AuditOrigin,
    author::Author,
    ids::ProjectId,
    mcp_server::ConfiguredBy,
    token::{Scope, Token},
};
use emergent_graph::Actor;
use emergent_net::trace_context;
use emergent_store::{
    audit,
    requester::{Requester, on_behalf_of},
};

use crate::{ApiError, App, access::Access, request_context::RequestContext, server::Peer};

const PROJECT_HEADER: &str = "x-project-id";
/// The project of a token that spans projects, if the request names none.
const DEFAULT_PROJECT: &str = "default";

/// The holder of a valid token with the scope of the route. Only [`authorize`] creates one.
#[derive(Clone)]
pub(crate) struct Caller {
    pub token: Arc<Token>,
    project: Option<ProjectId>,
    /// The secret of the token, to check it again during long responses.
    secret: Arc<str>,
}

/// How often a long-lived response checks that its token is still valid.
const RECHECK_INTERVAL: Duration = Duration::from_secs(1);

impl Caller {
    /// Returns the project a token is bound to; `None` for a token that spans projects.
    pub(crate) fn bound_project(&self) -> Option<ProjectId> {
        self.token.project
    }

    /// Returns the token's project, or the one that `X-Project-ID` names; `None` if there is neither.
    pub(crate) fn named_project(&self) -> Option<ProjectId> {
        self.project
    }

    /// Returns on whose behalf the database is used for this caller.
    pub(crate) fn requester(&self) -> Requester {
        self.project.map_or(Requester::AllProjects, Requester::Project)
    }

    /// Resolves when the token expires or is revoked, or the project of the request is deleted. Used for
    /// responses that continue after the request was authorised.
    pub(crate) fn access_ended(&self, app: &App) -> impl Future<Output = ()> + Send + 'static {
        let (app, secret, project) = (app.clone(), Arc::clone(&self.secret), self.project);
        // The checks use the connections of the response's requester: many open responses of one project must
        // not take those of logins or of the server's own work.
        let requester = self.requester();
        on_behalf_of(requester, async move {
            loop {
                // A database failure must not end a response that was authorised.
                if matches!(app.token(&secret, requester).await, Ok(None)) {
                    return;
                }
                // The default project, which a request without a project is about, cannot be deleted.
                if let Some(project) = project
                    && app.is_deleted(project).await
                {
                    return;
                }
                tokio::time::sleep(RECHECK_INTERVAL).await;
            }
        })
    }

    /// Returns on whose authority this caller configures external servers: the operator's, or that of a token
    /// of one project.
    pub(crate) fn configures_as(&self) -> ConfiguredBy {
        match self.token.project {
            None => ConfiguredBy::Operator,
            Some(_) => ConfiguredBy::Project(self.token.id),
        }
    }

    /// Refuses an action that needs a token that spans projects.
    pub(crate) fn require_all_projects(&self, what: &str) -> Result<(), ApiError> {
        match self.token.project {
            None => Ok(()),
            Some(_) => Err(ApiError::forbidden(format!(
                "this token is bound to one project; {what} needs a token that spans projects"
            ))),
        }
    }

    pub(crate) fn require_scope(&self, scope: Scope) -> Result<(), ApiError> {
        if self.token.scopes.contains(&scope) { Ok(()) } else { Err(ApiError::missing_scope(scope)) }
    }
}

/// Authorises a request: checks its token, limits, scope and project. No other code does.
pub(crate) async fn authorize(
    State(access): State<Access>,
    mut request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    // Without the app no token can be checked, so the request is refused.
    let Some(app) = request.extensions().get::<App>().cloned() else {
        return Err(ApiError::internal_text("the router was built without its app"));
    };
    let secret: Arc<str> = bearer(request.headers())?.into();
    let peer = request.extensions().get::<Peer>().map(|peer| peer.address);
    let token = app.log_in(&secret, peer).await?;
    let mut caller = Caller { project: token.project, token, secret };
    let context = request.extensions().get::<RequestContext>().cloned().unwrap_or_default();
    if context.is_reserved() && caller.token.project.is_some() {
        return Err(app.requests.refuse());
    }
    context.hold(app.requests.take_share(&caller.token)?);
    if let Access::Scope(scope) = access {
        caller.require_scope(scope)?;
    }
    if let Some(named) = request.headers().get(PROJECT_HEADER) {
        let named = named.to_str().map_err(|_| ApiError::unknown_project("?"))?;
        let project = app.project(named).await?;
        if caller.token.project.is_some_and(|own| own != project) {
            return Err(ApiError::unknown_project(named));
        }
        caller.project = Some(project);
    }
    let origin = AuditOrigin { token: Some((caller.token.id, caller.token.name.clone())), address: peer };
    let requester = caller.requester();
    request.extensions_mut().insert(caller);
    let context = request.headers().get(trace_context::TRACEPARENT).and_then(|value| value.to_str().ok());
    let context = context.and_then(trace_context::parse);
    let response = trace_context::with_parent(context, audit::with_origin(origin, next.run(request)));
    let response = on_behalf_of(requester, response).await;
    Ok(app.answers.count(response, requester))
}

/// Returns the secret in the header `Authorization`.
fn bearer(headers: &HeaderMap) -> Result<&str, ApiError> {
    let value = headers.get(header::AUTHORIZATION).ok_or_else(ApiError::no_token)?;
    let value = value.to_str().map_err(|_| ApiError::unknown_token())?;
    let (scheme, secret) = value.split_once(' ').ok_or_else(ApiError::no_token)?;
    if scheme.eq_ignore_ascii_case("bearer") { Ok(secret.trim()) } else { Err(ApiError::no_token()) }
}

impl FromRequestParts<App> for Caller {
    type Rejection = ApiError;
    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, ApiError> {
        parts
            .extensions
            .get::<Caller>()
            .cloned()
            .ok_or_else(|| ApiError::internal_text("a handler of a public route extracts the caller"))
    }
}

/// The project of a request.
pub(crate) struct InProject(pub ProjectId);

impl FromRequestParts<App> for InProject {
    type Rejection = ApiError;
    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let caller = Caller::from_request_parts(parts, app).await?;
        match caller.project {
            Some(project) => Ok(Self(project)),
            None => Ok(Self(app.project(DEFAULT_PROJECT).await?)),
        }
    }
}

/// The author and the project of a write.
pub(crate) struct AsActor(pub Actor);

impl FromRequestParts<App> for AsActor {
    type Rejection = ApiError;
    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let InProject(project) = InProject::from_request_parts(parts, app).await?;
        let caller = Caller::from_request_parts(parts, app).await?;
        Ok(Self(Actor { project, author: Author::Token { id: caller.token.id } }))
    }
}

impl App {
    /// Returns the valid token with this secret, or the error. An address that presented too many unknown
    /// tokens is told to wait. Valid tokens are never refused, so nobody can lock out others behind the same
    /// proxy; but their first lookup waits until the database has time for it.
    async fn log_in(&self, secret: &str, address: Option<IpAddr>) -> Result<Arc<Token>, ApiError> {
        let must_wait = address.and_then(|address| self.failed_logins.must_wait(address));
        let requester = match must_wait {
            None => Requester::Authentication,
            Some(_) => Requester::DoubtedAuthentication,
        };
        if let Some(token) = self.token(secret, requester).await? {
            return Ok(token);
        }
        let Some(address) = address else { return Err(ApiError::unknown_token()) };
        // Others of this address may have failed meanwhile.
        if let Some(wait) = self.failed_logins.must_wait(address) {
            return Err(ApiError::too_many_failed_logins(wait));
        }
        self.failed_logins.record(address);
        Err(ApiError::unknown_token())
    }

    /// Returns the valid token with this secret; `None` if it is unknown, expired or revoked.
    async fn token(&self, secret: &str, requester: Requester) -> Result<Option<Arc<Token>>, ApiError> {
        let cached = self.tokens.get(secret).filter(|token| token.is_valid(self.graph.clock().now()));
        if cached.is_some() {
            return Ok(cached);
        }
        let pending_read = self.tokens.start_read();
        let token = on_behalf_of(requester, self.graph.authenticate(secret)).await?;
        let Some(token) = token.map(Arc::new) else { return Ok(None) };
        self.tokens.insert(secret.to_owned(), Arc::clone(&token), pending_read);
        Ok(Some(token))
    }

    /// Whether a project was deleted; false if that could not be looked up.
    async fn is_deleted(&self, project: ProjectId) -> bool {
        let id = project.to_string();
        if self.projects.get(&id).is_some() {
            return false;
        }
        let pending_read = self.projects.start_read();
        match self.graph.get_project(project).await {
            Ok(_) => {
                self.projects.insert(id, project, pending_read);
                false
            }
            Err(error) => matches!(error, emergent_graph::Error::NotFound { .. }),
        }
    }

    /// Returns the project with this id or name.
    pub(crate) async fn project(&self, named: &str) -> Result<ProjectId, ApiError> {
        if let Some(cached) = self.projects.get(named) {
            return Ok(cached);
        }
        let pending_read = self.projects.start_read();
        let found = on_behalf_of(Requester::Authentication, self.graph.find_project(named)).await;
        let project = match found {
            Err(emergent_graph::Error::NotFound { .. }) => return Err(ApiError::unknown_project(named)),
            project => project?.id,
        };
        self.projects.insert(named.to_owned(), project, pending_read);
        Ok(project)
    }
}
