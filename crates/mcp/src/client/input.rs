//! Requests for input: a server asks the person behind its client to fill in a form (`elicitation/create`).

use std::sync::Arc;

use async_trait::async_trait;
use emergent_net::call_clock::CallClock;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::message::{RpcError, code};

/// The name of the method with which a server asks for input.
pub const METHOD: &str = "elicitation/create";
/// The most characters of the text that explains what is asked.
const MAX_MESSAGE_CHARS: usize = 10_000;
/// The most bytes of the schema of the fields.
const MAX_SCHEMA_BYTES: usize = 64 << 10;

/// Answers the requests for input that a server makes during one tool call.
#[async_trait]
pub trait InputHandler: Send + Sync {
    /// Asks a person. Dropping the future withdraws the question. The error says why nobody can be asked.
    async fn ask(&self, form: Form) -> Result<FormAnswer, String>;
}

/// Who is asked during one call, and the clock of the call.
#[derive(Clone)]
pub struct CallInput {
    pub handler: Arc<dyn InputHandler>,
    pub clock: CallClock,
}

impl CallInput {
    pub fn new(handler: Arc<dyn InputHandler>) -> Self {
        Self { handler, clock: CallClock::default() }
    }

    /// Asks a person, while the clock of the call stands still.
    pub async fn ask(&self, form: Form) -> Result<Value, RpcError> {
        let _pause = self.clock.pause();
        let answer = self.handler.ask(form).await;
        answer.map(FormAnswer::into_result).map_err(|reason| RpcError::new(code::INVALID_PARAMS, reason))
    }
}

/// A form that a server asks a person to fill in.
#[derive(Debug, Clone, PartialEq)]
pub struct Form {
    pub message: String,
    /// The JSON Schema of the fields.
    pub schema: Value,
}

/// What a person did with a form.
#[derive(Debug, Clone, PartialEq)]
pub enum FormAnswer {
    /// The values of the fields.
    Accept(Value),
    Decline,
    /// Nobody decided.
    Cancel,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct FormParams {
    #[serde(default)]
    mode: Option<String>,
    #[serde(default)]
    message: String,
    requested_schema: Option<Value>,
}

impl Form {
    /// Reads the parameters of a request. Only forms are supported: a server that wants to send the person to an
    /// address (`mode: url`) is refused, as the specification asks for modes that were not declared.
    pub fn parse(params: Value) -> Result<Self, RpcError> {
        let invalid = |reason: String| RpcError::new(code::INVALID_PARAMS, reason);
        let params: FormParams = serde_json::from_value(params)
            .map_err(|error| invalid(format!("the request is invalid: {error}")))?;
        if let Some(mode) = params.mode.filter(|mode| mode != "form") {
            return Err(invalid(format!("requests of the mode `{mode}` are not supported, only forms are")));
        }
        if params.message.chars().count() > MAX_MESSAGE_CHARS {
            return Err(invalid(format!("`message` has more than {MAX_MESSAGE_CHARS} characters")));
        }
        let schema = params.requested_schema.filter(Value::is_object);
        let schema = schema.ok_or_else(|| invalid("`requestedSchema` must be an object".to_owned()))?;
        if schema.to_string().len() > MAX_SCHEMA_BYTES {
            return Err(invalid(format!("`requestedSchema` has more than {MAX_SCHEMA_BYTES} bytes")));
        }
        Ok(Self { message: params.message, schema })
    }
}

impl FormAnswer {
    fn into_result(self) -> Value {
        match self {
            Self::Accept(content) => json!({ "action": "accept", "content": content }),
            Self::Decline => declined(),
            Self::Cancel => json!({ "action": "cancel" }),
        }
    }
}

/// The result of a request that nobody is asked about.
pub fn declined() -> Value {
    json!({ "action": "decline" })
}

/// What is declared to servers that may ask.
pub fn declare(capabilities: &mut Value) {
    if let Some(capabilities) = capabilities.as_object_mut() {
        capabilities.entry("elicitation").or_insert_with(|| json!({ "form": {} }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_forms_of_a_limited_size_are_accepted() {
        let schema = json!({ "type": "object", "properties": {} });
        let form = Form::parse(json!({ "message": "Who?", "requestedSchema": schema })).unwrap();
        assert_eq!(form, Form { message: "Who?".into(), schema: schema.clone() });
        assert!(Form::parse(json!({ "mode": "form", "message": "", "requestedSchema": schema })).is_ok());
        for wrong in [
            json!({ "mode": "url", "message": "Log in", "url": "https://example.com", "elicitationId": "1" }),
            json!({ "message": "Who?" }),
            json!({ "message": "Who?", "requestedSchema": [] }),
            json!({ "message": "x".repeat(MAX_MESSAGE_CHARS + 1), "requestedSchema": schema }),
            json!({ "message": "", "requestedSchema": { "title": "x".repeat(MAX_SCHEMA_BYTES) } }),
            json!(null),
        ] {
            assert_eq!(Form::parse(wrong).unwrap_err().code, code::INVALID_PARAMS);
        }
    }
}
