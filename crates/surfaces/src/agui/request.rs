//! Requests of AG-UI: their limits, and what a run is started with.

use emergent_domain::{client_tool::ClientTool, conversation::HistoryTurn, invalid::Invalid};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use super::{
    history::conversation,
    tools::{Tool, ToolResult, client_tools, results},
};

/// The maximum length of an id that a client chooses.
const MAX_ID_BYTES: usize = 255;
const MAX_MESSAGES: usize = 1_000;
/// The maximum size of all messages as JSON.
const MAX_MESSAGE_BYTES: usize = 2 << 20;
const MAX_CONTEXT_ITEMS: usize = 100;
const MAX_CONTEXT_BYTES: usize = 256 << 10;
const MAX_STATE_BYTES: usize = 256 << 10;
const MAX_RESUME_ENTRIES: usize = 100;

/// The key of the state under which this server writes. A client sends it back with its state.
pub const STATE_KEY: &str = "emergent";

/// `RunAgentInput`, the request of AG-UI. Other fields have no effect, so that newer clients can be answered.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = AguiRunAgentInput)]
pub struct RunAgentInput {
    /// The conversation, as the client names it.
    #[schema(min_length = 1, max_length = 255)]
    pub thread_id: String,
    /// The run, as the client names it. The same id in the same thread is the same run.
    #[schema(min_length = 1, max_length = 255)]
    pub run_id: String,
    #[serde(default)]
    pub parent_run_id: Option<String>,
    /// The conversation. The last message is what the agent is asked.
    #[serde(default)]
    #[schema(max_items = 1000)]
    pub messages: Option<Vec<Value>>,
    /// Tools of the client, which it executes itself. The agent sees them beside its own.
    #[serde(default)]
    #[schema(max_items = 128)]
    pub tools: Option<Vec<Tool>>,
    /// What the agent reads below the input.
    #[serde(default)]
    #[schema(max_items = 100)]
    pub context: Option<Vec<ContextItem>>,
    /// The state of the client, which the agent reads below the input.
    #[serde(default)]
    pub state: Option<Value>,
    /// Has no effect.
    #[serde(default)]
    pub forwarded_props: Option<Value>,
    /// Decisions and answers, with which an interrupted run goes on.
    #[serde(default)]
    #[schema(max_items = 100)]
    pub resume: Option<Vec<ResumeEntry>>,
}

#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[schema(as = AguiContextItem)]
pub struct ContextItem {
    #[serde(default)]
    pub description: String,
    #[serde(default)]
    pub value: String,
}

/// The response to one interrupt.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = AguiResumeEntry)]
pub struct ResumeEntry {
    pub interrupt_id: String,
    pub status: ResumeStatus,
    /// As the `responseSchema` of the interrupt says.
    #[serde(default)]
    pub payload: Option<Value>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = AguiResumeStatus)]
pub enum ResumeStatus {
    Resolved,
    /// The person did not respond: a call is denied, and a question is not answered.
    Cancelled,
}

/// What a run is started with.
#[derive(Debug, Clone, PartialEq)]
pub struct Start {
    pub input: String,
    /// What the request says besides the conversation. The agent reads it below the input.
    pub context: Option<Value>,
    pub history: Vec<HistoryTurn>,
    pub client_tools: Vec<ClientTool>,
}

/// What the snapshots of a stream repeat of the request.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Echo {
    pub messages: Vec<Value>,
    /// `None` if the state of the client is no object: nothing can be added to it.
    pub state: Option<Map<String, Value>>,
}

impl RunAgentInput {
    /// Checks the limits.
    pub fn check(&self) -> Result<(), Invalid> {
        for (field, id) in [("threadId", &self.thread_id), ("runId", &self.run_id)] {
            if id.is_empty() || id.len() > MAX_ID_BYTES || id.chars().any(char::is_control) {
                let reason = format!("must have 1 to {MAX_ID_BYTES} bytes without control characters");
                return Err(Invalid::new(field, reason));
            }
        }
        if self.parent_run_id.as_ref().is_some_and(|id| id.len() > MAX_ID_BYTES) {
            return Err(Invalid::new("parentRunId", format!("is longer than {MAX_ID_BYTES} bytes")));
        }
        client_tools(self.tools.as_deref().unwrap_or_default())?;
        check_list("messages", self.messages.as_ref(), MAX_MESSAGES, MAX_MESSAGE_BYTES, Value::to_string)?;
        let text = |item: &ContextItem| format!("{}{}", item.description, item.value);
        check_list("context", self.context.as_ref(), MAX_CONTEXT_ITEMS, MAX_CONTEXT_BYTES, text)?;
        // The size of a payload is checked with the decision that it becomes.
        check_list("resume", self.resume.as_ref(), MAX_RESUME_ENTRIES, usize::MAX, |_| String::new())?;
        let state = self.state.as_ref().map(Value::to_string).unwrap_or_default();
        if state.len() > MAX_STATE_BYTES {
            return Err(Invalid::new("state", format!("is longer than {MAX_STATE_BYTES} bytes as JSON")));
        }
        if has_nul(self.state.as_ref().unwrap_or(&Value::Null)) {
            return Err(Invalid::new("state", "has a NUL character"));
        }
        let mut items = self.context.iter().flatten();
        if items.any(|item| item.description.contains('\0') || item.value.contains('\0')) {
            return Err(Invalid::new("context", "has a NUL character"));
        }
        Ok(())
    }

    /// The responses to interrupts; empty if the request starts a run.
    pub fn responses(&self) -> &[ResumeEntry] {
        self.resume.as_deref().unwrap_or_default()
    }

    /// Returns the results of tools of the client with which the messages end; empty if they end otherwise.
    pub fn results(&self) -> Result<Vec<ToolResult>, Invalid> {
        results(self.messages.as_deref().unwrap_or_default())
    }

    /// Returns what a run is started with.
    pub fn start(&self) -> Result<Start, Invalid> {
        let read = conversation(self.messages.as_deref().unwrap_or_default())?;
        let mut context = Map::new();
        if !read.instructions.is_empty() {
            context.insert("instructions".to_owned(), json!(read.instructions.join("\n\n")));
        }
        let items: Vec<Value> = self
            .context
            .iter()
            .flatten()
            .map(|item| json!({ "description": item.description, "value": item.value }))
            .collect();
        if !items.is_empty() {
            context.insert("context".to_owned(), Value::Array(items));
        }
        if let Some(state) = self.own_state() {
            context.insert("state".to_owned(), state);
        }
        let context = (!context.is_empty()).then_some(Value::Object(context));
        let client_tools = client_tools(self.tools.as_deref().unwrap_or_default())?;
        Ok(Start { input: read.input, context, history: read.history, client_tools })
    }

    /// What the snapshots of the stream repeat.
    pub fn into_echo(self) -> Echo {
        let state = match self.state {
            None | Some(Value::Null) => Some(Map::new()),
            Some(Value::Object(state)) => Some(state),
            Some(_) => None,
        };
        Echo { messages: self.messages.unwrap_or_default(), state }
    }

    /// The state without what this server wrote; `None` if nothing is left.
    fn own_state(&self) -> Option<Value> {
        match self.state.clone()? {
            Value::Null => None,
            Value::Object(mut state) => {
                state.remove(STATE_KEY);
                (!state.is_empty()).then_some(Value::Object(state))
            }
            other => Some(other),
        }
    }
}

fn check_list<T>(
    field: &str,
    list: Option<&Vec<T>>,
    max_items: usize,
    max_bytes: usize,
    text: impl Fn(&T) -> String,
) -> Result<(), Invalid> {
    let Some(list) = list else { return Ok(()) };
    if list.len() > max_items {
        return Err(Invalid::new(field, format!("has more than {max_items} entries")));
    }
    let bytes: usize = list.iter().map(|item| text(item).len()).sum();
    if bytes > max_bytes {
        return Err(Invalid::new(field, format!("is longer than {max_bytes} bytes")));
    }
    Ok(())
}

fn has_nul(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains('\0'),
        Value::Array(items) => items.iter().any(has_nul),
        Value::Object(fields) => fields.iter().any(|(name, value)| name.contains('\0') || has_nul(value)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(more: Value) -> RunAgentInput {
        let mut body = json!({ "threadId": "t", "runId": "r", "tools": [], "context": [], "forwardedProps": {},
            "state": {}, "messages": [{ "id": "1", "role": "user", "content": "Go." }] });
        for (field, value) in more.as_object().unwrap() {
            body[field] = value.clone();
        }
        serde_json::from_value(body).unwrap()
    }

    #[test]
    fn what_the_request_says_besides_the_conversation_is_context() {
        let start = request(json!({})).start().unwrap();
        assert_eq!((start.input.as_str(), start.context), ("Go.", None));
        let more = json!({ "context": [{ "description": "Page", "value": "Orders" }],
            "state": { "order": 7, "emergent": { "runId": "x" } },
            "messages": [{ "role": "system", "content": "Be brief." }, { "role": "user", "content": "Go." }] });
        let expected = json!({ "instructions": "Be brief.", "context": [{ "description": "Page", "value": "Orders" }],
            "state": { "order": 7 } });
        assert_eq!(request(more).start().unwrap().context, Some(expected));
    }

    #[test]
    fn a_state_that_is_no_object_is_not_added_to() {
        let echo = |state: Value| request(json!({ "state": state })).into_echo().state;
        assert_eq!(echo(json!(null)), Some(Map::new()));
        assert_eq!(echo(json!({ "a": 1 })), json!({ "a": 1 }).as_object().cloned());
        assert_eq!(echo(json!([1])), None);
        assert_eq!(request(json!({ "state": [1] })).start().unwrap().context, Some(json!({ "state": [1] })));
    }

    #[test]
    fn what_is_too_large_is_refused_by_its_field() {
        let refused = |more: Value| request(more).check().unwrap_err().problems[0].field.clone();
        assert!(request(json!({ "newField": 1 })).check().is_ok(), "newer clients are answered");
        assert_eq!(refused(json!({ "threadId": "" })), "threadId");
        assert_eq!(refused(json!({ "runId": "r\n" })), "runId");
        assert_eq!(refused(json!({ "runId": "r".repeat(MAX_ID_BYTES + 1) })), "runId");
        assert_eq!(refused(json!({ "parentRunId": "r".repeat(MAX_ID_BYTES + 1) })), "parentRunId");
        assert_eq!(refused(json!({ "tools": [{ "name": "a b" }] })), "tools[0].name");
        assert_eq!(refused(json!({ "messages": vec![json!({}); MAX_MESSAGES + 1] })), "messages");
        let long = json!({ "role": "user", "content": "a".repeat(MAX_MESSAGE_BYTES) });
        assert_eq!(refused(json!({ "messages": [long] })), "messages");
        assert_eq!(refused(json!({ "context": vec![json!({}); MAX_CONTEXT_ITEMS + 1] })), "context");
        assert_eq!(refused(json!({ "context": [{ "value": "\0" }] })), "context");
        assert_eq!(
            refused(json!({ "context": [{ "value": "a".repeat(MAX_CONTEXT_BYTES + 1) }] })),
            "context"
        );
        assert_eq!(refused(json!({ "state": { "a": "a".repeat(MAX_STATE_BYTES) } })), "state");
        assert_eq!(refused(json!({ "state": { "a": ["\0"] } })), "state");
        let entry = json!({ "interruptId": "i", "status": "cancelled" });
        assert_eq!(refused(json!({ "resume": vec![entry; MAX_RESUME_ENTRIES + 1] })), "resume");
    }
}
