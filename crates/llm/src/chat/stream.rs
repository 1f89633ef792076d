//! One request to a provider, its answer read as a stream of events.

use std::{ops::ControlFlow, time::Duration};

use emergent_net::sse::Decoder;
use reqwest::{
    Client, Response, StatusCode, Url,
    header::{CONTENT_TYPE, HeaderMap},
};
use serde_json::Value;
use tokio::time::timeout;

use crate::{
    Error,
    http::{self, wait_in_headers},
};

/// How long a provider may be silent, before its first byte or between two, until it counts as gone.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// Refusals are short; whoever sends more gets cut off.
const MAX_ERROR_BYTES: usize = 64 << 10;
/// A single event larger than this is no answer but a fault, and would only fill the memory.
const MAX_EVENT_BYTES: usize = 16 << 20;
/// Far above any answer; without it a server that never stops would fill the memory.
const MAX_ANSWER_BYTES: usize = 256 << 20;

/// Posts `body` and hands over each event of the answer until `on_event` breaks or the body ends.
///
/// Whether the answer was complete is for the caller to say, who knows the provider's last event;
/// [`cut_off`] is the error when it was not. A connection that breaks is an error in here.
pub(crate) async fn post_sse(
    client: &Client,
    url: Url,
    headers: HeaderMap,
    body: impl Into<reqwest::Body>,
    model: &str,
    idle: Duration,
    mut on_event: impl FnMut(&str) -> Result<ControlFlow<()>, Error> + Send,
) -> Result<(), Error> {
    let request = client.post(url).headers(headers).header(CONTENT_TYPE, "application/json").body(body);
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

/// The stream ended before the answer did.
pub(crate) fn incomplete_stream_error(model: &str) -> Error {
    overloaded(model, "the answer was cut off", None)
}

pub(crate) fn malformed(model: &str, message: impl ToString) -> Error {
    Error::Malformed { model: model.into(), message: message.to_string() }
}

/// The JSON of an event's data.
pub(crate) fn parse(model: &str, data: &str) -> Result<Value, Error> {
    serde_json::from_str(data).map_err(|error| malformed(model, error))
}

/// The error in a body or event like `{"error": {…}}`, which has the class it would have had as
/// the answer's status. Providers name it by `type`, by a word in `code`, or by a number there.
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
    // What fails half way through without a known reason is the provider's fault.
    classify(model, status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), None, &body.to_string())
}

/// What providers say, in `code` or in words, when a conversation has outgrown the model. All of
/// them call it a bad request, but this one can be mended: the conversation has to get shorter.
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
    // The status is enough where the reason does not arrive.
    let text = short_body(&mut response, model, idle).await.unwrap_or_default();
    classify(model, status, asked, &text)
}

/// A server or proxy that does not stream still says in JSON what is wrong.
async fn json_error(mut response: Response, model: &str, idle: Duration) -> Error {
    let text = match short_body(&mut response, model, idle).await {
        Ok(text) => text,
        Err(error) => return error,
    };
    match serde_json::from_str::<Value>(&text) {
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
    overloaded(model, what, Some(error))
}

fn overloaded(model: &str, message: &str, error: Option<reqwest::Error>) -> Error {
    // The address may hold a key.
    let source = error.map(|error| error.without_url().into());
    Error::Overloaded { model: model.into(), message: message.into(), source }
}
