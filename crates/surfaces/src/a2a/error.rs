//! The errors of the protocol, and how each binding writes them.

use std::collections::BTreeMap;

use emergent_domain::invalid::{Invalid, Problem};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

/// The domain of the protocol's own errors.
const PROTOCOL_DOMAIN: &str = "a2a-protocol.org";
/// The domain of the errors that this system adds.
const OWN_DOMAIN: &str = "emergent";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    TaskNotFound,
    TaskNotCancelable,
    UnsupportedOperation,
    /// A part of a message has a media type that the agent does not take.
    ContentTypeNotSupported,
    /// The body of the HTTP request has another media type than that of the binding.
    WrongContentType,
    ExtendedCardNotConfigured,
    VersionNotSupported,
    /// The body is not JSON.
    Parse,
    /// The body is not a JSON-RPC request.
    InvalidRequest,
    MethodNotFound,
    InvalidParams,
    /// The request was refused by what all surfaces share: the token, the agent, a limit. The number is the HTTP status.
    Refused(u16),
}

impl ErrorKind {
    fn jsonrpc_code(self) -> i64 {
        match self {
            Self::TaskNotFound => -32001,
            Self::TaskNotCancelable => -32002,
            Self::UnsupportedOperation => -32004,
            Self::ContentTypeNotSupported | Self::WrongContentType => -32005,
            Self::ExtendedCardNotConfigured => -32007,
            Self::VersionNotSupported => -32009,
            Self::Parse => -32700,
            Self::InvalidRequest => -32600,
            Self::MethodNotFound => -32601,
            Self::InvalidParams => -32602,
            Self::Refused(400..=428) => -32600,
            Self::Refused(_) => -32603,
        }
    }

    /// The status of the HTTP+JSON binding.
    pub fn http_status(self) -> u16 {
        match self {
            Self::TaskNotFound | Self::MethodNotFound => 404,
            Self::Refused(status) => status,
            Self::WrongContentType => 415,
            _ => 400,
        }
    }

    /// The name of the status in `google.rpc.Code`.
    fn status_name(self) -> &'static str {
        match self {
            Self::TaskNotCancelable
            | Self::UnsupportedOperation
            | Self::ExtendedCardNotConfigured
            | Self::VersionNotSupported => "FAILED_PRECONDITION",
            _ => match self.http_status() {
                401 => "UNAUTHENTICATED",
                403 => "PERMISSION_DENIED",
                404 => "NOT_FOUND",
                409 => "ABORTED",
                413 | 429 => "RESOURCE_EXHAUSTED",
                503 => "UNAVAILABLE",
                408 | 504 => "DEADLINE_EXCEEDED",
                400..=499 => "INVALID_ARGUMENT",
                _ => "INTERNAL",
            },
        }
    }

    /// The name of an error of the protocol in `ErrorInfo`; `None` for the errors of JSON-RPC.
    fn reason(self) -> Option<&'static str> {
        Some(match self {
            Self::TaskNotFound => "TASK_NOT_FOUND",
            Self::TaskNotCancelable => "TASK_NOT_CANCELABLE",
            Self::UnsupportedOperation => "UNSUPPORTED_OPERATION",
            Self::ContentTypeNotSupported | Self::WrongContentType => "CONTENT_TYPE_NOT_SUPPORTED",
            Self::ExtendedCardNotConfigured => "EXTENDED_AGENT_CARD_NOT_CONFIGURED",
            Self::VersionNotSupported => "VERSION_NOT_SUPPORTED",
            Self::Parse
            | Self::InvalidRequest
            | Self::MethodNotFound
            | Self::InvalidParams
            | Self::Refused(_) => return None,
        })
    }
}

/// The body of an error of the HTTP+JSON binding.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = A2aFailure)]
pub struct HttpFailure {
    pub error: HttpError,
}

/// A `google.rpc.Status`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = A2aFailureStatus)]
pub struct HttpError {
    /// The status of the response.
    pub code: u16,
    /// The name of the status in `google.rpc.Code`.
    pub status: String,
    pub message: String,
    /// A `google.rpc.ErrorInfo` with the reason, and a `google.rpc.BadRequest` with the fields that are wrong.
    #[schema(value_type = Vec<Object>)]
    pub details: Vec<Value>,
}

/// The response of the JSON-RPC binding with an error.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = A2aRpcFailure)]
pub struct RpcFailureBody {
    /// Always `2.0`.
    pub jsonrpc: String,
    /// The id of the request; `null` if it is not known.
    pub id: Value,
    pub error: RpcError,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = A2aRpcError)]
pub struct RpcError {
    pub code: i64,
    pub message: String,
    /// A `google.rpc.ErrorInfo` with the reason, and a `google.rpc.BadRequest` with the fields that are wrong.
    #[schema(value_type = Vec<Object>)]
    pub data: Vec<Value>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct A2aError {
    pub kind: ErrorKind,
    pub message: String,
    /// The code of an error that all surfaces share.
    code: Option<String>,
    metadata: BTreeMap<&'static str, String>,
    problems: Vec<Problem>,
}

impl A2aError {
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), code: None, metadata: BTreeMap::new(), problems: Vec::new() }
    }

    /// The error about a task that does not exist, or that the caller may not see.
    pub fn task_not_found(id: &str) -> Self {
        let shown: String = id.chars().take(100).collect();
        Self::new(ErrorKind::TaskNotFound, format!("there is no task `{shown}` here")).with("taskId", &shown)
    }

    /// An error that all surfaces share, with its HTTP status and its code. `problems` are those of invalid fields.
    pub fn refused(status: u16, code: &str, message: impl Into<String>, problems: Vec<Problem>) -> Self {
        let kind = match problems.is_empty() {
            true => ErrorKind::Refused(status),
            false => ErrorKind::InvalidParams,
        };
        Self { code: Some(code.to_owned()), problems, ..Self::new(kind, message) }
    }

    /// Adds a value for programs.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.metadata.insert(name, value.into());
        self
    }

    /// An error about the HTTP request itself, before any operation reads its parameters. It keeps the status in both
    /// bindings, also if it names fields.
    pub fn refused_request(
        status: u16,
        code: &str,
        message: impl Into<String>,
        problems: Vec<Problem>,
    ) -> Self {
        Self { kind: ErrorKind::Refused(status), ..Self::refused(status, code, message, problems) }
    }

    /// The error object of JSON-RPC.
    pub fn jsonrpc_error(&self) -> RpcError {
        RpcError { code: self.kind.jsonrpc_code(), message: self.message.clone(), data: self.details() }
    }

    /// The body of the HTTP+JSON binding.
    pub fn http_body(&self) -> HttpFailure {
        HttpFailure {
            error: HttpError {
                code: self.kind.http_status(),
                status: self.kind.status_name().to_owned(),
                message: self.message.clone(),
                details: self.details(),
            },
        }
    }

    fn details(&self) -> Vec<Value> {
        let mut details = Vec::new();
        let reason = match (self.kind.reason(), &self.code) {
            (Some(reason), _) => Some((reason.to_owned(), PROTOCOL_DOMAIN)),
            (None, Some(code)) => Some((code.to_ascii_uppercase(), OWN_DOMAIN)),
            (None, None) => None,
        };
        if let Some((reason, domain)) = reason {
            details.push(json!({
                "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                "reason": reason,
                "domain": domain,
                "metadata": self.metadata,
            }));
        }
        if !self.problems.is_empty() {
            let violation =
                |problem: &Problem| json!({ "field": problem.field, "description": problem.reason });
            details.push(json!({
                "@type": "type.googleapis.com/google.rpc.BadRequest",
                "fieldViolations": self.problems.iter().map(violation).collect::<Vec<_>>(),
            }));
        }
        details
    }
}

impl From<Invalid> for A2aError {
    fn from(invalid: Invalid) -> Self {
        let message = invalid.to_string();
        Self { problems: invalid.problems, ..Self::new(ErrorKind::InvalidParams, message) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_the_protocol_has_its_code_and_its_reason_in_both_bindings() {
        for (kind, code, status, name, reason) in [
            (ErrorKind::TaskNotFound, -32001, 404, "NOT_FOUND", "TASK_NOT_FOUND"),
            (ErrorKind::TaskNotCancelable, -32002, 400, "FAILED_PRECONDITION", "TASK_NOT_CANCELABLE"),
            (ErrorKind::UnsupportedOperation, -32004, 400, "FAILED_PRECONDITION", "UNSUPPORTED_OPERATION"),
            (
                ErrorKind::ContentTypeNotSupported,
                -32005,
                400,
                "INVALID_ARGUMENT",
                "CONTENT_TYPE_NOT_SUPPORTED",
            ),
            (ErrorKind::WrongContentType, -32005, 415, "INVALID_ARGUMENT", "CONTENT_TYPE_NOT_SUPPORTED"),
            (ErrorKind::VersionNotSupported, -32009, 400, "FAILED_PRECONDITION", "VERSION_NOT_SUPPORTED"),
        ] {
            let error = A2aError::new(kind, "why").with("taskId", "t");
            let info = json!([{
                "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                "reason": reason,
                "domain": "a2a-protocol.org",
                "metadata": { "taskId": "t" },
            }]);
            assert_eq!(json!(error.jsonrpc_error()), json!({ "code": code, "message": "why", "data": info }));
            let body = json!({ "code": status, "status": name, "message": "why", "details": info });
            assert_eq!(json!(error.http_body()), json!({ "error": body }));
        }
    }

    #[test]
    fn an_invalid_field_is_named() {
        let error = A2aError::from(Invalid::new("message.parts", "is empty"));
        let found = json!(error.jsonrpc_error());
        assert_eq!(found["code"], -32602);
        assert_eq!(
            found["data"],
            json!([{
                "@type": "type.googleapis.com/google.rpc.BadRequest",
                "fieldViolations": [{ "field": "message.parts", "description": "is empty" }],
            }])
        );
        assert_eq!(error.http_body().error.status, "INVALID_ARGUMENT");
    }

    #[test]
    fn what_all_surfaces_refuse_keeps_its_status_and_its_code() {
        let error = A2aError::refused(429, "rate_limited", "too often", Vec::new());
        let body = json!(error.http_body());
        assert_eq!(
            (&body["error"]["code"], &body["error"]["status"]),
            (&json!(429), &json!("RESOURCE_EXHAUSTED"))
        );
        assert_eq!(body["error"]["details"][0]["reason"], "RATE_LIMITED");
        assert_eq!(error.jsonrpc_error().code, -32603);
        assert_eq!(A2aError::refused(403, "forbidden", "no", Vec::new()).jsonrpc_error().code, -32600);
        let problems = vec![Problem::new("no_such_parameter", "is not known")];
        let error = A2aError::refused_request(400, "invalid", "a parameter is not known", problems);
        assert_eq!((error.kind.http_status(), error.jsonrpc_error().code), (400, -32600));
        assert_eq!(
            json!(error.http_body())["error"]["details"][1]["fieldViolations"][0]["field"],
            "no_such_parameter"
        );
    }
}
