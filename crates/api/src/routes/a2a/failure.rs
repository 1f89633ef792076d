//! Errors in the shape of each binding.

use axum::{
    body::{Body, to_bytes},
    extract::Request,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use emergent_domain::{
    foreign_json,
    invalid::{Invalid, Problem},
};
use emergent_surfaces::a2a::{
    MEDIA_TYPE,
    error::{A2aError, ErrorKind},
    jsonrpc,
};
use emergent_wire::envelope::{Failure, FailureBody};
use serde_json::Value;

use crate::{ApiError, response::build_answer};

/// The media type of clients that do not know that of the protocol.
pub(super) const JSON: &str = "application/json";
/// The errors of the API are shorter.
const MAX_ERROR_BYTES: usize = 1 << 20;

/// An error of the protocol, or one that all surfaces share.
#[derive(Debug, Clone)]
pub(super) enum A2aFailure {
    Protocol(A2aError),
    Api(ApiError),
}

pub(super) type Result<T> = std::result::Result<T, A2aFailure>;

impl A2aFailure {
    /// The error in the terms of the protocol.
    pub(super) fn into_error(self) -> A2aError {
        match self {
            Self::Protocol(error) => error,
            Self::Api(error) => {
                let status = error.status.as_u16();
                from_body(status, error.into_body())
            }
        }
    }
}

impl From<A2aError> for A2aFailure {
    fn from(error: A2aError) -> Self {
        Self::Protocol(error)
    }
}

impl From<Invalid> for A2aFailure {
    fn from(invalid: Invalid) -> Self {
        Self::Protocol(invalid.into())
    }
}

impl From<ApiError> for A2aFailure {
    fn from(error: ApiError) -> Self {
        Self::Api(error)
    }
}

impl From<emergent_executor::Error> for A2aFailure {
    fn from(error: emergent_executor::Error) -> Self {
        Self::Api(error.into())
    }
}

impl From<emergent_store::Error> for A2aFailure {
    fn from(error: emergent_store::Error) -> Self {
        Self::Api(error.into())
    }
}

/// An extension of a response: the error, which the layer of the binding writes.
#[derive(Clone)]
struct PendingError(A2aError);

/// An extension of a response of the JSON-RPC binding: the id of the request.
#[derive(Clone)]
pub(super) struct RequestId(pub Value);

impl IntoResponse for A2aFailure {
    fn into_response(self) -> Response {
        match self {
            // The layer turns the envelope into the shape of the binding, and keeps the headers.
            Self::Api(error) => error.into_response(),
            Self::Protocol(error) => {
                let mut response = StatusCode::BAD_REQUEST.into_response();
                response.extensions_mut().insert(PendingError(error));
                response
            }
        }
    }
}

fn from_body(status: u16, body: FailureBody) -> A2aError {
    let problems = if status == 400 { problems(&body) } else { Vec::new() };
    A2aError::refused(status, &body.code, body.message, problems)
}

/// The fields that an error names.
pub(super) fn problems(body: &FailureBody) -> Vec<Problem> {
    let text = |value: &Value, field: &str| value[field].as_str().unwrap_or_default().to_owned();
    let list = body.details.as_ref().and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    list.iter().map(|one| Problem::new(text(one, "field"), text(one, "reason"))).collect()
}

/// Returns the error of a response that is one, and the rest of the response.
async fn split_error(response: Response) -> std::result::Result<(A2aError, Response), Response> {
    if response.status().is_success() || response.status() == StatusCode::NOT_MODIFIED {
        return Err(response);
    }
    let (mut parts, body) = response.into_parts();
    if let Some(PendingError(error)) = parts.extensions.remove() {
        return Ok((error, Response::from_parts(parts, Body::empty())));
    }
    let Ok(bytes) = to_bytes(body, MAX_ERROR_BYTES).await else {
        return Err(Response::from_parts(parts, Body::empty()));
    };
    match foreign_json::from_slice::<Failure>(&bytes) {
        Ok(failure) => {
            let error = from_body(parts.status.as_u16(), failure.error);
            parts.headers.remove(header::CONTENT_LENGTH);
            Ok((error, Response::from_parts(parts, Body::empty())))
        }
        Err(_) => Err(Response::from_parts(parts, Body::from(bytes))),
    }
}

fn json_body(value: &impl serde::Serialize) -> Body {
    // Texts and JSON values can always be written.
    Body::from(build_answer(|| serde_json::to_vec(value)).unwrap_or_default())
}

/// Writes errors as those of JSON-RPC. An error of the protocol is a response like any other; what all surfaces refuse
/// keeps its status.
pub(super) async fn in_shape_of_jsonrpc(request: Request, next: Next) -> Response {
    let (error, mut response) = match split_error(next.run(request).await).await {
        Ok(split) => split,
        Err(response) => return response,
    };
    let id = response.extensions_mut().remove::<RequestId>().map_or(Value::Null, |RequestId(id)| id);
    *response.status_mut() = match error.kind {
        ErrorKind::Refused(_) => response.status(),
        ErrorKind::WrongContentType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
        _ => StatusCode::OK,
    };
    *response.body_mut() = json_body(&jsonrpc::failure(&id, &error));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// Writes errors as those of the HTTP+JSON binding, and responses with the media type that the client knows.
pub(super) async fn in_shape_of_http(request: Request, next: Next) -> Response {
    let media_type = response_type(request.headers());
    let mut response = match split_error(next.run(request).await).await {
        Ok((error, response)) => write_http_error(&error, response),
        Err(response) => response,
    };
    let headers = response.headers_mut();
    if headers.get(header::CONTENT_TYPE).is_some_and(|value| value == MEDIA_TYPE) {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    }
    response
}

/// The media type of a response. Version 1.0.1 recommends its own one, while clients of 1.0.0 expect JSON's, and both
/// have the version 1.0. So a client that names the newer one gets it, whether for the request or for the response.
fn response_type(headers: &HeaderMap) -> &'static str {
    let named = headers.get_all(header::ACCEPT).into_iter().chain(headers.get_all(header::CONTENT_TYPE));
    let mut types = named.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(','));
    let is_named = types.any(|one| {
        let media_type = one.split(';').next().unwrap_or_default().trim();
        media_type.eq_ignore_ascii_case(MEDIA_TYPE)
    });
    if is_named { MEDIA_TYPE } else { JSON }
}

/// The response to a request that no route takes: in the shape of the HTTP+JSON binding if it was meant for that.
pub(crate) fn shape_error(path: &str, headers: &HeaderMap, error: ApiError) -> Response {
    let mut parts = path.split('/').skip(1);
    let is_of_binding = parts.next() == Some("a2a") && parts.nth(2) == Some("v1");
    match is_of_binding {
        true => {
            let mut response = write_http_error(&A2aFailure::Api(error).into_error(), Response::default());
            let media_type = HeaderValue::from_static(response_type(headers));
            response.headers_mut().insert(header::CONTENT_TYPE, media_type);
            response
        }
        false => error.into_response(),
    }
}

fn write_http_error(error: &A2aError, mut response: Response) -> Response {
    *response.status_mut() =
        StatusCode::from_u16(error.kind.http_status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    *response.body_mut() = json_body(&error.http_body());
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
    response
}
