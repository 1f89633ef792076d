//! Errors in the shape of OpenAI. They also have the fields of every other error of the API.

use emergent_domain::run::{Reason, Run, RunStatus};
use emergent_wire::envelope::FailureBody;
use serde::Serialize;
use serde_json::{Value, json};

use crate::invoke::result_path;

/// The body of a response that is an error.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ErrorBody {
    /// Always false.
    pub success: bool,
    pub error: ErrorObject,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ErrorObject {
    pub message: String,
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// The field of the request that is wrong.
    pub param: Option<String>,
    pub code: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
}

/// Returns the error with this status.
pub fn error_body(status: u16, failure: FailureBody) -> ErrorBody {
    let FailureBody { code, message, details } = failure;
    let param = details.as_ref().and_then(|details| details[0]["field"].as_str());
    let param = param.filter(|field| !field.is_empty()).map(str::to_owned);
    let error = ErrorObject { message, kind: error_type(status), param, code: code.into_owned(), details };
    ErrorBody { success: false, error }
}

fn error_type(status: u16) -> &'static str {
    match status {
        401 => "authentication_error",
        403 => "permission_error",
        429 => "rate_limit_error",
        500.. => "server_error",
        _ => "invalid_request_error",
    }
}

/// Why a run has no answer.
#[derive(Debug, Clone, PartialEq)]
pub struct RunFailure {
    /// The status of a response that is not streamed.
    pub status: u16,
    pub code: String,
    pub message: String,
    /// The run, and where to look.
    pub details: Value,
}

impl RunFailure {
    /// Describes a run that failed, was cancelled, waits for a person, or has not ended in time.
    pub fn from_run(run: &Run) -> Self {
        let id = run.id;
        let (status, code, message) = match run.status {
            RunStatus::Waiting => {
                let kind = run.waiting_for.map_or("decision", |kind| kind.as_str());
                let message = format!(
                    "run `{id}` waits for a person ({kind}), who finds it in the inbox; send the request again \
                     with the same `Idempotency-Key` for its answer, or read `details.result`"
                );
                (422, "run_waiting".to_owned(), message)
            }
            RunStatus::Queued | RunStatus::Running => {
                let message = format!(
                    "run `{id}` has not ended in time; send the request again with the same `Idempotency-Key` for \
                     its answer, read `details.result`, or use `stream`"
                );
                (504, "run_not_ended".to_owned(), message)
            }
            status => return Self::ended(status, run.reason, run.error.as_deref(), run),
        };
        Self { status, code, message, details: details(run) }
    }

    fn ended(status: RunStatus, reason: Option<Reason>, error: Option<&str>, run: &Run) -> Self {
        let code = reason.map_or(status.as_str(), |reason| reason.as_str()).to_owned();
        let message = format!("run `{}` {status}: {}", run.id, error.unwrap_or("no reason is recorded"));
        Self { status: 500, code, message, details: details(run) }
    }

    /// The object of the error, for the body of a response or for a frame of a stream.
    pub fn into_body(self) -> FailureBody {
        FailureBody { code: self.code.into(), message: self.message, details: Some(self.details) }
    }
}

fn details(run: &Run) -> Value {
    json!({ "runId": run.id, "result": result_path(run.agent, run.id) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_has_the_fields_of_openai_and_those_of_the_api() {
        let details = json!([{ "field": "tools", "reason": "is not supported" }]);
        let failure =
            FailureBody { code: "invalid".into(), message: "no".to_owned(), details: Some(details.clone()) };
        let expected = json!({ "success": false, "error": {
            "message": "no", "type": "invalid_request_error", "param": "tools", "code": "invalid", "details": details,
        }});
        assert_eq!(serde_json::to_value(error_body(400, failure)).unwrap(), expected);
    }

    #[test]
    fn the_type_follows_from_the_status() {
        for (status, kind) in [
            (400, "invalid_request_error"),
            (401, "authentication_error"),
            (403, "permission_error"),
            (404, "invalid_request_error"),
            (429, "rate_limit_error"),
            (503, "server_error"),
        ] {
            let failure = FailureBody { code: "x".into(), message: String::new(), details: None };
            let body = error_body(status, failure);
            assert_eq!((body.error.kind, body.error.param), (kind, None), "{status}");
        }
    }
}
