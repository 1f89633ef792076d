//! The reasons why a request has no result, and the error that each era expects.

use std::fmt::Display;

use serde_json::json;

use super::Era;
use crate::message::{RpcError, code};

/// What a host can return instead of a result. A failed tool is not among them: that is a result with
/// `isError`, which the model reads.
#[derive(Debug, Clone, PartialEq)]
pub enum Fault {
    Error(RpcError),
    MethodNotFound,
    ResourceNotFound {
        uri: String,
    },
    /// The client did not declare a capability that is required.
    MissingCapability(&'static str),
    /// The caller's token lacks this scope.
    Forbidden {
        scope: String,
    },
    /// The caller has reached a limit.
    LimitReached {
        why: String,
    },
}

/// This server's own error code for a missing scope.
const FORBIDDEN: i64 = -32003;
/// This server's own error code for a reached limit.
const LIMIT_REACHED: i64 = -32004;

impl Fault {
    /// An error about invalid parameters.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::Error(RpcError::new(code::INVALID_PARAMS, message))
    }

    /// An error whose reason is logged and not revealed to the caller.
    pub fn internal(reason: impl Display) -> Self {
        tracing::error!(cause = %reason, "an MCP request failed");
        let message = "internal error; see the server log";
        Self::Error(RpcError::new(code::INTERNAL, message))
    }

    /// Returns the HTTP status and the error for a client of this era.
    pub(super) fn to_rpc_error(&self, era: Era) -> (u16, RpcError) {
        match self {
            Self::Error(error) => (200, error.clone()),
            Self::MethodNotFound => {
                let status = if era == Era::Modern { 404 } else { 200 };
                (status, RpcError::new(code::METHOD_NOT_FOUND, "unknown method"))
            }
            Self::ResourceNotFound { uri } => {
                let code = if era == Era::Modern { code::INVALID_PARAMS } else { code::RESOURCE_NOT_FOUND };
                let error = RpcError::new(code, format!("there is no resource `{uri}`"));
                (200, error.with_data(json!({ "uri": uri })))
            }
            Self::MissingCapability(name) => {
                let status = if era == Era::Modern { 400 } else { 200 };
                let error = RpcError::new(
                    code::MISSING_CAPABILITY,
                    format!("the client must declare the capability `{name}` for this"),
                );
                (status, error.with_data(json!({ "requiredCapabilities": { *name: {} } })))
            }
            Self::Forbidden { scope } => {
                let error = RpcError::new(FORBIDDEN, format!("this token lacks the scope `{scope}`"));
                (403, error.with_data(json!({ "scope": scope })))
            }
            Self::LimitReached { why } => (429, RpcError::new(LIMIT_REACHED, why.as_str())),
        }
    }

    /// Returns the value of `WWW-Authenticate`, if the response needs one.
    pub(super) fn challenge(&self) -> Option<String> {
        match self {
            Self::Forbidden { scope } => {
                Some(format!("Bearer error=\"insufficient_scope\", scope=\"{scope}\""))
            }
            _ => None,
        }
    }
}
