//! Forwards messages to `/mcp` and prints the responses. Over HTTP, MCP requires headers that stdio does not
//! have; they are derived from the message.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use axum::http::{self, HeaderName, HeaderValue, header};
use base64::{Engine, prelude::BASE64_STANDARD};
use emergent_domain::foreign_json;
use emergent_mcp::message::{LEGACY, MODERN, Message, Response as RpcResponse, RpcError, code, meta};
use futures_util::StreamExt;
use serde_json::{Value, json, value::RawValue};
use tokio::sync::Mutex;

use super::{connection::ServerConnection, stdio::Printer};
use crate::{
    client::{ApiResponse, Client},
    error::{Error, Result},
};

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
/// How long to wait before the session's event stream is opened again.
const RECONNECT_DELAY: Duration = Duration::from_secs(1);

/// Forwards the messages of one stdio client.
pub(super) struct Bridge {
    connection: ServerConnection,
    printer: Printer,
    session: Arc<Mutex<Option<Session>>>,
    /// Whether the task that follows the session's event stream is running.
    is_following: AtomicBool,
}

/// The session of a client with a legacy version of the protocol. Its `initialize` message is stored to start
/// a new session when the server has forgotten this one.
#[derive(Clone)]
struct Session {
    id: HeaderValue,
    initialize: String,
}

impl Bridge {
    pub fn new(connection: ServerConnection, printer: Printer) -> Self {
        Self { connection, printer, session: Arc::default(), is_following: AtomicBool::new(false) }
    }

    /// Forwards one message. A failure is printed as a JSON-RPC error, if the message is a request.
    pub async fn forward(&self, text: &str) {
        let Ok(message) = Message::parse(text.as_bytes()) else { return };
        if let Err(error) = self.try_forward(text, &message).await {
            if matches!(error, Error::Unreachable { .. }) {
                self.connection.disconnect().await;
            }
            if let Some(id) = message.id.filter(|_| message.method.is_some()) {
                self.printer.print(&error_text(Some(id), &error.describe())).await;
            }
        }
    }

    async fn try_forward(&self, text: &str, message: &Message<'_>) -> Result<()> {
        let params: Value =
            message.params.and_then(|params| foreign_json::from_str(params.get()).ok()).unwrap_or_default();
        let method = message.method.as_deref().unwrap_or_default();
        let starts_run =
            method == "tools/call" && params["name"].as_str().is_some_and(|name| name.starts_with("agent_"));
        let client = self.connection.connect(starts_run).await?;
        if let Some(headers) = modern_headers(method, &params) {
            if method == "subscriptions/listen" && client.is_sole_driver() {
                drop(client);
                return self.answer_empty_subscription(message.id).await;
            }
            let response = post(&client, headers, text).await?;
            return self.print(message.id, response).await;
        }
        let response = match method {
            "initialize" => {
                let response = post(&client, Vec::new(), text).await?;
                let id = response.headers.get(&SESSION).cloned();
                *self.session.lock().await = id.map(|id| Session { id, initialize: text.to_owned() });
                response
            }
            _ => self.post_in_session(&client, text).await?,
        };
        if method == "notifications/initialized" && !client.is_sole_driver() {
            self.follow_session_stream();
        }
        self.print(message.id, response).await
    }

    /// Posts a message in the client's session; starts a new session when the server has forgotten it.
    async fn post_in_session(&self, client: &Client, text: &str) -> Result<ApiResponse> {
        let session = self.session.lock().await.clone();
        let Some(session) = session else { return post(client, Vec::new(), text).await };
        let headers = vec![(SESSION, session.id.clone())];
        let response = post(client, headers, text).await?;
        if response.status != http::StatusCode::NOT_FOUND {
            return Ok(response);
        }
        let id = self.restart_session(client, &session).await?;
        post(client, vec![(SESSION, id)], text).await
    }

    /// Starts a new session with the stored `initialize` message; returns its id.
    async fn restart_session(&self, client: &Client, forgotten: &Session) -> Result<HeaderValue> {
        let mut current = self.session.lock().await;
        // Another request has started a new session meanwhile.
        if let Some(session) = current.as_ref().filter(|session| session.id != forgotten.id) {
            return Ok(session.id.clone());
        }
        let response = post(client, Vec::new(), &forgotten.initialize).await?;
        let Some(id) = response.headers.get(&SESSION).cloned() else {
            return Err(Error::Unexpected("the server started no session".to_owned()));
        };
        let initialized = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }).to_string();
        post(client, vec![(SESSION, id.clone())], &initialized).await?;
        *current = Some(Session { id: id.clone(), ..forgotten.clone() });
        Ok(id)
    }

    /// Acknowledges a subscription with no notifications and never ends. On a data folder of this process the
    /// tools cannot change, and a real stream would keep the folder locked for other processes.
    async fn answer_empty_subscription(&self, id: Option<&RawValue>) -> Result<()> {
        let id: Value = id.and_then(|id| foreign_json::from_str(id.get()).ok()).unwrap_or_default();
        let params = json!({ "_meta": { meta::SUBSCRIPTION_ID: id }, "notifications": {} });
        let method = "notifications/subscriptions/acknowledged";
        self.printer
            .print(&json!({ "jsonrpc": "2.0", "method": method, "params": params }).to_string())
            .await;
        std::future::pending().await
    }

    /// Starts a task that prints the notifications of the server in the client's current session.
    fn follow_session_stream(&self) {
        if self.is_following.swap(true, Ordering::Relaxed) {
            return;
        }
        let (connection, printer, current) =
            (self.connection.clone(), self.printer.clone(), Arc::clone(&self.session));
        #[expect(
            clippy::disallowed_methods,
            reason = "there is one such task, and it ends with the process"
        )]
        tokio::spawn(async move {
            loop {
                let session = current.lock().await.clone();
                if let (Some(client), Some(session)) = (connection.connected().await, session) {
                    let headers = [(SESSION, session.id), accept_header("text/event-stream")];
                    let response = client.send_raw(http::Method::GET, "/mcp", &headers, None).await;
                    if let Ok(response) = response
                        && response.status.is_success()
                    {
                        let _ = print_events(&printer, response).await;
                    }
                }
                tokio::time::sleep(RECONNECT_DELAY).await;
            }
        });
    }

    /// Prints a response: each event of a stream, or the JSON-RPC message. Another body becomes an error for
    /// the request `id`.
    async fn print(&self, id: Option<&RawValue>, response: ApiResponse) -> Result<()> {
        let content_type = response.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        if content_type.is_some_and(|content_type| content_type.starts_with("text/event-stream")) {
            return print_events(&self.printer, response).await;
        }
        let status = response.status;
        let text = response.text().await?;
        let Some(id) = id else { return Ok(()) };
        let body: Value = foreign_json::from_str(&text).unwrap_or_default();
        if body["jsonrpc"] == "2.0" {
            self.printer.print(&text).await;
        } else {
            let reason = body["error"]["message"].as_str().map_or_else(|| status.to_string(), str::to_owned);
            self.printer.print(&error_text(Some(id), &reason)).await;
        }
        Ok(())
    }
}

async fn post(
    client: &Client,
    mut headers: Vec<(HeaderName, HeaderValue)>,
    text: &str,
) -> Result<ApiResponse> {
    headers.push(accept_header("application/json, text/event-stream"));
    client.send_raw(http::Method::POST, "/mcp", &headers, Some(text.to_owned())).await
}

fn accept_header(media_types: &'static str) -> (HeaderName, HeaderValue) {
    (header::ACCEPT, HeaderValue::from_static(media_types))
}

/// Prints the messages of an event stream as they arrive.
async fn print_events(printer: &Printer, response: ApiResponse) -> Result<()> {
    let mut chunks = response.stream();
    let mut buffer = Vec::new();
    while let Some(chunk) = chunks.next().await {
        buffer.extend_from_slice(&chunk?);
        while let Some(end) = buffer.windows(2).position(|pair| pair == b"\n\n") {
            let event: Vec<u8> = buffer.drain(..end + 2).collect();
            let event = String::from_utf8_lossy(&event);
            let data: Vec<_> = event.lines().filter_map(|line| line.strip_prefix("data:")).collect();
            if !data.is_empty() {
                printer.print(data.join("\n").trim()).await;
            }
        }
    }
    Ok(())
}

/// The headers that the modern protocol requires for a message; `None` for a message of a legacy version.
fn modern_headers(method: &str, params: &Value) -> Option<Vec<(HeaderName, HeaderValue)>> {
    let version = params["_meta"][meta::PROTOCOL_VERSION].as_str();
    // `server/discover` exists only in the modern protocol, so it counts as modern without a version; the
    // server reports what is missing.
    let version = version.or_else(|| (method == "server/discover").then_some(MODERN))?;
    if LEGACY.contains(&version) && method == "initialize" {
        return None;
    }
    let name = match method {
        "resources/read" => params["uri"].as_str(),
        _ => params["name"].as_str(),
    };
    let mut headers =
        vec![(VERSION, header_value(version)), (HeaderName::from_static("mcp-method"), header_value(method))];
    headers.extend(name.map(|name| (HeaderName::from_static("mcp-name"), header_value(name))));
    Some(headers)
}

/// The value of a header. Text that is not plain ASCII, or looks encoded, is encoded as `=?base64?…?=`.
fn header_value(text: &str) -> HeaderValue {
    let is_plain = text.trim() == text && text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    let looks_encoded = text.starts_with("=?base64?");
    let encoded = || format!("=?base64?{}?=", BASE64_STANDARD.encode(text));
    let text = if is_plain && !looks_encoded { text.to_owned() } else { encoded() };
    // Both forms are printable ASCII, so the conversion does not fail.
    HeaderValue::from_str(&text).unwrap_or_else(|_| HeaderValue::from_static(""))
}

/// The id of the request that a message cancels; `None` for any other message.
pub(super) fn cancelled_id(message: &Message<'_>) -> Option<String> {
    if message.method.as_deref() != Some("notifications/cancelled") {
        return None;
    }
    let params: Value = foreign_json::from_str(message.params?.get()).ok()?;
    Some(params["requestId"].to_string())
}

/// The JSON-RPC error response for a failure of the bridge itself.
pub(super) fn error_text(id: Option<&RawValue>, reason: &str) -> String {
    rpc_error_text(id, &RpcError::new(code::INTERNAL, reason))
}

pub(super) fn rpc_error_text(id: Option<&RawValue>, error: &RpcError) -> String {
    let text = RpcResponse::error(id, error).to_bytes().unwrap_or_default();
    String::from_utf8_lossy(&text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_modern_message_gets_headers_and_a_legacy_one_none() {
        let params = json!({ "_meta": { meta::PROTOCOL_VERSION: "2026-07-28" }, "name": "grüße" });
        let headers = modern_headers("tools/call", &params).unwrap();
        let text: Vec<_> =
            headers.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect();
        assert_eq!(
            text,
            [
                "mcp-protocol-version: 2026-07-28",
                "mcp-method: tools/call",
                "mcp-name: =?base64?Z3LDvMOfZQ==?="
            ]
        );
        assert!(modern_headers("tools/call", &json!({ "name": "x" })).is_none());
        assert!(modern_headers("initialize", &json!({ "protocolVersion": "2025-11-25" })).is_none());
        assert!(modern_headers("server/discover", &json!({})).is_some());
    }

    #[test]
    fn a_header_value_that_is_not_plain_is_encoded() {
        assert_eq!(header_value("file:///a b"), "file:///a b");
        assert_eq!(header_value(" x"), "=?base64?IHg=?=");
        assert_eq!(header_value("=?base64?"), "=?base64?PT9iYXNlNjQ/?=");
        assert_eq!(header_value("a\nb"), "=?base64?YQpi?=");
    }
}
