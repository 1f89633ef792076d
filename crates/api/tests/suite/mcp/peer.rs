//! A minimal client of either era.

use std::sync::atomic::{AtomicU64, Ordering};

use axum::{
    body::Body,
    http::{Method, header},
    response::Response,
};
use serde_json::{Value, json};

use crate::common::{Answer, Client};

pub struct Peer {
    client: Client,
    /// The session of a legacy client; `None` for a modern one.
    session: Option<String>,
    next: AtomicU64,
}

impl Peer {
    pub fn modern(client: Client) -> Self {
        Self { client, session: None, next: AtomicU64::new(1) }
    }

    pub async fn legacy(client: Client) -> Self {
        let hello = json!({
            "jsonrpc": "2.0", "id": 0, "method": "initialize",
            "params": { "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "test", "version": "1" } },
        });
        let answer = client.post("/mcp", hello).await;
        assert_eq!(answer.body["result"]["protocolVersion"], "2025-06-18", "{}", answer.text);
        let session = answer.headers["mcp-session-id"].to_str().unwrap().to_owned();
        Self { client, session: Some(session), next: AtomicU64::new(1) }
    }

    /// The same session with another token.
    pub fn with(&self, client: Client) -> Self {
        Self { client, session: self.session.clone(), next: AtomicU64::new(1) }
    }

    fn request(&self, method: &str, mut params: Value) -> axum::http::Request<Body> {
        let request =
            self.client.request(Method::POST, "/mcp").header(header::CONTENT_TYPE, "application/json");
        let request = match &self.session {
            Some(session) => request.header("mcp-session-id", session),
            None => {
                let name = ["name", "uri"].iter().find_map(|field| params[*field].as_str());
                let mut request =
                    request.header("mcp-protocol-version", "2026-07-28").header("mcp-method", method);
                if let Some(name) = name {
                    request = request.header("mcp-name", name);
                }
                params["_meta"]["io.modelcontextprotocol/protocolVersion"] = "2026-07-28".into();
                params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
                request
            }
        };
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        request.body(message.to_string().into()).expect("a request")
    }

    pub async fn send(&self, method: &str, params: Value) -> Answer {
        self.client.send(self.request(method, params)).await
    }

    /// Returns the response itself, for streams.
    pub async fn open(&self, method: &str, params: Value) -> Response {
        self.client.open(self.request(method, params)).await
    }

    pub async fn asks(&self, method: &str, params: Value) -> Value {
        let answer = self.send(method, params).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        let result = &answer.body["result"];
        assert!(result.is_object(), "{}", answer.text);
        assert_eq!(result.get("resultType").is_some(), self.session.is_none(), "{}", answer.text);
        result.clone()
    }

    pub async fn fails(&self, method: &str, params: Value) -> Value {
        let answer = self.send(method, params).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        assert!(answer.body["error"].is_object(), "{}", answer.text);
        answer.body["error"].clone()
    }

    pub async fn call(&self, tool: &str, arguments: Value) -> Value {
        self.asks("tools/call", json!({ "name": tool, "arguments": arguments })).await
    }

    pub fn session_id(&self) -> &str {
        self.session.as_deref().expect("a session")
    }

    /// Sends a notification of the legacy era.
    pub async fn tell(&self, method: &str, params: Value) {
        assert_eq!(self.try_tell(method, params).await, 202);
    }

    /// Sends a notification of the legacy era, and returns the status of the answer.
    pub async fn try_tell(&self, method: &str, params: Value) -> u16 {
        let session = self.session.as_deref().expect("a session");
        let request = self.client.request(Method::POST, "/mcp").header("mcp-session-id", session);
        let message = json!({ "jsonrpc": "2.0", "method": method, "params": params });
        let request =
            request.header(header::CONTENT_TYPE, "application/json").body(message.to_string().into());
        self.client.send(request.unwrap()).await.status.as_u16()
    }

    /// Opens the stream of a session.
    pub async fn stream(&self) -> Response {
        let session = self.session.as_deref().expect("a session");
        let request = self.client.request(Method::GET, "/mcp").header("mcp-session-id", session);
        self.client.open(request.body(Body::empty()).unwrap()).await
    }

    pub async fn end(&self) -> u16 {
        let session = self.session.as_deref().expect("a session");
        let request = self.client.request(Method::DELETE, "/mcp").header("mcp-session-id", session);
        self.client.send(request.body(Body::empty()).unwrap()).await.status.as_u16()
    }
}
