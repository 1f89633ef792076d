//! `/api/session`: logins of browsers. A login is a cookie that stands for a token.

mod login_page;

use std::net::IpAddr;

use axum::{
    Extension,
    extract::State,
    http::{HeaderMap, HeaderValue, Uri, header},
    response::{IntoResponse, Response},
};
use emergent_domain::{audit::AuditOrigin, browser_session::Login};
use emergent_graph::{Credential, StartedSession};
use emergent_store::{
    audit,
    requester::{Requester, on_behalf_of},
};

use crate::{
    ApiError, App,
    access::Routes,
    auth::Caller,
    endpoint::routes,
    error::Failure,
    extract::{BodyLimits, Json},
    login_cookie,
    response::{Envelope, Result as ApiResult, created, ok},
    same_origin,
    server::Peer,
    views::session::{CreateSession, LoginCodeView, SessionView},
};

/// A longer code is none.
const MAX_CODE_BYTES: usize = 200;

pub(super) fn routes() -> Routes {
    Routes::new()
        .public(routes!(create))
        .any_token(routes!(get))
        .any_token(routes!(delete))
        .any_token(routes!(create_code))
        .public(routes!(login_page::show))
        .public(routes!(login_page::log_in))
        .limit_bodies(BodyLimits::LOGIN)
}

/// Logs a browser in with a token or a one-time code. The response sets a cookie that stands for the token, until
/// it is not used for 7 days, for 30 days at most, and never longer than the token is valid.
#[utoipa::path(
    post, path = "/api/session", tag = "session", operation_id = "logIn", request_body = CreateSession,
    responses(
        (status = 201, description = "Who is logged in", body = Envelope<SessionView>,
            headers(("Set-Cookie" = String, description = "`HttpOnly`, `SameSite=Strict`, and `Secure` over HTTPS"))),
        (status = 401, description = "`unauthorized`: the token or code is not valid", body = Failure),
        (status = 403, description = "`cross_origin`: a page of another server sent the request", body = Failure),
        (status = 429, description = "`too_many_logins`: of this token; `too_many_failed_logins`: of this address", body = Failure),
    ),
)]
async fn create(
    State(app): State<App>,
    peer: Option<Extension<Peer>>,
    headers: HeaderMap,
    uri: Uri,
    Json(body): Json<CreateSession>,
) -> Result<Response, ApiError> {
    let address = peer.map(|Extension(peer)| peer.address);
    let proof = LoginProof::from_body(body)?;
    let started = start_session(&app, proof, address, &headers, &uri).await?;
    let response = created(SessionView::from(&started.login))?.into_response();
    Ok(with_cookie(response, &started, &headers, app.listen_address.is_tls()))
}

/// Returns who is logged in: the token of the request, and the session if the request has a cookie.
#[utoipa::path(
    get, path = "/api/session", tag = "session", operation_id = "getSession",
    responses((status = 200, description = "Who is logged in", body = Envelope<SessionView>)),
)]
async fn get(caller: Caller) -> ApiResult<SessionView> {
    ok(SessionView::from(&Login { token: caller.token, session: caller.session }))
}

/// Logs a browser out: ends its session and its streams, and removes the cookie.
#[utoipa::path(
    delete, path = "/api/session", tag = "session", operation_id = "logOut",
    responses(
        (status = 200, description = "Who was logged in", body = Envelope<SessionView>),
        (status = 403, description = "`cross_origin`: a page of another server sent the request", body = Failure),
        (status = 409, description = "`conflict`: the request has a token and no cookie", body = Failure),
    ),
)]
async fn delete(State(app): State<App>, caller: Caller) -> Result<Response, ApiError> {
    let Some(session) = caller.session else { return Err(ApiError::not_logged_in()) };
    let login = Login { token: caller.token, session: Some(session) };
    app.graph.end_session(login.token.clone(), session).await?;
    app.logins.remove_where(|login| login.session.is_some_and(|ended| ended.id == session.id));
    let mut response = ok(SessionView::from(&login))?.into_response();
    for cookie in login_cookie::remove() {
        response.headers_mut().append(header::SET_COOKIE, cookie);
    }
    Ok(response)
}

/// Creates a code with which a browser can log in once, within 10 minutes, as the token of this request. A session
/// cannot create one: it would outlive itself.
#[utoipa::path(
    post, path = "/api/session/codes", tag = "session", operation_id = "createLoginCode",
    responses(
        (status = 201, description = "The code", body = Envelope<LoginCodeView>),
        (status = 403, description = "`forbidden` or `cross_origin`: the request has a cookie and no token", body = Failure),
        (status = 429, description = "`too_many_logins`: of this token", body = Failure),
    ),
)]
async fn create_code(State(app): State<App>, caller: Caller) -> ApiResult<LoginCodeView> {
    if caller.session.is_some() {
        return Err(ApiError::forbidden(
            "a login code is created with a token in `Authorization`, not with the cookie of a login",
        ));
    }
    app.login_rate.take(caller.token.id).map_err(ApiError::too_many_logins)?;
    let (code, expires_at) = app.graph.create_login_code(caller.token.id).await?;
    let path = format!("/login?code={code}");
    created(LoginCodeView { code, path, expires_at })
}

/// What a person logs in with.
enum LoginProof {
    Token(String),
    Code(String),
}

impl LoginProof {
    fn from_body(body: CreateSession) -> Result<Self, ApiError> {
        match (body.token, body.code) {
            (Some(token), None) => Ok(Self::Token(token)),
            (None, Some(code)) => Ok(Self::Code(code)),
            (None, None) => Err(ApiError::invalid("token", "is required, or `code`")),
            (Some(_), Some(_)) => Err(ApiError::invalid("code", "is given beside `token`: give one of them")),
        }
    }
}

/// Checks who logs in, and starts a session.
async fn start_session(
    app: &App,
    proof: LoginProof,
    address: Option<IpAddr>,
    headers: &HeaderMap,
    uri: &Uri,
) -> Result<StartedSession, ApiError> {
    same_origin::check_login(headers, uri, app.listen_address.is_tls())?;
    match proof {
        LoginProof::Token(secret) => {
            let login = app.log_in(&Credential::Token(secret.trim().into()), address).await?;
            app.login_rate.take(login.token.id).map_err(ApiError::too_many_logins)?;
            let token = Some((login.token.id, login.token.name.clone()));
            let origin = AuditOrigin { token, session: None, address };
            let started = audit::with_origin(origin, app.graph.start_session(login.token.id));
            let started = on_behalf_of(Requester::Authentication, started).await?;
            started.ok_or_else(ApiError::unknown_token)
        }
        LoginProof::Code(code) => {
            // A code is looked up before anything is counted or written: unknown ones of an address must not keep
            // others of that address from logging in with theirs.
            let code = code.trim();
            let is_known = code.len() <= MAX_CODE_BYTES
                && on_behalf_of(Requester::DoubtedAuthentication, app.graph.has_login_code(code)).await?;
            if !is_known {
                return Err(app.failed_login(address, ApiError::unknown_code()));
            }
            let origin = AuditOrigin { token: None, session: None, address };
            let started = audit::with_origin(origin, app.graph.start_session_with_code(code));
            let started = on_behalf_of(Requester::Authentication, started).await?;
            started.ok_or_else(|| app.failed_login(address, ApiError::unknown_code()))
        }
    }
}

/// Adds the cookie of a session to a response, which must not be stored on the way.
fn with_cookie(
    mut response: Response,
    started: &StartedSession,
    headers: &HeaderMap,
    is_tls: bool,
) -> Response {
    let cookie = login_cookie::set(&started.secret, login_cookie::is_https(headers, is_tls));
    if let Some(cookie) = cookie {
        response.headers_mut().append(header::SET_COOKIE, cookie);
    }
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
