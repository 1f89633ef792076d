//! Event streams: data-only JSON frames, each durable one with its place as `id:`.

use std::{convert::Infallible, time::Duration};

use axum::{
    http::{HeaderMap, HeaderName, HeaderValue},
    response::{
        IntoResponse, Response,
        sse::{Event, KeepAlive, Sse},
    },
};
use emergent_domain::invalid::Invalid;
use futures_util::{Stream, StreamExt, future::select};
use serde::Serialize;

use crate::{App, auth::Caller, stream_limit::with_guard};

/// Comments between events, so that nobody on the way takes a quiet stream for a dead one.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// After which place a stream begins: the header of a client that reconnects goes before the
/// parameter `after`, and 0 is the beginning.
pub(crate) fn resume_seq(headers: &HeaderMap, given: Option<i64>) -> Result<i64, Invalid> {
    match last_event_id(headers)? {
        Some(seen) => Ok(seen),
        None => check_seq("after", given.unwrap_or(0)),
    }
}

fn last_event_id(headers: &HeaderMap) -> Result<Option<i64>, Invalid> {
    let wrong = || Invalid::new("Last-Event-ID", "is not a place in these events");
    let Some(value) = headers.get("last-event-id") else { return Ok(None) };
    let text = value.to_str().map_err(|_| wrong())?;
    // Browsers send an empty one when they have seen none.
    if text.is_empty() {
        return Ok(None);
    }
    let seen = text.parse().map_err(|_| wrong())?;
    check_seq("Last-Event-ID", seen).map(Some)
}

fn check_seq(field: &str, seq: i64) -> Result<i64, Invalid> {
    if seq < 0 { Err(Invalid::new(field, "must be 0 or more")) } else { Ok(seq) }
}

/// One frame; the id is where a client goes on after it.
pub(crate) fn frame(id: Option<String>, data: &impl Serialize) -> Event {
    let event = match id {
        Some(id) => Event::default().id(id),
        None => Event::default(),
    };
    match serde_json::to_string(data) {
        // JSON has no line breaks of its own, so one frame is one line.
        Ok(text) => event.data(text),
        Err(_) => event.comment("an event could not be written"),
    }
}

/// Sends frames until they end, the client leaves, its token ends, or the server closes. Refused
/// when as many streams are open as may be.
pub(crate) fn stream(
    app: &App,
    caller: &Caller,
    frames: impl Stream<Item = Event> + Send + 'static,
) -> Response {
    let place = match app.streams.acquire() {
        Ok(place) => place,
        Err(full) => return full.into_response(),
    };
    let end = select(Box::pin(app.closed()), Box::pin(caller.token_ended(app)));
    let frames = with_guard(frames.map(Ok::<_, Infallible>).take_until(end), place);
    let mut response = Sse::new(frames).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response();
    // Proxies that buffer would hold events back.
    let unbuffered = HeaderName::from_static("x-accel-buffering");
    response.headers_mut().insert(unbuffered, HeaderValue::from_static("no"));
    response
}
