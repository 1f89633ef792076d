//! How an answer is written: one envelope, serialised once, straight into bytes.

use axum::{
    body::Body,
    http::{HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use emergent_domain::cursor::{Cursor, ResultPage};
pub(crate) use emergent_wire::envelope::Envelope;
use serde::Serialize;

use crate::{error::ApiError, views::IntoView};

pub(crate) const NEXT_CURSOR: HeaderName = HeaderName::from_static("x-next-cursor");

pub(crate) struct ApiResponse<T> {
    status: StatusCode,
    next: Option<Cursor>,
    data: T,
}

pub(crate) type Result<T> = std::result::Result<ApiResponse<T>, ApiError>;

pub(crate) fn ok<T>(data: impl IntoView<T>) -> Result<T> {
    Ok(ApiResponse { status: StatusCode::OK, next: None, data: data.into_view() })
}

pub(crate) fn created<T>(data: impl IntoView<T>) -> Result<T> {
    Ok(ApiResponse { status: StatusCode::CREATED, next: None, data: data.into_view() })
}

/// It will be done, and is not done yet.
pub(crate) fn accepted<T>(data: impl IntoView<T>) -> Result<T> {
    Ok(ApiResponse { status: StatusCode::ACCEPTED, next: None, data: data.into_view() })
}

/// 201 for what was made now, 200 for what was there.
pub(crate) fn created_if<T>(made_now: bool, data: impl IntoView<T>) -> Result<T> {
    if made_now { created(data) } else { ok(data) }
}

/// One page, with the place of the next in `x-next-cursor`.
pub(crate) fn page<T, U: IntoView<T>>(page: ResultPage<U>) -> Result<Vec<T>> {
    let next = page.next;
    Ok(ApiResponse {
        status: StatusCode::OK,
        next,
        data: page.items.into_iter().map(IntoView::into_view).collect(),
    })
}

pub(crate) fn list<T, U: IntoView<T>>(items: impl IntoIterator<Item = U>) -> Result<Vec<T>> {
    ok(items.into_iter().map(IntoView::into_view).collect::<Vec<T>>())
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
        // A cursor is base64, which is always a header's value.
        let next = self.next.and_then(|cursor| HeaderValue::from_str(&cursor.encode()).ok());
        if let Some(next) = next {
            response.headers_mut().insert(NEXT_CURSOR, next);
        }
        response
    }
}
