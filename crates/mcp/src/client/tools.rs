//! Tools as a server lists them, and the results of calls.

use serde::Deserialize;
use serde_json::{Map, Value, value::RawValue};

use super::Error;

/// A tool exactly as it was listed.
#[derive(Debug, Clone)]
pub struct RemoteTool {
    pub name: String,
    pub title: Option<String>,
    pub description: String,
    /// The schema exactly as the server sent it.
    pub input_schema: Box<RawValue>,
    pub annotations: Value,
    /// True if the tool can only be called as a task, which this client does not support.
    pub needs_task: bool,
    /// The whole entry as text.
    pub text: Box<RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ToolEntry {
    name: String,
    title: Option<String>,
    #[serde(default)]
    description: Option<String>,
    input_schema: Box<RawValue>,
    #[serde(default)]
    annotations: Value,
    #[serde(default)]
    execution: Value,
}

impl RemoteTool {
    /// Parses one entry of a list, or a stored one.
    pub fn parse(text: Box<RawValue>) -> Result<Self, String> {
        let entry: ToolEntry = serde_json::from_str(text.get()).map_err(|error| error.to_string())?;
        let schema: Value =
            serde_json::from_str(entry.input_schema.get()).map_err(|error| error.to_string())?;
        if !schema.is_object() {
            return Err("its `inputSchema` is not an object".into());
        }
        let needs_task = entry.execution.get("taskSupport").and_then(Value::as_str) == Some("required");
        Ok(Self {
            name: entry.name,
            title: entry.title,
            description: entry.description.unwrap_or_default(),
            input_schema: entry.input_schema,
            annotations: entry.annotations,
            needs_task,
            text,
        })
    }

    /// Returns a hint that the server declares; a missing hint is `false`.
    pub fn hint(&self, name: &str) -> bool {
        self.annotations.get(name).and_then(Value::as_bool).unwrap_or_default()
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ToolsPage<'a> {
    /// Borrowed, so that a page with a million invalid entries does not cost a million allocations.
    #[serde(borrow)]
    pub tools: Vec<&'a RawValue>,
    #[serde(default)]
    pub next_cursor: Option<String>,
}

/// The response to a call.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RemoteCallResult {
    pub content: Vec<Value>,
    pub structured: Option<Value>,
    pub is_error: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CallResponse {
    #[serde(default)]
    result_type: Option<String>,
    #[serde(default)]
    content: Vec<Value>,
    #[serde(default)]
    structured_content: Option<Value>,
    #[serde(default)]
    is_error: bool,
    #[serde(default)]
    input_requests: Map<String, Value>,
    #[serde(default)]
    request_state: Option<String>,
}

pub(super) enum CallOutcome {
    Done(RemoteCallResult),
    /// The server requests input first, and expects its state back with it.
    NeedsInput {
        questions: Map<String, Value>,
        state: Option<String>,
    },
}

pub(super) fn parse_call_response(result: &RawValue) -> Result<CallOutcome, Error> {
    let answer: CallResponse = serde_json::from_str(result.get())
        .map_err(|error| Error::InvalidMessage(format!("an invalid result of a call: {error}")))?;
    if answer.result_type.as_deref() == Some("input_required") {
        return Ok(CallOutcome::NeedsInput { questions: answer.input_requests, state: answer.request_state });
    }
    Ok(CallOutcome::Done(RemoteCallResult {
        content: answer.content,
        structured: answer.structured_content,
        is_error: answer.is_error,
    }))
}

#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    pub progress: f64,
    pub total: Option<f64>,
    pub message: Option<String>,
}
