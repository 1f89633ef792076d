//! The errors of the API. Each has a status, a stable code, a message that says what to do, and details for
//! programs.

mod conversions;

use std::{fmt::Display, time::Duration};

use axum::{
    body::Body,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use emergent_domain::{invalid::Invalid, token::Scope};
use emergent_store as store;
pub(crate) use emergent_wire::envelope::{Failure, FailureBody};
use serde_json::{Value, json};
use tracing::error;

use crate::{failed_logins, login_rate};

/// The last byte of an answer in JSON, so that the prompt of a shell does not follow it on the same line.
pub(crate) const JSON_END: u8 = b'\n';

/// An error response.
#[derive(Debug, Clone)]
pub struct ApiError {
    pub(crate) status: StatusCode,
    code: &'static str,
    pub(crate) message: String,
    details: Option<Value>,
}

impl ApiError {
    fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), details: None }
    }

    fn with_details(mut self, details: Value) -> Self {
        self.details = Some(details);
        self
    }

    pub(crate) fn no_token() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "unauthorized", "send a token: `Authorization: Bearer <token>`")
    }

    pub(crate) fn unknown_token() -> Self {
        let message = "this token is not known here, was revoked or has expired";
        Self::new(StatusCode::UNAUTHORIZED, "unauthorized", message)
    }

    pub(crate) fn missing_scope(scope: Scope) -> Self {
        let message = format!("this token lacks the scope `{scope}`");
        Self::new(StatusCode::FORBIDDEN, "missing_scope", message).with_details(json!({ "scope": scope }))
    }

    pub(crate) fn forbidden(message: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "forbidden", message)
    }

    /// A request with the cookie of a session that was not sent by a page of this server.
    pub(crate) fn cross_origin() -> Self {
        let message = "with the cookie of a login, only pages of this server may send requests that change \
                       something, and this request does not say that one did (`Sec-Fetch-Site: same-origin`, or \
                       `Origin` with this host); programs send a token: `Authorization: Bearer <token>`";
        Self::new(StatusCode::FORBIDDEN, "cross_origin", message)
    }

    /// A session that is unknown, has ended or has expired, or whose token has.
    pub(crate) fn unknown_session() -> Self {
        let message = "this login has ended; log in again at `/login`";
        Self::new(StatusCode::UNAUTHORIZED, "unauthorized", message)
    }

    pub(crate) fn unknown_code() -> Self {
        let message = "this code is not known here, was used before or has expired; `emergent login-link` prints a \
                       new link";
        Self::new(StatusCode::UNAUTHORIZED, "unauthorized", message)
    }

    pub(crate) fn not_logged_in() -> Self {
        let message = "this request has a token and no login cookie, so there is no session to end";
        Self::new(StatusCode::CONFLICT, "conflict", message)
    }

    pub(crate) fn key_in_progress() -> Self {
        let message =
            "a request with this `Idempotency-Key` is in progress; send it again in a second for its answer";
        Self::new(StatusCode::CONFLICT, "idempotency_key_in_progress", message)
    }

    pub(crate) fn key_reused() -> Self {
        let message = "this `Idempotency-Key` was used for another request: its method, path or body differ; use a \
                       new key for a new request";
        Self::new(StatusCode::CONFLICT, "idempotency_key_reused", message)
    }

    /// A request that was accepted with the same key, and whose answer cannot be repeated.
    pub(crate) fn already_accepted(kind: &str, id: impl Display) -> Self {
        let message = format!("a request with this `Idempotency-Key` was accepted before, as {kind} `{id}`");
        Self::new(StatusCode::CONFLICT, "already_accepted", message)
            .with_details(json!({ "kind": kind, "id": id.to_string() }))
    }

    pub(crate) fn not_found(what: &str, id: impl Display) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", format!("there is no {what} `{id}` here"))
    }

    /// Something that is not there, in a sentence of its own.
    pub(crate) fn absent(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", message)
    }

    /// Like [`ApiError::not_found`], with the name that was probably meant.
    pub(crate) fn misspelt(what: &str, id: impl Display, similar: &str) -> Self {
        let message = format!("there is no {what} `{id}` here; did you mean `{similar}`?");
        Self::new(StatusCode::NOT_FOUND, "not_found", message)
    }

    pub(crate) fn unknown_project(named: &str) -> Self {
        Self::not_found("project", named.chars().take(100).collect::<String>())
    }

    pub(crate) fn invalid(field: impl Into<String>, reason: impl Into<String>) -> Self {
        Invalid::new(field, reason).into()
    }

    /// A body that is not JSON, or not a form.
    pub(crate) fn malformed(message: impl Into<String>) -> Self {
        Self::malformed_at(Invalid::new("", message))
    }

    /// Like [`ApiError::malformed`], with the field where parsing stopped.
    pub(crate) fn malformed_at(invalid: Invalid) -> Self {
        Self { code: "malformed", ..invalid.into() }
    }

    pub(crate) fn too_large(what: &str, limit: usize) -> Self {
        let message = format!("{what} is larger than the limit of {limit} bytes");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", message).with_details(json!({ "limit": limit }))
    }

    /// A JSON body has too many values.
    pub(crate) fn too_many_values(limit: usize) -> Self {
        let message = format!("the body has more JSON values than the limit of {limit}; send less at once");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", message).with_details(json!({ "limit": limit }))
    }

    /// The body of a request without a token was not complete in time.
    pub(crate) fn slow_body(seconds: u64) -> Self {
        let message =
            format!("the body did not arrive within the limit of {seconds} seconds; send the request again");
        Self::new(StatusCode::REQUEST_TIMEOUT, "timeout", message)
            .with_details(json!({ "limitSeconds": seconds }))
    }

    pub(crate) fn wrong_content_type(expected: &str) -> Self {
        let message = format!("send the body as `Content-Type: {expected}`");
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", message)
    }

    pub(crate) fn no_external_servers() -> Self {
        Self::new(StatusCode::CONFLICT, "conflict", "this server was set up without external MCP servers")
    }

    /// Quotes nothing of the request, because the caller is not authenticated.
    pub(crate) fn no_route() -> Self {
        let message = "there is nothing at this path; `/api/docs` lists what there is";
        Self::new(StatusCode::NOT_FOUND, "no_route", message)
    }

    /// Like [`ApiError::no_route`], quotes nothing of the request.
    pub(crate) fn wrong_method() -> Self {
        let message = "this method is not answered here; the header `Allow` names those that are";
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message)
    }

    /// `what` is counted, in the plural; `owner` says whose limit it is, such as "of this token".
    pub(crate) fn overloaded(what: &str, owner: &str, limit: usize) -> Self {
        let message =
            format!("{limit} {what} {owner} are in progress, which is the limit; try again in a second");
        Self::new(StatusCode::TOO_MANY_REQUESTS, "overloaded", message)
            .with_details(json!({ "limit": limit }))
    }

    pub(crate) fn too_many_failed_logins(wait: Duration) -> Self {
        let (limit, seconds) = (failed_logins::MAX_FAILURES, failed_logins::WINDOW.as_secs());
        let message = format!(
            "{limit} unknown tokens came from this address within {seconds} seconds, which is the limit; \
             check the token, and try again in {} seconds",
            wait.as_secs() + 1
        );
        Self::new(StatusCode::TOO_MANY_REQUESTS, "too_many_failed_logins", message)
            .with_details(json!({ "limit": limit, "retryAfterSeconds": wait.as_secs() + 1 }))
    }

    pub(crate) fn too_many_logins(wait: Duration) -> Self {
        let (limit, seconds) = (login_rate::MAX_LOGINS, login_rate::WINDOW.as_secs());
        let message = format!(
            "this token made {limit} logins and login codes within {seconds} seconds, which is the limit; use the \
             cookie of a login again, and try again in {} seconds",
            wait.as_secs() + 1
        );
        Self::new(StatusCode::TOO_MANY_REQUESTS, "too_many_logins", message)
            .with_details(json!({ "limit": limit, "retryAfterSeconds": wait.as_secs() + 1 }))
    }

    /// A token started an agent from outside more often than it may.
    pub(crate) fn too_many_invocations(limit: usize, wait: Duration) -> Self {
        let seconds = wait.as_secs() + 1;
        let message = format!(
            "this token started this agent {limit} times within a minute, which is the limit \
             (EMERGENT_INVOKE_RATE); try again in {seconds} seconds"
        );
        Self::new(StatusCode::TOO_MANY_REQUESTS, "rate_limited", message)
            .with_details(json!({ "limit": limit, "retryAfterSeconds": seconds }))
    }

    /// `name` is what the request called the server, if it may be quoted to a caller who is not authenticated.
    pub(crate) fn unknown_host(name: Option<&str>) -> Self {
        let name = name.map_or_else(|| "the name".to_owned(), |name| format!("`{name}`, the name"));
        let message = format!(
            "this server is not known by {name} in the header `Host`; add the name to EMERGENT_ALLOWED_HOSTS, or use the \
             server's address"
        );
        Self::new(StatusCode::MISDIRECTED_REQUEST, "unknown_host", message)
    }

    pub(crate) fn timed_out(seconds: u64) -> Self {
        let message =
            format!("the answer took longer than the limit of {seconds} seconds; ask for less at once");
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "timeout", message)
            .with_details(json!({ "limitSeconds": seconds }))
    }

    pub(crate) fn database_unavailable() -> Self {
        let message = "the database cannot be reached or does not answer; try again in a moment";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "database_unavailable", message)
    }

    /// The database was busy with other requests.
    fn database_busy(waited: Duration) -> Self {
        let seconds = waited.as_secs();
        let message = format!(
            "no connection to the database became free within {seconds} seconds, which is the limit; send \
             fewer requests at once, and try again in a second"
        );
        Self::new(StatusCode::TOO_MANY_REQUESTS, "overloaded", message)
            .with_details(json!({ "limitSeconds": seconds }))
    }

    /// As many writes of this project wait as may.
    fn too_many_writes(limit: usize) -> Self {
        let message = format!(
            "{limit} writes of this project wait for the database, which is the limit, and nothing was written; \
             send fewer writes at once, and try again in a second"
        );
        Self::new(StatusCode::TOO_MANY_REQUESTS, "overloaded", message)
            .with_details(json!({ "limit": limit }))
    }

    /// Other requests of this project have as much in memory as they may.
    fn too_many_rows(limit: usize, waited: Duration) -> Self {
        let message = format!(
            "other requests of this project had more than the limit of {limit} bytes in memory for {} seconds; send \
             fewer requests for large answers at once, and try again in a second",
            waited.as_secs()
        );
        Self::new(StatusCode::TOO_MANY_REQUESTS, "overloaded", message)
            .with_details(json!({ "limit": limit, "limitSeconds": waited.as_secs() }))
    }

    fn query_timeout(limit: Duration) -> Self {
        let seconds = limit.as_secs_f64();
        let message = format!(
            "the database needed longer than the limit of {seconds} seconds, and nothing was written; ask for \
             less at once: narrow the filter, name types, lower the depth or the number of rows"
        );
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "query_timeout", message)
            .with_details(json!({ "limitSeconds": seconds }))
    }

    fn answer_too_large(limit: usize) -> Self {
        let message = format!("the answer is larger than the limit of {limit} bytes; lower `limit`");
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "answer_too_large", message)
            .with_details(json!({ "limit": limit }))
    }

    /// `owner` says whose limit it is, such as "of this project".
    pub(crate) fn unread_answers(owner: &str, limit: usize) -> Self {
        let message = format!(
            "answers {owner} that their clients have not received yet need more than the limit of {limit} \
             bytes; read them, or send fewer requests at once"
        );
        Self::new(StatusCode::TOO_MANY_REQUESTS, "overloaded", message)
            .with_details(json!({ "limit": limit }))
    }

    /// `owner` says whose limit it is, such as "of this project".
    pub(crate) fn request_bodies(owner: &str, limit: usize) -> Self {
        let message = format!(
            "the bodies of requests {owner} need more memory than the limit of {limit} bytes; send fewer large \
             requests at once, and try again in a second"
        );
        Self::new(StatusCode::TOO_MANY_REQUESTS, "overloaded", message)
            .with_details(json!({ "limit": limit }))
    }

    /// The storage of the database is full or damaged. `/ready` fails with the same code.
    pub(crate) fn storage(fault: store::StorageFault) -> Self {
        match fault {
            store::StorageFault::Full => Self::new(
                StatusCode::INSUFFICIENT_STORAGE,
                "storage_full",
                "the server has no room left to store this, and nothing was written; free some space on its \
                 disk, and try again",
            ),
            store::StorageFault::Corrupt => Self::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "storage_corrupt",
                "the stored data is damaged; the operator has to stop the server and restore a backup",
            ),
        }
    }

    /// Why `/ready` fails while the storage has a problem. The caller is not authenticated, so the place is
    /// only in the log.
    pub(crate) fn storage_problem(problem: &store::StorageProblem) -> Self {
        Self { status: StatusCode::SERVICE_UNAVAILABLE, ..Self::storage(problem.fault) }
    }

    pub(crate) fn unavailable(message: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", message)
    }

    /// Logs the error with its causes, and does not reveal them to the caller.
    pub(crate) fn internal(failure: &(dyn std::error::Error + 'static)) -> Self {
        Self::internal_text(&emergent_net::errors::error_chain(failure))
    }

    /// Like [`ApiError::internal`], for a failure that is only a text.
    pub(crate) fn internal_text(text: &str) -> Self {
        error!(cause = text, "a request failed");
        let message = "something went wrong here; the server's log has the reason under this request's id";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", message)
    }

    /// Returns the body of the error, which is also used for an item of a bulk response.
    pub(crate) fn into_body(self) -> FailureBody {
        FailureBody { code: self.code.into(), message: self.message, details: self.details }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let (status, code) = (self.status, self.code);
        let wait =
            self.details.as_ref().and_then(|details| details["retryAfterSeconds"].as_u64()).unwrap_or(1);
        let body = Failure { success: false, error: self.into_body() };
        // Strings and JSON values always serialise.
        let mut bytes = serde_json::to_vec(&body).unwrap_or_default();
        bytes.push(JSON_END);
        let mut response = Response::new(Body::from(bytes));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        match status {
            StatusCode::UNAUTHORIZED => {
                headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
                headers.insert(header::RETRY_AFTER, HeaderValue::from(wait));
            }
            StatusCode::CONFLICT if code == "idempotency_key_in_progress" => {
                headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
            }
            _ => {}
        }
        response
    }
}
