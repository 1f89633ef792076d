//! Sends one request to a provider and reads the response as an event stream.

use std::{ops::ControlFlow, time::Duration};

use emergent_domain::foreign_json;
use emergent_net::{sse::Decoder, trace_context};
use reqwest::{
    Client, Response, StatusCode, Url,
    header::{CONTENT_TYPE, HeaderMap},
};
use serde_json::Value;
use tokio::time::timeout;

use crate::{
    Error,
    error::{is_refused, refused_message},
    http::{self, wait_in_headers},
};

/// How long a provider may be silent, before the first byte or between two, until it counts as
/// unreachable.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// Error bodies are short, so only this much of them is read.
const MAX_ERROR_BYTES: usize = 64 << 10;
/// A single event larger than this is an error, and would only fill the memory.
const MAX_EVENT_BYTES: usize = 16 << 20;
/// Far above any answer. Without a limit, a server that never stops would fill the memory.
const MAX_ANSWER_BYTES: usize = 256 << 20;

/// Posts `body` and passes each event of the response to `on_event`, until it breaks or the body ends.
///
/// The caller decides whether the answer was complete, since it knows the provider's last event;
/// [`incomplete_stream_error`] is the error if it was not. A broken connection is an error of this
/// function.
pub(crate) async fn post_sse(
    client: &Client,
    url: Url,
    headers: HeaderMap,
    body: impl Into<reqwest::Body>,
    model: &str,
    idle: Duration,
    mut on_event: impl FnMut(&str) -> Result<ControlFlow<()>, Error> + Send,
) -> Result<(), Error> {
    let mut request = client.post(url).headers(headers).header(CONTENT_TYPE, "application/json").body(body);
    if let Some(context) = trace_context::outgoing() {
        request = request.header(trace_context::TRACEPARENT, context);
    }
    let response = timeout(idle, request.send()).await.map_err(|_| idle_error(model, idle))?;
    let mut response = response.map_err(|error| unreachable(model, error))?;
    if !response.status().is_success() {
        return Err(response_error(response, model, idle).await);
    }
    if is_json(&response) {
        return Err(json_error(response, model, idle).await);
    }
    let mut decoder = Decoder::new(MAX_EVENT_BYTES);
    let mut total = 0;
    while let Some(bytes) = next_chunk(&mut response, model, idle).await? {
        total += bytes.len();
        let events = decoder.push(&bytes);
        let (Ok(events), true) = (events, total <= MAX_ANSWER_BYTES) else {
            return Err(malformed(model, "it is too large"));
        };
        for data in events.into_iter().filter_map(|event| event.data) {
            if on_event(&data)?.is_break() {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// The stream ended before the answer was complete.
pub(crate) fn incomplete_stream_error(model: &str) -> Error {
    overloaded(model, "the answer was cut off", None)
}

pub(crate) fn malformed(model: &str, message: impl ToString) -> Error {
    Error::Malformed { model: model.into(), message: message.to_string() }
}

/// Parses the data of an event as JSON.
pub(crate) fn parse(model: &str, data: &str) -> Result<Value, Error> {
    foreign_json::from_str(data).map_err(|error| malformed(model, error))
}

/// Converts an error in a body or event such as `{"error": {…}}`. It has the same class as the
/// equivalent HTTP status. Providers name it in `type`, as a word in `code`, or as a number there.
pub(crate) fn error_in_stream(model: &str, body: &Value) -> Error {
    let error = &body["error"];
    let words = ["type", "code", "status"].map(|key| error[key].as_str().unwrap_or_default());
    let named = words.iter().find_map(|word| {
        Some(match *word {
            "invalid_request_error" | "context_length_exceeded" => 400,
            "authentication_error" | "invalid_api_key" => 401,
            "permission_error" | "billing_error" => 403,
            "not_found_error" => 404,
            "timeout_error" => 408,
            "request_too_large" => 413,
            "rate_limit_error" | "rate_limit_exceeded" | "insufficient_quota" => 429,
            "overloaded_error" => 529,
            _ => return None,
        })
    });
    let number = || error["code"].as_u64().and_then(|code| u16::try_from(code).ok());
    let status = named.or_else(number).and_then(|status| StatusCode::from_u16(status).ok());
    // A failure half way through without a known reason is the provider's fault.
    classify(model, status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), None, &body.to_string())
}

/// What providers write, in `code` or in the message, when a conversation is too long for the model.
/// They all report it as a bad request, but the caller can fix this one by shortening the conversation.
const CONTEXT_LENGTH_MARKERS: [&str; 5] = [
    "context_length_exceeded",
    "maximum context length",
    "prompt is too long",
    "exceed_context_size",
    "exceeds the maximum number of tokens",
];

fn classify(model: &str, status: StatusCode, asked: Option<Duration>, text: &str) -> Error {
    match http::classify(model, status, asked, text) {
        Error::BadRequest { model, message, .. }
            if CONTEXT_LENGTH_MARKERS.iter().any(|words| text.contains(words)) =>
        {
            Error::ContextTooLong { model, message }
        }
        error => error,
    }
}

async fn next_chunk(response: &mut Response, model: &str, idle: Duration) -> Result<Option<Vec<u8>>, Error> {
    let chunk = timeout(idle, response.chunk()).await.map_err(|_| idle_error(model, idle))?;
    let bytes = chunk.map_err(|error| overloaded(model, "the answer was cut off", Some(error)))?;
    Ok(bytes.map(Vec::from))
}

async fn response_error(mut response: Response, model: &str, idle: Duration) -> Error {
    let status = response.status();
    let asked = wait_in_headers(response.headers());
    // The status is sufficient if the body does not arrive.
    let text = short_body(&mut response, model, idle).await.unwrap_or_default();
    classify(model, status, asked, &text)
}

/// A server or proxy that does not stream still describes the error in JSON.
async fn json_error(mut response: Response, model: &str, idle: Duration) -> Error {
    let text = match short_body(&mut response, model, idle).await {
        Ok(text) => text,
        Err(error) => return error,
    };
    match foreign_json::from_str::<Value>(&text) {
        Ok(body) if !body["error"].is_null() => error_in_stream(model, &body),
        _ => malformed(model, "it came in one piece instead of a stream"),
    }
}

async fn short_body(response: &mut Response, model: &str, idle: Duration) -> Result<String, Error> {
    let mut bytes = vec![];
    while let Some(more) = next_chunk(response, model, idle).await? {
        bytes.extend_from_slice(&more);
        if bytes.len() > MAX_ERROR_BYTES {
            break;
        }
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn is_json(response: &Response) -> bool {
    let kind = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    kind.is_some_and(|kind| kind.starts_with("application/json"))
}

fn idle_error(model: &str, idle: Duration) -> Error {
    overloaded(model, &format!("silent for {idle:?}"), None)
}

fn unreachable(model: &str, error: reqwest::Error) -> Error {
    let what = if error.is_timeout() { "no connection in time" } else { "no connection" };
    let origin = error.url().map(|url| url.origin().ascii_serialization()).unwrap_or_default();
    if is_refused(&error) {
        return overloaded(model, &refused_message(&origin), Some(error));
    }
    overloaded(model, &format!("{what} to `{origin}`"), Some(error))
}

fn overloaded(model: &str, message: &str, error: Option<reqwest::Error>) -> Error {
    // The URL may contain a key.
    let source = error.map(|error| error.without_url().into());
    Error::Overloaded { model: model.into(), message: message.into(), source }
}
