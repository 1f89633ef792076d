//! What the adapters do alike: calls and results as text, and pieces of an answer put together.

use std::borrow::Cow;

use emergent_domain::{
    chat::{Call, CallResult, Part},
    ids::ToolCallId,
};
use serde_json::{Value, json};

use crate::Delta;

/// A call as the model wrote it. Models leave arguments empty where there are none, and now and
/// then write something that is no object, which is kept so that they can be told.
pub(crate) fn call(name: String, arguments: String) -> Part {
    let input = match serde_json::from_str(&arguments) {
        Ok(input @ Value::Object(_)) => input,
        _ if arguments.trim().is_empty() => json!({}),
        _ => Value::String(arguments),
    };
    Part::Call(Call { id: ToolCallId::new(), name, input, provider: None })
}

/// The input of a call on its way back. Providers take objects only, so what was none is wrapped:
/// the model still sees what it wrote.
pub(crate) fn sent_input(call: &Call) -> Cow<'_, Value> {
    match &call.input {
        input @ Value::Object(_) => Cow::Borrowed(input),
        other => Cow::Owned(json!({ "invalid_arguments": other })),
    }
}

/// An output as text. A string stands as it is: quoted, a document would be harder to read and
/// cost more.
pub(crate) fn output_text(result: &CallResult) -> String {
    match &result.output {
        Value::String(text) => text.clone(),
        output => output.to_string(),
    }
}

/// Adds a piece of text to what is being said, or begins a new part when the model had been
/// thinking or calling.
pub(crate) fn say(parts: &mut Vec<Part>, piece: &str, on_delta: &mut (dyn FnMut(Delta) + Send)) {
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
pub(crate) fn think(parts: &mut Vec<Part>, piece: &str, on_delta: &mut (dyn FnMut(Delta) + Send)) {
    if piece.is_empty() {
        return;
    }
    match parts.last_mut() {
        Some(Part::Thought { text, .. }) => text.push_str(piece),
        _ => parts.push(Part::Thought { text: piece.to_owned(), provider: None }),
    }
    on_delta(Delta::Thought(piece.to_owned()));
}
