//! The parameters of a request that the protocol defines. They own what they hold, so that a large message can be
//! parsed on another thread.

use emergent_domain::foreign_json;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, value::RawValue};

use crate::message::{RpcError, code};

#[derive(Debug, Default, Deserialize)]
pub(super) struct Params {
    #[serde(default, rename = "_meta")]
    meta: Option<Meta>,
    #[serde(default)]
    pub name: Option<String>,
    #[serde(default)]
    pub uri: Option<String>,
    #[serde(default)]
    pub cursor: Option<String>,
    #[serde(default)]
    pub level: Option<String>,
    /// Null if there are none, or if they are nested too deeply.
    #[serde(default, deserialize_with = "value_or_null")]
    pub arguments: Value,
    #[serde(default, rename = "inputResponses", deserialize_with = "value_or_null")]
    pub answers: Value,
    #[serde(default, rename = "requestState")]
    pub state: Option<String>,
    /// The request that `notifications/cancelled` is about.
    #[serde(default, rename = "requestId")]
    pub request: Option<Box<RawValue>>,
    /// What `subscriptions/listen` subscribes to.
    #[serde(default)]
    pub notifications: Option<Value>,
    /// A parameter of `initialize`, like `capabilities`.
    #[serde(default, rename = "protocolVersion")]
    pub protocol_version: Option<String>,
    #[serde(default)]
    pub capabilities: Option<Box<RawValue>>,
}

#[derive(Debug, Default, Deserialize)]
struct Meta {
    #[serde(default, rename = "io.modelcontextprotocol/protocolVersion")]
    version: Option<String>,
    #[serde(default, rename = "io.modelcontextprotocol/clientCapabilities")]
    capabilities: Option<Box<RawValue>>,
    #[serde(default, rename = "io.modelcontextprotocol/logLevel")]
    level: Option<String>,
    #[serde(default, rename = "progressToken")]
    progress: Option<Box<RawValue>>,
}

impl Params {
    /// Parses the parameters; none are the same as an empty object.
    pub fn parse(text: Option<&str>) -> Result<Self, RpcError> {
        match text {
            None => Ok(Self::default()),
            Some(text) => foreign_json::from_str(text).map_err(|error| {
                RpcError::new(code::INVALID_PARAMS, format!("`params` are invalid: {error}"))
            }),
        }
    }

    /// Returns the MCP revision in `_meta`, which only modern requests have.
    pub fn version(&self) -> Option<&str> {
        self.meta.as_ref()?.version.as_deref()
    }

    /// Returns the capabilities of a modern client, if they are an object.
    pub fn capabilities(&self) -> Option<&RawValue> {
        self.meta.as_ref()?.capabilities.as_deref().filter(|text| text.get().starts_with('{'))
    }

    /// Returns the lowest level of log messages that a modern client wants to receive.
    pub fn log_level(&self) -> Option<&str> {
        self.meta.as_ref()?.level.as_deref()
    }

    pub fn progress_token(&self) -> Option<&RawValue> {
        self.meta.as_ref()?.progress.as_deref()
    }

    /// Returns a parameter, or the error that names it as missing.
    pub fn require<'p>(field: &'p Option<String>, name: &str) -> Result<&'p str, RpcError> {
        let missing = || RpcError::new(code::INVALID_PARAMS, format!("`params.{name}` is missing"));
        field.as_deref().ok_or_else(missing)
    }
}

/// Parses JSON text that was validated before; null if there is none, or if it is nested too deeply.
pub(super) fn to_value(text: Option<&RawValue>) -> Value {
    text.and_then(|text| foreign_json::from_str(text.get()).ok()).unwrap_or_default()
}

fn value_or_null<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Value, D::Error> {
    <&RawValue>::deserialize(deserializer).map(|text| to_value(Some(text)))
}
