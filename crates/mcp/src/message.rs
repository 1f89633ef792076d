//! JSON-RPC 2.0 as MCP uses it. A message is parsed once and borrows from its text: ids, parameters and
//! results stay the JSON they were sent as, so that an id is returned exactly and a tool's schema is
//! passed on unchanged.

use std::borrow::Cow;

use emergent_domain::foreign_json;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, value::RawValue};

/// The newest revision: it is stateless, and every request is self-contained.
pub const MODERN: &str = "2026-07-28";
/// The revisions that start with `initialize`, newest first.
pub const LEGACY: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

/// The keys of a modern request's `_meta`.
pub mod meta {
    pub const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
    pub const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
    pub const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
    pub const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
    pub const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";
}

/// The error codes of JSON-RPC and of MCP.
pub mod code {
    pub const PARSE: i64 = -32700;
    pub const INVALID_REQUEST: i64 = -32600;
    pub const METHOD_NOT_FOUND: i64 = -32601;
    pub const INVALID_PARAMS: i64 = -32602;
    pub const INTERNAL: i64 = -32603;
    /// The code before 2026-07-28; later revisions use `INVALID_PARAMS` with `data.uri`.
    pub const RESOURCE_NOT_FOUND: i64 = -32002;
    /// A header contradicts the body.
    pub const HEADER_MISMATCH: i64 = -32020;
    /// The client did not declare a capability that the request needs.
    pub const MISSING_CAPABILITY: i64 = -32021;
    /// The server does not support the MCP revision of the request.
    pub const UNSUPPORTED_VERSION: i64 = -32022;
}

/// A parsed message of any kind. A request has `method` and `id`, a notification only `method`. A
/// response has no `method`, and its `id` may be missing if the peer could not parse ours.
#[derive(Debug, Deserialize)]
pub struct Message<'a> {
    #[serde(borrow, default)]
    pub jsonrpc: Cow<'a, str>,
    /// The id as it was sent; `null` counts as missing.
    #[serde(borrow, default)]
    pub id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub method: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub params: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub result: Option<&'a RawValue>,
    #[serde(default)]
    pub error: Option<RpcError>,
}

/// The kind of a message, derived from its fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Request,
    Notification,
    Response,
}

impl<'a> Message<'a> {
    /// Parses one message; batches are refused.
    pub fn parse(text: &'a [u8]) -> Result<Self, RpcError> {
        // Serde would accept an array as a struct as well.
        if text.trim_ascii_start().starts_with(b"[") {
            return Err(RpcError::new(
                code::INVALID_REQUEST,
                "batches are not supported; send one message at a time",
            ));
        }
        // Parameters and results are checked for reserved keys by whoever parses them: one that cannot be used concerns its
        // call, and not everything else on the same connection.
        let message: Self = foreign_json::parse_slice(text)
            .map_err(|error| RpcError::new(code::PARSE, format!("not a JSON-RPC message: {error}")))?;
        if message.jsonrpc != "2.0" {
            return Err(RpcError::new(code::INVALID_REQUEST, "`jsonrpc` must be \"2.0\""));
        }
        Ok(message)
    }

    pub fn kind(&self) -> Kind {
        match (&self.method, self.id) {
            (Some(_), Some(_)) => Kind::Request,
            (Some(_), None) => Kind::Notification,
            (None, _) => Kind::Response,
        }
    }
}

/// The error object of a response.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[error("{message} (error {code})")]
pub struct RpcError {
    pub code: i64,
    #[serde(default)]
    pub message: String,
    /// Larger data than `MAX_ERROR_DATA_BYTES`, and what cannot be parsed, is dropped when an error is read.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "small_data")]
    pub data: Option<Value>,
}

/// The most bytes of the data of an error that is read.
const MAX_ERROR_DATA_BYTES: usize = 64 << 10;

fn small_data<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    let data = <&RawValue>::deserialize(deserializer)?;
    match data.get().len() > MAX_ERROR_DATA_BYTES {
        true => Ok(None),
        false => Ok(foreign_json::from_str(data.get()).unwrap_or_default()),
    }
}

impl RpcError {
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    #[must_use]
    pub fn with_data(mut self, data: Value) -> Self {
        self.data = Some(data);
        self
    }
}

/// A request to send or, without an id, a notification.
#[derive(Debug, Serialize)]
pub struct OutgoingMessage<'a, P> {
    jsonrpc: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a RawValue>,
    method: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    params: Option<P>,
}

impl<'a, P: Serialize> OutgoingMessage<'a, P> {
    pub fn request(id: &'a RawValue, method: &'a str, params: Option<P>) -> Self {
        Self { jsonrpc: "2.0", id: Some(id), method, params }
    }

    pub fn notification(method: &'a str, params: Option<P>) -> Self {
        Self { jsonrpc: "2.0", id: None, method, params }
    }

    /// Returns the message as one line of text.
    pub fn to_bytes(&self) -> Result<Vec<u8>, serde_json::Error> {
        serde_json::to_vec(self)
    }
}

/// A response to send. Only an error about an unreadable message has no id.
#[derive(Debug, Serialize)]
pub struct Response<'a, R> {
    jsonrpc: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<R>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a RpcError>,
}

impl<'a, R: Serialize> Response<'a, R> {
    pub fn result(id: &'a RawValue, result: R) -> Self {
        Self { jsonrpc: "2.0", id: Some(id), result: Some(result), error: None }
    }

    /// Returns the message as one line of text.
    pub fn to_bytes(&self) -> Result<Vec<u8>, serde_json::Error> {
        serde_json::to_vec(self)
    }
}

impl<'a> Response<'a, ()> {
    pub fn error(id: Option<&'a RawValue>, error: &'a RpcError) -> Self {
        Self { jsonrpc: "2.0", id, result: None, error: Some(error) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_repeats_the_id_of_its_request_exactly() {
        for id in ["1", "\"server-discover-probe-1\"", "1789000000123", "-0", "1.50"] {
            let text = format!(r#"{{"id":{id},"method":"ping","jsonrpc":"2.0"}}"#);
            let message = Message::parse(text.as_bytes()).unwrap();
            assert_eq!(message.kind(), Kind::Request);
            let response = Response::result(message.id.unwrap(), serde_json::json!({})).to_bytes().unwrap();
            let expected = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#);
            assert_eq!(String::from_utf8(response).unwrap(), expected);
        }
    }

    #[test]
    fn what_cannot_be_used_in_a_message_concerns_its_call_only() {
        let key = "$serde_json::private::RawValue";
        let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
        for content in [format!(r#"{{"{key}":"no"}}"#), format!(r#"{{"a":[{{"{key}":"[1]"}}]}}"#), deep] {
            let text = format!(r#"{{"jsonrpc":"2.0","id":7,"result":{content},"{key}":"1"}}"#);
            let message = Message::parse(text.as_bytes()).unwrap();
            assert_eq!((message.id.unwrap().get(), message.result.unwrap().get()), ("7", content.as_str()));
            let text =
                format!(r#"{{"jsonrpc":"2.0","id":7,"error":{{"code":1,"message":"no","data":{content}}}}}"#);
            let error = Message::parse(text.as_bytes()).unwrap().error.unwrap();
            assert_eq!(error, RpcError::new(1, "no"));
        }
    }

    #[test]
    fn the_kind_of_a_message_follows_from_its_fields() {
        let kind = |text: &str| Message::parse(text.as_bytes()).map(|message| message.kind());
        assert_eq!(kind(r#"{"jsonrpc":"2.0","method":"x"}"#), Ok(Kind::Notification));
        assert_eq!(kind(r#"{"jsonrpc":"2.0","id":null,"method":"x"}"#), Ok(Kind::Notification));
        assert_eq!(kind(r#"{"jsonrpc":"2.0","id":7,"result":{}}"#), Ok(Kind::Response));
        assert_eq!(
            kind(r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"no"}}"#),
            Ok(Kind::Response)
        );
        assert_eq!(kind("{").unwrap_err().code, code::PARSE);
        assert_eq!(kind("[]").unwrap_err().code, code::INVALID_REQUEST);
        assert_eq!(kind(r#"["2.0", 7, "ping"]"#).unwrap_err().code, code::INVALID_REQUEST);
        assert_eq!(kind(r#"{"jsonrpc":"1.0","id":7,"result":{}}"#).unwrap_err().code, code::INVALID_REQUEST);
    }
}
