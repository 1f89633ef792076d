//! Helpers that all adapters share: tool calls and results as text, and assembling the parts of an
//! answer.

use std::borrow::Cow;

use emergent_domain::{
    chat::{Part, ToolCall, ToolResult},
    foreign_json,
    ids::ToolCallId,
};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::{Delta, ToolSpec};

/// Returns a tool call as the model wrote it. Models omit arguments that are empty, and sometimes write
/// something that is not an object. It is preserved so that the model can be told.
pub(crate) fn tool_call_part(name: String, arguments: String) -> Part {
    let input = match foreign_json::from_str(&arguments) {
        Ok(input @ Value::Object(_)) => input,
        _ if arguments.trim().is_empty() => json!({}),
        _ => Value::String(arguments),
    };
    Part::Call(ToolCall { id: ToolCallId::new(), name, input, provider: None })
}

/// Returns the input of a call to be sent back. Providers accept only objects, so other values are
/// wrapped: the model still sees what it wrote.
pub(crate) fn input_object(call: &ToolCall) -> Cow<'_, Value> {
    match &call.input {
        input @ Value::Object(_) => Cow::Borrowed(input),
        other => Cow::Owned(json!({ "invalid_arguments": other })),
    }
}

/// Returns a tool name that OpenAI and Anthropic accept. The labels of tools are such names, but conversations
/// that were recorded by earlier versions have names like `server.tool`. A hash at the end keeps similar
/// names distinct.
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

/// Restores the original tool names in the calls of an answer.
pub(crate) fn restore_tool_names(parts: &mut [Part], tools: &[ToolSpec]) {
    for part in parts {
        if let Part::Call(call) = part
            && let Some(tool) = tools.iter().find(|tool| tool_name(&tool.name) == call.name)
        {
            call.name.clone_from(&tool.name);
        }
    }
}

/// Returns an output as text. A string is not quoted: a quoted document would be harder to read and
/// cost more.
pub(crate) fn output_text(result: &ToolResult) -> String {
    match &result.output {
        Value::String(text) => text.clone(),
        output => output.to_string(),
    }
}

/// Appends a piece of text to the current part, or starts a new part after a thought or a call.
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

/// Like [`push_text`], for thoughts.
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
