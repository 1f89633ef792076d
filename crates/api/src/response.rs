//! Successful responses: one envelope, serialised once, directly into bytes.

use axum::{
    body::Body,
    http::{HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use emergent_domain::cursor::{Cursor, ResultPage};
use serde::Serialize;
use utoipa::ToSchema;

use crate::error::ApiError;

pub(crate) const NEXT_CURSOR: HeaderName = HeaderName::from_static("x-next-cursor");

/// The body of every successful response.
#[derive(Serialize, ToSchema)]
pub(crate) struct Envelope<T> {
    /// Always true.
    pub success: bool,
    pub data: T,
}

pub(crate) struct ApiResponse<T> {
    status: StatusCode,
    next: Option<Cursor>,
    data: T,
}

pub(crate) type Result<T> = std::result::Result<ApiResponse<T>, ApiError>;

pub(crate) fn ok<T>(data: impl Into<T>) -> Result<T> {
    Ok(ApiResponse { status: StatusCode::OK, next: None, data: data.into() })
}

pub(crate) fn created<T>(data: impl Into<T>) -> Result<T> {
    Ok(ApiResponse { status: StatusCode::CREATED, next: None, data: data.into() })
}

/// 202: the request is accepted, but not completed yet.
pub(crate) fn accepted<T>(data: impl Into<T>) -> Result<T> {
    Ok(ApiResponse { status: StatusCode::ACCEPTED, next: None, data: data.into() })
}

/// 201 if the entity was created by this request, 200 if it existed before.
pub(crate) fn created_if<T>(is_new: bool, data: impl Into<T>) -> Result<T> {
    if is_new { created(data) } else { ok(data) }
}

/// Returns one page, with the cursor of the next one in `x-next-cursor`.
pub(crate) fn page<T: From<U>, U>(page: ResultPage<U>) -> Result<Vec<T>> {
    let next = page.next;
    Ok(ApiResponse { status: StatusCode::OK, next, data: page.items.into_iter().map(T::from).collect() })
}

pub(crate) fn list<T: From<U>, U>(items: impl IntoIterator<Item = U>) -> Result<Vec<T>> {
    ok(items.into_iter().map(T::from).collect::<Vec<_>>())
}

impl<T: Serialize> IntoResponse for ApiResponse<T> {
    fn into_response(self) -> Response {
        let mut bytes = Vec::with_capacity(512);
        if let Err(error) = serde_json::to_writer(&mut bytes, &Envelope { success: true, data: self.data }) {
            return ApiError::internal(&error).into_response();
        }
        let mut response = Response::new(Body::from(bytes));
        *response.status_mut() = self.status;
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        // A cursor is base64, which is always a valid header value.
        let next = self.next.and_then(|cursor| HeaderValue::from_str(&cursor.encode()).ok());
        if let Some(next) = next {
            response.headers_mut().insert(NEXT_CURSOR, next);
        }
        response
    }
}
