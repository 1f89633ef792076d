//! Assembles the chunks of a streamed completion.
//!
//! Servers differ most in how they stream tool calls: some omit `index`, some give every call the same
//! one, some repeat ids and names, some send a call in one piece.

use std::ops::ControlFlow;

use emergent_domain::chat::{Part, StopReason, Usage};
use serde_json::Value;

use super::super::{
    Answer, Delta, ResponseIds,
    stream::{error_in_stream, incomplete_stream_error, malformed, parse},
    wire,
};
use crate::Error;

pub struct AnswerReader<'a> {
    model: &'a str,
    parts: Vec<Part>,
    calls: Vec<PartialCall>,
    usage: Usage,
    finish: Option<String>,
    done: bool,
    refused: bool,
    response: ResponseIds,
}

/// A call whose arguments may be incomplete.
#[derive(Default)]
struct PartialCall {
    index: Option<u64>,
    id: String,
    name: String,
    arguments: String,
}

impl<'a> AnswerReader<'a> {
    pub fn new(model: &'a str) -> Self {
        Self {
            model,
            parts: vec![],
            calls: vec![],
            usage: Usage::default(),
            finish: None,
            done: false,
            refused: false,
            response: ResponseIds::default(),
        }
    }

    /// Takes the next chunk, and breaks after the last one.
    pub fn push(
        &mut self,
        data: &str,
        on_delta: &mut (dyn FnMut(Delta) + Send),
    ) -> Result<ControlFlow<()>, Error> {
        if data.trim_start().starts_with("[DONE]") {
            self.done = true;
            return Ok(ControlFlow::Break(()));
        }
        let chunk = parse(self.model, data)?;
        if !chunk["error"].is_null() {
            return Err(error_in_stream(self.model, &chunk));
        }
        if chunk["usage"].is_object() {
            self.usage = usage(&chunk["usage"]);
        }
        ResponseIds::take(&mut self.response.id, &chunk["id"]);
        ResponseIds::take(&mut self.response.model, &chunk["model"]);
        let choice = &chunk["choices"][0];
        let delta = &choice["delta"];
        let text = |name: &str| delta[name].as_str().unwrap_or_default();
        // Two field names are in use, and a server that sends both sends the same text twice.
        let thought = [text("reasoning_content"), text("reasoning")];
        wire::push_thought(&mut self.parts, thought.iter().find(|t| !t.is_empty()).unwrap_or(&""), on_delta);
        wire::push_text(&mut self.parts, text("content"), on_delta);
        if !text("refusal").is_empty() {
            self.refused = true;
            wire::push_text(&mut self.parts, text("refusal"), on_delta);
        }
        for piece in delta["tool_calls"].as_array().into_iter().flatten() {
            self.push_call_delta(piece);
        }
        if let Some(reason) = choice["finish_reason"].as_str() {
            self.finish = Some(reason.to_owned());
        }
        Ok(ControlFlow::Continue(()))
    }

    fn push_call_delta(&mut self, piece: &Value) {
        let index = piece["index"].as_u64();
        let id = piece["id"].as_str().unwrap_or_default();
        let name = piece["function"]["name"].as_str().unwrap_or_default();

        let at = match index {
            // A second id under one index is a second call.
            Some(_) => self.calls.iter().rposition(|call| {
                call.index == index && (id.is_empty() || call.id.is_empty() || call.id == id)
            }),
            None if !id.is_empty() => self.calls.iter().rposition(|call| call.id == id),
            // Without an index and an id, a name starts a call, and anything else continues the last one.
            None if name.is_empty() => self.calls.len().checked_sub(1),
            None => None,
        };
        let at = at.unwrap_or_else(|| {
            self.calls.push(PartialCall { index, ..PartialCall::default() });
            self.calls.len() - 1
        });
        let call = &mut self.calls[at];
        if call.id.is_empty() {
            id.clone_into(&mut call.id);
        }
        if call.name.is_empty() {
            name.clone_into(&mut call.name);
        }
        match &piece["function"]["arguments"] {
            Value::String(arguments) => call.arguments.push_str(arguments),
            Value::Null => {}
            whole => call.arguments = whole.to_string(),
        }
    }

    pub fn finish(self) -> Result<Answer, Error> {
        // The closing mark is optional: a stream with a finish reason is complete.
        if !self.done && self.finish.is_none() {
            return Err(incomplete_stream_error(self.model));
        }
        let mut parts = self.parts;
        let calls = !self.calls.is_empty();
        parts.extend(self.calls.into_iter().map(|call| wire::tool_call_part(call.name, call.arguments)));
        let stop = match self.finish.as_deref() {
            _ if self.refused => StopReason::Refused("refusal".into()),
            Some("content_filter") => StopReason::Refused("content_filter".into()),
            Some("length") => StopReason::MaxTokens,
            // Some servers always report `stop`.
            None | Some("stop" | "tool_calls" | "function_call") if calls => StopReason::ToolCalls,
            Some("stop") => StopReason::End,
            None if parts.is_empty() => return Err(malformed(self.model, "it is empty")),
            None => StopReason::End,
            Some(other) => StopReason::Other(other.to_owned()),
        };
        Ok(Answer { parts, usage: self.usage, stop, response: self.response })
    }
}

/// Cached and reasoning tokens are already included in the two totals.
fn usage(counts: &Value) -> Usage {
    let count = |pointer: &str| counts.pointer(pointer).and_then(Value::as_u64).unwrap_or(0);
    Usage {
        input: count("/prompt_tokens"),
        output: count("/completion_tokens"),
        reasoning: count("/completion_tokens_details/reasoning_tokens"),
        cache_read: count("/prompt_tokens_details/cached_tokens"),
        cache_write: 0,
    }
}
