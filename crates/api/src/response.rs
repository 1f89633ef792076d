//! Successful responses: the data in the envelope `{ success, data }`, with a status and the cursor of the
//! next page.

use axum::{
    body::Body,
    http::{HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use emergent_domain::{
    cursor::{Cursor, ResultPage},
    token::Scope,
};
use emergent_store::{idempotency::Answer, read_memory::has_large_rows};
pub(crate) use emergent_wire::envelope::Envelope;
use emergent_wire::withheld::Withhold;
use serde::Serialize;
use tokio::{
    runtime::{Handle, RuntimeFlavor},
    task::block_in_place,
};

use crate::{
    auth::Caller,
    error::{ApiError, JSON_END},
    views::IntoView,
};

/// The header with the cursor of the next page.
pub(crate) const NEXT_CURSOR: HeaderName = HeaderName::from_static("x-next-cursor");

/// The capacity of a smaller answer is not worth the time to free it.
const LARGE_ANSWER_BYTES: usize = 64 << 10;

/// A successful response.
pub(crate) struct ApiResponse<T> {
    status: StatusCode,
    /// The cursor of the next page; `None` on the last page, and for responses without pages.
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

/// 202: the work was accepted, and is done later.
pub(crate) fn accepted<T>(data: impl IntoView<T>) -> Result<T> {
    Ok(ApiResponse { status: StatusCode::ACCEPTED, next: None, data: data.into_view() })
}

/// 201 if `is_new`, or 200 for data that existed before.
pub(crate) fn created_if<T>(is_new: bool, data: impl IntoView<T>) -> Result<T> {
    if is_new { created(data) } else { ok(data) }
}

/// The answer to a write: whole for a caller with the scope `read`, and otherwise only what identifies the result.
/// Without this, whoever may write could read everything by changing nothing.
pub(crate) fn written<T: Withhold>(caller: &Caller, read: Scope, answer: Result<T>) -> Result<T> {
    let answer = answer?;
    let may_read = caller.token.scopes.contains(&read);
    Ok(if may_read { answer } else { ApiResponse { data: answer.data.withhold(), ..answer } })
}

/// 200 with one page of a list, and the cursor of the next page in `x-next-cursor`.
pub(crate) fn page<T, U: IntoView<T>>(page: ResultPage<U>) -> Result<Vec<T>> {
    let next = page.next;
    Ok(ApiResponse {
        status: StatusCode::OK,
        next,
        data: page.items.into_iter().map(IntoView::into_view).collect(),
    })
}

/// 200 with a complete list.
pub(crate) fn list<T, U: IntoView<T>>(items: impl IntoIterator<Item = U>) -> Result<Vec<T>> {
    ok(items.into_iter().map(IntoView::into_view).collect::<Vec<T>>())
}

impl<T: Serialize> ApiResponse<T> {
    /// Returns the response in the form in which it is stored. `None` if it cannot be serialised.
    pub(crate) fn into_answer(self) -> Option<Answer> {
        let mut body = serde_json::to_string(&Envelope { success: true, data: self.data }).ok()?;
        body.push(char::from(JSON_END));
        Some(Answer { status: self.status.as_u16(), body })
    }
}

/// Builds the answer of the current request. While a large one is built, another thread goes on with the requests of
/// this one.
pub(crate) fn build_answer<T>(build: impl FnOnce() -> T) -> T {
    let is_multi_threaded =
        || Handle::try_current().is_ok_and(|handle| handle.runtime_flavor() == RuntimeFlavor::MultiThread);
    if has_large_rows() && is_multi_threaded() { block_in_place(build) } else { build() }
}

impl<T: Serialize> IntoResponse for ApiResponse<T> {
    fn into_response(self) -> Response {
        let mut bytes = Vec::with_capacity(512);
        let envelope = Envelope { success: true, data: self.data };
        if let Err(error) = build_answer(|| serde_json::to_writer(&mut bytes, &envelope)) {
            return ApiError::internal(&error).into_response();
        }
        bytes.push(JSON_END);
        // The client may take long to receive a large answer, so the capacity that it does not need is freed.
        if bytes.capacity() > LARGE_ANSWER_BYTES {
            bytes.shrink_to_fit();
        }
        let mut response = Response::new(Body::from(bytes));
        *response.status_mut() = self.status;
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        // A cursor is base64, so it is always a valid header value.
        let next = self.next.and_then(|cursor| HeaderValue::from_str(&cursor.encode()).ok());
        if let Some(next) = next {
            response.headers_mut().insert(NEXT_CURSOR, next);
        }
        response
    }
}
