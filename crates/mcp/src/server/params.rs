//! The parameters of a request that the protocol defines; all others stay text.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use crate::message::{RpcError, code};

#[derive(Debug, Default, Deserialize)]
pub(super) struct Params<'a> {
    #[serde(borrow, default, rename = "_meta")]
    meta: Option<Meta<'a>>,
    #[serde(borrow, default)]
    pub name: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub uri: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub cursor: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub level: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub arguments: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "inputResponses")]
    pub answers: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "requestState")]
    pub state: Option<Cow<'a, str>>,
    /// The request that `notifications/cancelled` is about.
    #[serde(borrow, default, rename = "requestId")]
    pub request: Option<&'a RawValue>,
    /// What `subscriptions/listen` subscribes to.
    #[serde(default)]
    pub notifications: Option<Value>,
    /// A parameter of `initialize`, like `capabilities`.
    #[serde(borrow, default, rename = "protocolVersion")]
    pub protocol_version: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub capabilities: Option<&'a RawValue>,
}

#[derive(Debug, Default, Deserialize)]
struct Meta<'a> {
    #[serde(borrow, default, rename = "io.modelcontextprotocol/protocolVersion")]
    version: Option<Cow<'a, str>>,
    #[serde(borrow, default, rename = "io.modelcontextprotocol/clientCapabilities")]
    capabilities: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "io.modelcontextprotocol/logLevel")]
    level: Option<Cow<'a, str>>,
    #[serde(borrow, default, rename = "progressToken")]
    progress: Option<&'a RawValue>,
}

impl<'a> Params<'a> {
    /// Parses the parameters; none are the same as an empty object.
    pub fn parse(text: Option<&'a str>) -> Result<Self, RpcError> {
        match text {
            None => Ok(Self::default()),
            Some(text) => serde_json::from_str(text).map_err(|error| {
                RpcError::new(code::INVALID_PARAMS, format!("`params` are invalid: {error}"))
            }),
        }
    }

    /// Returns the MCP revision in `_meta`, which only modern requests have.
    pub fn version(&self) -> Option<&str> {
        self.meta.as_ref()?.version.as_deref()
    }

    /// Returns the capabilities of a modern client, if they are an object.
    pub fn capabilities(&self) -> Option<&'a RawValue> {
        self.meta.as_ref()?.capabilities.filter(|text| text.get().starts_with('{'))
    }

    /// Returns the lowest level of log messages that a modern client wants to receive.
    pub fn log_level(&self) -> Option<&str> {
        self.meta.as_ref()?.level.as_deref()
    }

    pub fn progress_token(&self) -> Option<&'a RawValue> {
        self.meta.as_ref()?.progress
    }

    /// Returns a parameter, or the error that names it as missing.
    pub fn require<'p>(field: &'p Option<Cow<'a, str>>, name: &str) -> Result<&'p str, RpcError> {
        let missing = || RpcError::new(code::INVALID_PARAMS, format!("`params.{name}` is missing"));
        field.as_deref().ok_or_else(missing)
    }
}

/// Parses JSON text that was validated before; null if there is none.
pub(super) fn to_value(text: Option<&RawValue>) -> Value {
    text.and_then(|text| serde_json::from_str(text.get()).ok()).unwrap_or_default()
}
