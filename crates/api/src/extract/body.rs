//! Reads request bodies up to a limit.

use std::time::Duration;

use axum::{
    body::{Body, Bytes},
    http::{HeaderMap, header, request::Parts},
};
use emergent_store::requester::Requester;
use futures_util::StreamExt;
use tokio::time::timeout;

use crate::{ApiError, App, auth::Caller, limits, request_context::RequestContext};

/// The maximum size of the rest of a body that is read and discarded.
const MAX_DISCARDED_BYTES: usize = 64 << 20;
/// Smaller bodies are not counted: the limit of requests is sufficient for them.
const MIN_COUNTED: usize = 64 << 10;

/// The limits of the bodies of a route. It is an extension of each request to a route that has limits of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BodyLimits {
    pub bytes: usize,
    /// How many values a JSON body may have.
    pub json_values: usize,
}

impl BodyLimits {
    /// The limits of a route whose bodies are small.
    pub(crate) const SMALL: Self = Self { bytes: limits::SMALL_BODY, json_values: limits::JSON_VALUES };
    /// The limits of a login.
    pub(crate) const LOGIN: Self = Self { bytes: limits::LOGIN_BODY, json_values: limits::JSON_VALUES };
    /// The limits of a route that takes many objects at once.
    pub(crate) const BULK: Self = Self { bytes: limits::BODY, json_values: limits::BULK_JSON_VALUES };
}

/// The time until a body has to be complete. It is an extension of requests that are not authenticated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BodyDeadline(pub Duration);

/// Returns the whole body, or an error 413 with the limit. `what` is the subject of the error's message.
pub(crate) async fn read_limited(
    parts: &Parts,
    body: Body,
    limit: usize,
    what: &str,
) -> Result<Bytes, ApiError> {
    let limit = parts.extensions.get::<BodyLimits>().map_or(limit, |of_route| of_route.bytes.min(limit));
    let reading = read(parts, body, limit, what);
    match parts.extensions.get::<BodyDeadline>() {
        None => reading.await,
        Some(BodyDeadline(deadline)) => {
            let slow = |_| Err(ApiError::slow_body(deadline.as_secs()));
            timeout(*deadline, reading).await.unwrap_or_else(slow)
        }
    }
}

async fn read(parts: &Parts, body: Body, limit: usize, what: &str) -> Result<Bytes, ApiError> {
    let headers = &parts.headers;
    let content_length = headers
        .get(header::CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok())
        .and_then(|text| text.parse::<usize>().ok());
    if content_length.is_some_and(|length| length > limit) && headers.contains_key(header::EXPECT) {
        return Err(ApiError::too_large(what, limit));
    }
    let memory = BodyMemory::new(parts);
    // A body that arrives as one part is not copied.
    let (mut first, mut joined, mut length) = (Bytes::new(), Vec::new(), 0);
    let mut stream = body.into_data_stream();
    while let Some(part) = stream.next().await {
        let part = part.map_err(|_| ApiError::malformed("the body ended early"))?;
        length += part.len();
        let refusal = match length > limit {
            true => Some(ApiError::too_large(what, limit)),
            false => memory.hold(length).err(),
        };
        if let Some(refusal) = refusal {
            drop((first, joined, part));
            memory.release();
            discard_rest(stream, limit).await;
            return Err(refusal);
        }
        if first.is_empty() && joined.is_empty() {
            first = part;
            continue;
        }
        if joined.is_empty() {
            joined.reserve(content_length.unwrap_or(0).min(limit));
            joined.extend_from_slice(&first);
            first = Bytes::new();
        }
        joined.extend_from_slice(&part);
    }
    Ok(if joined.is_empty() { first } else { joined.into() })
}

/// Counts the memory of a request's body, and of the values that it contains.
#[derive(Clone)]
pub(super) struct BodyMemory(Option<Counted>);

#[derive(Clone)]
struct Counted {
    app: App,
    context: RequestContext,
    requester: Requester,
}

impl BodyMemory {
    pub(super) fn new(parts: &Parts) -> Self {
        let extensions = &parts.extensions;
        let requester = extensions.get::<Caller>().map_or(Requester::Authentication, Caller::requester);
        let (app, context) = (extensions.get::<App>().cloned(), extensions.get::<RequestContext>().cloned());
        Self(app.zip(context).map(|(app, context)| Counted { app, context, requester }))
    }

    /// Counts this many bytes until the request ends, or returns the error that names the limit.
    pub(super) fn hold(&self, bytes: usize) -> Result<(), ApiError> {
        let Some(Counted { app, context, requester }) = self.0.as_ref().filter(|_| bytes >= MIN_COUNTED)
        else {
            return Ok(());
        };
        let held = context.hold_body(&app.bodies, *requester, bytes);
        held.map_err(|exceeded| ApiError::request_bodies(exceeded.owner, exceeded.limit))
    }

    fn release(&self) {
        if let Some(counted) = &self.0 {
            counted.context.release_body();
        }
    }
}

/// Reads and discards the rest of a body, up to eight times its limit, and at least what other routes take. Otherwise a client that is still
/// sending would see a broken connection instead of the error.
async fn discard_rest(mut stream: axum::body::BodyDataStream, limit: usize) {
    let mut remaining = limit.saturating_mul(8).clamp(limits::BODY, MAX_DISCARDED_BYTES);
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

#[cfg(test)]
mod tests {
    use axum::http::Request;
    use futures_util::stream;

    use super::*;

    #[tokio::test]
    async fn a_body_without_a_token_has_a_deadline_for_the_whole() {
        let parts = |deadline: Option<BodyDeadline>| {
            let mut parts = Request::new(()).into_parts().0;
            if let Some(deadline) = deadline {
                parts.extensions.insert(deadline);
            }
            parts
        };
        // A byte every 20 milliseconds, eight times.
        let slow = || {
            Body::from_stream(stream::unfold(0, |n| async move {
                tokio::time::sleep(Duration::from_millis(20)).await;
                (n < 8).then(|| (Ok::<_, std::io::Error>(Bytes::from_static(b" ")), n + 1))
            }))
        };
        let limited = parts(Some(BodyDeadline(Duration::from_millis(100))));
        let refused = read_limited(&limited, slow(), 100, "the body").await.unwrap_err();
        assert_eq!(refused.status.as_u16(), 408);
        assert_eq!(read_limited(&parts(None), slow(), 100, "the body").await.unwrap().len(), 8);
    }
}
