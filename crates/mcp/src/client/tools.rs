//! Tools as a server lists them, and the results of calls.

use serde::Deserialize;
use serde_json::{Map, Value, value::RawValue};

use super::Error;

/// A tool of a server, from its list.
#[derive(Debug, Clone)]
pub struct RemoteTool {
    pub name: String,
    pub title: Option<String>,
    pub description: String,
    /// The schema exactly as the server sent it.
    pub input_schema: Box<RawValue>,
    /// The server's hints, such as `readOnlyHint`; null if there are none.
    pub annotations: Value,
    /// True if the tool can only be called as a task, which this client does not support.
    pub needs_task: bool,
    /// The whole list entry as the server sent it.
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
    /// Parses an entry of `tools/list`. The error is the reason why it is invalid.
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

/// One page of `tools/list`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ToolsPage<'a> {
    /// Borrowed, so that a page with a million invalid entries does not cost a million allocations.
    #[serde(borrow)]
    pub tools: Vec<&'a RawValue>,
    #[serde(default)]
    pub next_cursor: Option<String>,
}

/// The result of a completed call.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RemoteCallResult {
    pub content: Vec<Value>,
    /// `structuredContent`, if the tool returned any.
    pub structured: Option<Value>,
    /// True if the tool reports that it failed.
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

/// The response to a call: its result, or a request for input.
pub(super) enum CallOutcome {
    Done(RemoteCallResult),
    /// The server requests input first, and expects its state back with it.
    NeedsInput {
        questions: Map<String, Value>,
        state: Option<String>,
    },
}

/// Parses the result of `tools/call`.
pub(super) fn parse_call_response(result: &RawValue) -> Result<CallOutcome, Error> {
    let response: CallResponse = serde_json::from_str(result.get())
        .map_err(|error| Error::InvalidMessage(format!("an invalid result of a call: {error}")))?;
    if response.result_type.as_deref() == Some("input_required") {
        return Ok(CallOutcome::NeedsInput {
            questions: response.input_requests,
            state: response.request_state,
        });
    }
    Ok(CallOutcome::Done(RemoteCallResult {
        content: response.content,
        structured: response.structured_content,
        is_error: response.is_error,
    }))
}

/// A progress notification of a call.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    pub progress: f64,
    pub total: Option<f64>,
    pub message: Option<String>,
}
