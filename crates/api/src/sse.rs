//! Responses that are event streams. The data of a frame is JSON; the frame of a stored event has its
//! position as `id:`, so that a client can resume after it.

use std::{convert::Infallible, str::FromStr, time::Duration};

use axum::{
    http::{HeaderMap, HeaderName, HeaderValue},
    response::{
        IntoResponse, Response,
        sse::{Event, KeepAlive, Sse},
    },
};
use emergent_domain::invalid::Invalid;
use emergent_store::requester::stream_on_behalf_of;
use futures_util::{Stream, StreamExt, future::select};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::IntoParams;

use crate::{
    ApiError, App,
    auth::Caller,
    stream_limit::{StreamPermit, with_guard},
};

/// Comments are sent at this interval between events, so that no proxy closes a quiet stream.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Where the events of a run or of a workflow start.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct EventsQuery {
    /// Only events after this `id:`; without it, all events. The header `Last-Event-ID` of a client that
    /// reconnects takes precedence.
    #[param(minimum = 0)]
    after: Option<i64>,
}

/// Returns the position after which a stream starts. The header of a client that reconnects takes
/// precedence over the parameter `after`; 0 is the beginning.
pub(crate) fn resume_seq(headers: &HeaderMap, query: &EventsQuery) -> Result<i64, Invalid> {
    match last_event_id(headers, "is not a position in these events")? {
        Some(last) => check_seq("Last-Event-ID", last),
        None => check_seq("after", query.after.unwrap_or(0)),
    }
}

/// Returns the position in the header `Last-Event-ID`; `reason` describes a header that is not one.
pub(crate) fn last_event_id<T: FromStr>(headers: &HeaderMap, reason: &str) -> Result<Option<T>, Invalid> {
    let invalid = || Invalid::new("Last-Event-ID", reason);
    let Some(value) = headers.get("last-event-id") else { return Ok(None) };
    let text = value.to_str().map_err(|_| invalid())?;
    // Browsers send an empty header if they have received no event.
    if text.is_empty() {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|_| invalid())
}

fn check_seq(field: &str, seq: i64) -> Result<i64, Invalid> {
    if seq < 0 { Err(Invalid::new(field, "must be 0 or more")) } else { Ok(seq) }
}

/// Returns one frame; a client that reconnects continues after its id.
pub(crate) fn frame(id: Option<String>, data: &impl Serialize) -> Event {
    text_frame(id, serde_json::to_string(data).ok().as_deref())
}

/// Like [`frame`], with data that was serialised before; `None` if that failed.
pub(crate) fn text_frame(id: Option<String>, data: Option<&str>) -> Event {
    let event = match id {
        Some(id) => Event::default().id(id),
        None => Event::default(),
    };
    match data {
        // Serialised JSON has no line breaks, so a frame is one line.
        Some(text) => event.data(text),
        None => event.comment("an event could not be serialised"),
    }
}

/// Returns the last frame of a stream that failed. A client that reconnects continues after the last id it
/// received.
pub(crate) fn error_frame(failure: impl Into<ApiError>) -> Event {
    frame(None, &json!({ "type": "error", "error": failure.into().into_body() }))
}

/// Sends frames until they end, the client disconnects, its token becomes invalid, its project
/// is deleted, or the server closes. Refused if the limit of open streams is reached.
pub(crate) fn stream(
    app: &App,
    caller: &Caller,
    frames: impl Stream<Item = Event> + Send + 'static,
) -> Response {
    match permit(app, caller) {
        Ok(permit) => stream_with(app, caller, permit, frames),
        Err(limit_reached) => limit_reached.into_response(),
    }
}

/// Returns the permit for one more stream. A request that changes something acquires it before the change, so that it
/// is not refused afterwards.
pub(crate) fn permit(app: &App, caller: &Caller) -> Result<StreamPermit, ApiError> {
    StreamPermit::acquire(&app.streams, &caller.token)
}

/// Like [`stream`], with a permit that was acquired before.
pub(crate) fn stream_with(
    app: &App,
    caller: &Caller,
    permit: StreamPermit,
    frames: impl Stream<Item = Event> + Send + 'static,
) -> Response {
    let end = select(Box::pin(app.closed()), Box::pin(caller.access_ended(app)));
    let frames = stream_on_behalf_of(caller.requester(), frames);
    let frames = app.read_memory.count_for_stream(caller.requester(), frames);
    let frames = with_guard(frames.map(Ok::<_, Infallible>).take_until(end), permit);
    let response = Sse::new(frames).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response();
    let mut response = response.map(|frames| app.answers.count_frames(frames, caller.requester()));
    // Proxies that buffer would delay events.
    let unbuffered = HeaderName::from_static("x-accel-buffering");
    response.headers_mut().insert(unbuffered, HeaderValue::from_static("no"));
    response
}
