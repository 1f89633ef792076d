//! Authentication: the token of a request, its scopes, and the project (`X-Project-ID`).

use std::{net::IpAddr, sync::Arc, time::Duration};

use axum::{
    extract::{FromRequestParts, Request, State},
    http::{HeaderMap, StatusCode, header, request::Parts},
    middleware::Next,
    response::Response,
};
use emergent_domain::{
    audit::AuditOrigin,
    author::Author,
    browser_session::{BrowserSession, Login},
    cursor::Page,
    ids::ProjectId,
    mcp_server::ConfiguredBy,
    pack::nearest_name,
    token::{Scope, Token},
};
use emergent_graph::{Actor, Credential};
use emergent_net::trace_context;
use emergent_store::{
    audit,
    requester::{Requester, on_behalf_of},
};
use futures_util::{Stream, StreamExt, stream};
use tokio::time::Instant;

use tracing::warn;

use crate::{
    ApiError, App, access::Access, login_cookie, request_context::RequestContext, same_origin, server::Peer,
};

const PROJECT_HEADER: &str = "x-project-id";
/// The project of a token that spans projects, if the request names none.
pub(crate) const DEFAULT_PROJECT: &str = "default";
/// Among so many of the newest projects the nearest name is searched.
const MAX_SUGGESTED: usize = 100;

/// The holder of a valid token with the scope of the route. Only [`authorize`] creates one.
#[derive(Clone)]
pub(crate) struct Caller {
    pub token: Arc<Token>,
    /// The session that stands for the token, if the request came with a cookie.
    pub session: Option<BrowserSession>,
    project: Option<ProjectId>,
    /// The credential of the request, to check it again during long responses.
    credential: Credential,
}

/// How often a long-lived response checks that its token is still valid.
const RECHECK_INTERVAL: Duration = Duration::from_secs(1);
/// How long a response goes on while these checks fail, because the database is busy or does not answer.
const MAX_UNCHECKED_TIME: Duration = Duration::from_secs(30);

/// The checks of a long-lived response.
struct AccessChecks {
    /// When a check last said that the token is valid.
    confirmed_at: Instant,
}

impl AccessChecks {
    /// Whether the response may go on. `has_access` is `None` if that could not be checked. A short failure of the
    /// database must not end a response that was authorised. A long one must: otherwise whoever keeps the database
    /// busy could go on after the end of their token.
    fn allow(&mut self, has_access: Option<bool>) -> bool {
        if has_access == Some(true) {
            self.confirmed_at = Instant::now();
        }
        has_access.unwrap_or_else(|| self.confirmed_at.elapsed() < MAX_UNCHECKED_TIME)
    }
}

impl Caller {
    /// Returns the project a token is bound to; `None` for a token that spans projects.
    pub(crate) fn bound_project(&self) -> Option<ProjectId> {
        self.token.project
    }

    /// Returns the token's project, or the one that `X-Project-ID` names; `None` if there is neither.
    pub(crate) fn named_project(&self) -> Option<ProjectId> {
        self.project
    }

    /// Returns the caller for a request whose path names a project. A project that is not the one of its token, or not
    /// the one of the header, is not found.
    pub(crate) fn in_project(self, project: ProjectId, named: &str) -> Result<Self, ApiError> {
        match self.project.is_none_or(|own| own == project) {
            true => Ok(Self { project: Some(project), ..self }),
            false => Err(ApiError::unknown_project(named)),
        }
    }

    /// Returns on whose behalf the database is used for this caller.
    pub(crate) fn requester(&self) -> Requester {
        self.project.map_or(Requester::AllProjects, Requester::Project)
    }

    /// Resolves when the token expires or is revoked, the session ends, or the project of the request is deleted, or when that could
    /// not be checked for [`MAX_UNCHECKED_TIME`]. Used for responses that continue after the request was authorised.
    pub(crate) fn access_ended(&self, app: &App) -> impl Future<Output = ()> + Send + 'static {
        let (app, credential, project) = (app.clone(), self.credential.clone(), self.project);
        // The checks use the connections of the response's requester: many open responses of one project must
        // not take those of logins or of the server's own work.
        let requester = self.requester();
        on_behalf_of(requester, async move {
            let mut checks = AccessChecks { confirmed_at: Instant::now() };
            while checks.allow(app.has_access(&credential, requester, project).await.ok()) {
                tokio::time::sleep(RECHECK_INTERVAL).await;
            }
        })
    }

    /// Passes items of a long response on as long as the caller has access. After that the stream ends with the error
    /// `ended`, which breaks the connection: otherwise the client would take what it has for all there is.
    pub(crate) fn until_access_ends<T, E>(
        &self,
        app: &App,
        items: impl Stream<Item = Result<T, E>> + Send + 'static,
        ended: E,
    ) -> impl Stream<Item = Result<T, E>> + Send + 'static
    where
        T: Send + 'static,
        E: Send + 'static,
    {
        let (items, access_ended) = (Box::pin(items), Box::pin(self.access_ended(app)));
        stream::unfold(Some((items, access_ended, ended)), async |state| {
            let (mut items, mut access_ended, ended) = state?;
            tokio::select! {
                biased;
                () = &mut access_ended => Some((Err(ended), None)),
                item = items.next() => item.map(|item| (item, Some((items, access_ended, ended)))),
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

    pub(crate) fn has_scope(&self, scope: Scope) -> bool {
        self.token.scopes.contains(&scope)
    }

    pub(crate) fn require_scope(&self, scope: Scope) -> Result<(), ApiError> {
        if self.has_scope(scope) { Ok(()) } else { Err(ApiError::missing_scope(scope)) }
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
    let is_tls = app.listen_address.is_tls();
    let credential = credential(request.headers(), is_tls)?;
    if matches!(credential, Credential::Session(_)) {
        same_origin::check_with_cookie(&request, is_tls)?;
    }
    let peer = request.extensions().get::<Peer>().map(|peer| peer.address);
    let Login { token, session } = app.log_in(&credential, peer).await?;
    app.renew(session).await;
    let mut caller = Caller { project: token.project, token, session, credential };
    let context = request.extensions().get::<RequestContext>().cloned().unwrap_or_default();
    if context.is_reserved() && caller.token.project.is_some() {
        return Err(app.requests.refuse());
    }
    context.hold(app.requests.take_share(&caller.token)?);
    access.scopes().try_for_each(|scope| caller.require_scope(scope))?;
    if let Some(named) = request.headers().get(PROJECT_HEADER) {
        let named = named.to_str().map_err(|_| ApiError::unknown_project("?"))?;
        let project = match app.project(named).await {
            Err(unknown) => return Err(app.suggest_project(named, &caller, unknown).await),
            Ok(project) => project,
        };
        if caller.token.project.is_some_and(|own| own != project) {
            return Err(ApiError::unknown_project(named));
        }
        caller.project = Some(project);
    }
    let origin = AuditOrigin {
        token: Some((caller.token.id, caller.token.name.clone())),
        session: caller.session.map(|session| session.id),
        address: peer,
    };
    let requester = caller.requester();
    request.extensions_mut().insert(caller);
    let context = request.headers().get(trace_context::TRACEPARENT).and_then(|value| value.to_str().ok());
    let context = context.and_then(trace_context::parse);
    let response = trace_context::with_parent(context, audit::with_origin(origin, next.run(request)));
    let response = on_behalf_of(requester, app.read_memory.count_for(requester, response)).await;
    Ok(app.answers.count(response, requester))
}

/// Returns the token in the header `Authorization` or, without that header, the session in the cookie.
fn credential(headers: &HeaderMap, is_tls: bool) -> Result<Credential, ApiError> {
    match login_cookie::read(headers, is_tls) {
        Some(secret) if !headers.contains_key(header::AUTHORIZATION) => {
            Ok(Credential::Session(secret.into()))
        }
        _ => bearer(headers).map(|secret| Credential::Token(secret.into())),
    }
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
    /// Returns the valid login of this credential, or the error. An address that presented too many unknown
    /// tokens is told to wait. Valid tokens are never refused, so nobody can lock out others behind the same
    /// proxy. A token that was valid before is looked up by itself; unknown ones cannot delay it.
    pub(crate) async fn log_in(
        &self,
        credential: &Credential,
        address: Option<IpAddr>,
    ) -> Result<Login, ApiError> {
        let login = match self.logins.has_entry(credential) {
            true => self.login(credential, Requester::Authentication).await?,
            false => self.look_up_first(credential, address).await?,
        };
        let unknown = match credential {
            Credential::Token(_) => ApiError::unknown_token,
            Credential::Session(_) => ApiError::unknown_session,
        };
        login.ok_or_else(|| self.failed_login(address, unknown()))
    }

    /// Counts a failed login of an address. Returns `unknown`, or the error that tells the address to wait.
    pub(crate) fn failed_login(&self, address: Option<IpAddr>, unknown: ApiError) -> ApiError {
        let Some(address) = address else { return unknown };
        match self.failed_logins.take(address) {
            Ok(()) => unknown,
            Err(wait) => ApiError::too_many_failed_logins(wait),
        }
    }

    /// Looks up a credential that this server does not remember.
    async fn look_up_first(
        &self,
        credential: &Credential,
        address: Option<IpAddr>,
    ) -> Result<Option<Login>, ApiError> {
        let is_doubted = address.is_some_and(|address| self.failed_logins.must_wait(&address).is_some());
        let lookups = if is_doubted { &self.doubted_lookups } else { &self.first_lookups };
        let pending_read = self.logins.start_read();
        let Some(login) = lookups.look_up(&self.graph, credential).await? else { return Ok(None) };
        self.logins.insert(credential.clone(), login.clone(), pending_read);
        Ok(Some(login))
    }

    /// Returns the valid login of this credential; `None` if it is unknown, expired or revoked.
    async fn login(&self, credential: &Credential, requester: Requester) -> Result<Option<Login>, ApiError> {
        let cached = self.logins.get(credential).filter(|login| login.is_valid(self.graph.clock().now()));
        if cached.is_some() {
            return Ok(cached);
        }
        let pending_read = self.logins.start_read();
        let Some(login) = on_behalf_of(requester, self.graph.log_in(credential)).await? else {
            self.logins.remove(credential);
            return Ok(None);
        };
        self.logins.insert(credential.clone(), login.clone(), pending_read);
        Ok(Some(login))
    }

    /// Moves the end of a session that is used. The request does not fail if that cannot be written.
    async fn renew(&self, session: Option<BrowserSession>) {
        let Some(session) = session else { return };
        if let Err(error) = on_behalf_of(Requester::Authentication, self.graph.renew_session(session)).await {
            warn!(session.id = %session.id, %error, "the end of a session could not be moved");
        }
    }

    /// Whether the login is valid and the project was not deleted. The default project, which a request without a
    /// project is about, cannot be deleted.
    async fn has_access(
        &self,
        credential: &Credential,
        requester: Requester,
        project: Option<ProjectId>,
    ) -> Result<bool, ApiError> {
        if self.login(credential, requester).await?.is_none() {
            return Ok(false);
        }
        match project {
            Some(project) => Ok(!self.is_deleted(project).await?),
            None => Ok(true),
        }
    }

    async fn is_deleted(&self, project: ProjectId) -> Result<bool, ApiError> {
        let id = project.to_string();
        if self.projects.get(&id).is_some() {
            return Ok(false);
        }
        let pending_read = self.projects.start_read();
        match self.graph.get_project(project).await {
            Ok(_) => {
                self.projects.insert(id, project, pending_read);
                Ok(false)
            }
            Err(emergent_graph::Error::NotFound { .. }) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }

    /// Adds the nearest name to the error about an unknown project, for a caller that may list projects.
    async fn suggest_project(&self, named: &str, caller: &Caller, unknown: ApiError) -> ApiError {
        let may_list = caller.token.project.is_none() && caller.token.scopes.contains(&Scope::AdminRead);
        if !may_list || unknown.status != StatusCode::NOT_FOUND {
            return unknown;
        }
        // Without the names, which may fail to load, the error is as good as it was.
        let newest =
            on_behalf_of(Requester::AllProjects, self.graph.list_projects(Page::first(MAX_SUGGESTED)));
        let names: Vec<String> = match newest.await {
            Ok(projects) => projects.items.into_iter().map(|project| project.name).collect(),
            Err(_) => Vec::new(),
        };
        match nearest_name(named, names.iter().map(String::as_str)) {
            Some(nearest) => ApiError::misspelt("project", named, nearest),
            None => unknown,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_response_whose_token_cannot_be_checked_goes_on_for_a_bounded_time() {
        let mut checks = AccessChecks { confirmed_at: Instant::now() };
        tokio::time::advance(Duration::from_secs(20)).await;
        assert!(checks.allow(None) && checks.allow(Some(true)));
        tokio::time::advance(Duration::from_secs(29)).await;
        assert!(checks.allow(None), "29 seconds after the last check");
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(!checks.allow(None));
        assert!(!checks.allow(Some(false)), "a revoked token ends it at once");
    }
}
