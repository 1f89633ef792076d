//! What the adapters do alike: calls and results as text, and pieces of an answer put together.

use std::borrow::Cow;

use emergent_domain::{
    chat::{Part, ToolCall, ToolResult},
    ids::ToolCallId,
};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::{Delta, ToolSpec};

/// A call as the model wrote it. Models leave arguments empty where there are none, and now and
/// then write something that is no object, which is kept so that they can be told.
pub(crate) fn tool_call_part(name: String, arguments: String) -> Part {
    let input = match serde_json::from_str(&arguments) {
        Ok(input @ Value::Object(_)) => input,
        _ if arguments.trim().is_empty() => json!({}),
        _ => Value::String(arguments),
    };
    Part::Call(ToolCall { id: ToolCallId::new(), name, input, provider: None })
}

/// The input of a call on its way back. Providers take objects only, so what was none is wrapped:
/// the model still sees what it wrote.
pub(crate) fn input_object(call: &ToolCall) -> Cow<'_, Value> {
    match &call.input {
        input @ Value::Object(_) => Cow::Borrowed(input),
        other => Cow::Owned(json!({ "invalid_arguments": other })),
    }
}

/// What OpenAI and Anthropic take as the name of a tool; a server's tool may go by `server.tool`, or
/// by a name that is longer. Two that look alike then still differ in their end.
pub(crate) fn tool_name(name: &str) -> Cow<'_, str> {
    const LONGEST: usize = 64;
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if name.len() <= LONGEST && name.chars().all(fits) {
        return Cow::Borrowed(name);
    }
    let mark: String = Sha256::digest(name).iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    let plain = name.chars().map(|c| if fits(c) { c } else { '_' });
    Cow::Owned(format!("{}_{mark}", plain.take(LONGEST - mark.len() - 1).collect::<String>()))
}

/// The calls of an answer by the names the tools have here.
pub(crate) fn restore_tool_names(parts: &mut [Part], tools: &[ToolSpec]) {
    for part in parts {
        if let Part::Call(call) = part
            && let Some(tool) = tools.iter().find(|tool| tool_name(&tool.name) == call.name)
        {
            call.name.clone_from(&tool.name);
        }
    }
}

/// An output as text. A string stands as it is: quoted, a document would be harder to read and
/// cost more.
pub(crate) fn output_text(result: &ToolResult) -> String {
    match &result.output {
        Value::String(text) => text.clone(),
        output => output.to_string(),
    }
}

/// Adds a piece of text to what is being said, or begins a new part when the model had been
/// thinking or calling.
pub(crate) fn push_text(parts: &mut Vec<Part>, piece: &str, on_delta: &mut (dyn FnMut(Delta) + Send)) {
    if piece.is_empty() {
        return;
    }
    match parts.last_mut() {
        Some(Part::Text { text, .. }) => text.push_str(piece),
        _ => parts.push(Part::text(piece)),
    }
    on_delta(Delta::Text(piece.to_owned()));
}

/// The same for thoughts.
pub(crate) fn push_thought(parts: &mut Vec<Part>, piece: &str, on_delta: &mut (dyn FnMut(Delta) + Send)) {
    if piece.is_empty() {
        return;
    }
    match parts.last_mut() {
        Some(Part::Thought { text, .. }) => text.push_str(piece),
        _ => parts.push(Part::Thought { text: piece.to_owned(), provider: None }),
    }
    on_delta(Delta::Thought(piece.to_owned()));
}
