//! Why a request was not answered with a result, and how each era is told.

use std::fmt::Display;

use serde_json::json;

use super::Era;
use crate::message::{RpcError, code};

/// What a host may answer instead of a result. A tool that failed is none of these: that is a
/// result with `isError`, for the model to read.
#[derive(Debug, Clone, PartialEq)]
pub enum Fault {
    Error(RpcError),
    MethodNotFound,
    ResourceNotFound {
        uri: String,
    },
    /// The client has not said that it can do what this needs.
    MissingCapability(&'static str),
    /// The caller would need this scope.
    Forbidden {
        scope: String,
    },
    /// The caller has as many of something as it may.
    LimitReached {
        why: String,
    },
}

/// This server's own numbers: for what a token may not do, and for what it may not have more of.
const FORBIDDEN: i64 = -32003;
const LIMIT_REACHED: i64 = -32004;

impl Fault {
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::Error(RpcError::new(code::INVALID_PARAMS, message))
    }

    /// Logs the reason and tells the caller nothing of it.
    pub fn internal(why: impl Display) -> Self {
        tracing::error!(cause = %why, "an MCP request failed");
        let message = "something went wrong here; the server's log has the reason";
        Self::Error(RpcError::new(code::INTERNAL, message))
    }

    /// The HTTP status and the error.
    pub(super) fn to_rpc_error(&self, era: Era) -> (u16, RpcError) {
        match self {
            Self::Error(error) => (200, error.clone()),
            Self::MethodNotFound => {
                let status = if era == Era::Modern { 404 } else { 200 };
                (status, RpcError::new(code::METHOD_NOT_FOUND, "there is no such method here"))
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
                    format!("the client must offer `{name}` for this"),
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

    /// What the `WWW-Authenticate` of the answer says, if it needs one.
    pub(super) fn challenge(&self) -> Option<String> {
        match self {
            Self::Forbidden { scope } => {
                Some(format!("Bearer error=\"insufficient_scope\", scope=\"{scope}\""))
            }
            _ => None,
        }
    }
}
