//! Reads request bodies up to a limit.

use axum::{
    body::{Body, Bytes},
    http::{HeaderMap, header},
};
use futures_util::StreamExt;

use crate::ApiError;

/// Returns the whole body, or 413 with the limit.
pub(crate) async fn read_limited(
    headers: &HeaderMap,
    body: Body,
    limit: usize,
    what: &str,
) -> Result<Bytes, ApiError> {
    let announced = headers
        .get(header::CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok())
        .and_then(|text| text.parse::<usize>().ok());
    if announced.is_some_and(|length| length > limit) && headers.contains_key(header::EXPECT) {
        return Err(ApiError::too_large(what, limit));
    }
    let mut read = Vec::with_capacity(announced.unwrap_or(0).min(limit));
    let mut stream = body.into_data_stream();
    while let Some(part) = stream.next().await {
        let part = part.map_err(|_| ApiError::malformed("the body ended early"))?;
        if read.len() + part.len() > limit {
            discard_rest(stream, limit).await;
            return Err(ApiError::too_large(what, limit));
        }
        read.extend_from_slice(&part);
    }
    Ok(read.into())
}

/// Reads and discards the rest for a while: otherwise a caller that is still sending would see a broken
/// connection instead of the reason.
async fn discard_rest(mut stream: axum::body::BodyDataStream, limit: usize) {
    let mut left = limit.saturating_mul(8).min(64 << 20);
    while let Some(Ok(part)) = stream.next().await {
        if part.len() > left {
            return;
        }
        left -= part.len();
    }
}

/// Whether the body has this content type (`application/json; charset=utf-8` is JSON).
pub(crate) fn has_content_type(headers: &HeaderMap, expected: &str) -> bool {
    let given = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = given.split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case(expected)
}
