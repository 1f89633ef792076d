//! Gives the errors of these routes the shape that clients of OpenAI read.

use axum::{
    body::{Body, to_bytes},
    extract::Request,
    http::{HeaderName, HeaderValue, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use emergent_domain::foreign_json;
use emergent_surfaces::openai::error::{RunFailure, error_body};
use emergent_wire::envelope::Failure;

/// The errors of the API are shorter.
const MAX_ERROR_BYTES: usize = 1 << 20;
/// Tells a client whether it may repeat a request by itself.
const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");

/// Adds the fields of OpenAI to the errors of these routes, whatever refused the request.
pub(super) async fn in_shape_of_openai(request: Request, next: Next) -> Response {
    let response = next.run(request).await;
    if response.status().is_success() {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let Ok(bytes) = to_bytes(body, MAX_ERROR_BYTES).await else {
        return (parts.status, "").into_response();
    };
    let bytes = match foreign_json::from_slice::<Failure>(&bytes) {
        Ok(failure) => {
            serde_json::to_vec(&error_body(parts.status.as_u16(), failure.error)).unwrap_or_default()
        }
        Err(_) => bytes.to_vec(),
    };
    parts.headers.remove(header::CONTENT_LENGTH);
    Response::from_parts(parts, Body::from(bytes))
}

/// The response about a run that has no answer. A client that repeated the request by itself would start another run.
pub(super) fn without_retry(failure: RunFailure) -> Response {
    let status = axum::http::StatusCode::from_u16(failure.status).unwrap_or_default();
    let body = Failure { success: false, error: failure.into_body() };
    let mut response = (status, axum::Json(body)).into_response();
    response.headers_mut().insert(SHOULD_RETRY, HeaderValue::from_static("false"));
    response
}
