//! Reads request bodies up to a limit.

use axum::{
    body::{Body, Bytes},
    http::{HeaderMap, header},
};
use futures_util::StreamExt;

use crate::ApiError;

/// The maximum size of the rest of a body that is read and discarded.
const MAX_DISCARDED_BYTES: usize = 64 << 20;

/// Returns the whole body, or an error 413 with the limit. `what` is the subject of the error's message.
pub(crate) async fn read_limited(
    headers: &HeaderMap,
    body: Body,
    limit: usize,
    what: &str,
) -> Result<Bytes, ApiError> {
    let content_length = headers
        .get(header::CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok())
        .and_then(|text| text.parse::<usize>().ok());
    if content_length.is_some_and(|length| length > limit) && headers.contains_key(header::EXPECT) {
        return Err(ApiError::too_large(what, limit));
    }
    let mut bytes = Vec::with_capacity(content_length.unwrap_or(0).min(limit));
    let mut stream = body.into_data_stream();
    while let Some(part) = stream.next().await {
        let part = part.map_err(|_| ApiError::malformed("the body ended early"))?;
        if bytes.len() + part.len() > limit {
            discard_rest(stream, limit).await;
            return Err(ApiError::too_large(what, limit));
        }
        bytes.extend_from_slice(&part);
    }
    Ok(bytes.into())
}

/// Reads and discards the rest of a body, up to eight times its limit. Otherwise a client that is still
/// sending would see a broken connection instead of the error.
async fn discard_rest(mut stream: axum::body::BodyDataStream, limit: usize) {
    let mut remaining = limit.saturating_mul(8).min(MAX_DISCARDED_BYTES);
    while let Some(Ok(part)) = stream.next().await {
        if part.len() > remaining {
            return;
        }
        remaining -= part.len();
    }
}

/// Whether the body has this content type (`application/json; charset=utf-8` is JSON).
pub(crate) fn has_content_type(headers: &HeaderMap, expected: &str) -> bool {
    let value = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let media_type = value.split(';').next().unwrap_or_default().trim();
    media_type.eq_ignore_ascii_case(expected)
}
