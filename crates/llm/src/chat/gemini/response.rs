//! Assembles the chunks of a streamed answer.
//!
//! Each chunk is a full `GenerateContentResponse` with the next piece of text; tool calls arrive
//! complete. Nothing but the end of the body marks the end, so the finish reason distinguishes a
//! complete answer from a truncated one.

use std::collections::HashMap;

use emergent_domain::{
    chat::{Part, StopReason, ToolCall, Usage},
    foreign_json,
    ids::ToolCallId,
    reserved_keys::has_reserved_key,
    stored_json,
};
use serde_json::{Value, json, value::RawValue};

use super::{
    super::ResponseIds,
    super::stream::{error_in_stream, incomplete_stream_error, malformed, parse},
    provider_data,
};
use crate::{Answer, Delta, Error};

pub struct AnswerReader<'a> {
    model: &'a str,
    parts: Vec<Part>,
    counts: TokenCounts,
    finish: Option<String>,
    /// Google's explanation of the finish reason, if there is one.
    remark: String,
    /// The reason why the prompt itself was blocked.
    blocked: Option<String>,
    response: ResponseIds,
}

impl<'a> AnswerReader<'a> {
    pub fn new(model: &'a str) -> Self {
        Self {
            model,
            parts: vec![],
            counts: TokenCounts::default(),
            finish: None,
            remark: String::new(),
            blocked: None,
            response: ResponseIds::default(),
        }
    }

    /// Takes the next chunk, the data of one event.
    pub fn push(&mut self, data: &str, on_delta: &mut (dyn FnMut(Delta) + Send)) -> Result<(), Error> {
        let is_reserved = has_reserved_key(data.as_bytes());
        let mut chunk = match is_reserved {
            // The model is told about a reserved key in a call, and one elsewhere means nothing.
            true => stored_json::from_str(data).map_err(|error| malformed(self.model, error))?,
            false => parse(self.model, data)?,
        };
        let written = if is_reserved { written_args(data) } else { Vec::new() };
        if !chunk["error"].is_null() {
            return Err(error_in_stream(self.model, &chunk));
        }
        if let Some(Value::Array(parts)) = chunk.pointer_mut("/candidates/0/content/parts").map(Value::take) {
            for (index, part) in parts.into_iter().enumerate() {
                self.part(part, written.get(index).copied().flatten(), on_delta);
            }
        }
        let candidate = &chunk["candidates"][0];
        if let Some(reason) = candidate["finishReason"].as_str() {
            self.finish = Some(reason.to_owned());
            self.remark = candidate["finishMessage"].as_str().unwrap_or_default().to_owned();
        }
        if let Some(reason) = chunk["promptFeedback"]["blockReason"].as_str() {
            self.blocked = Some(reason.to_owned());
        }
        self.counts.update(&chunk["usageMetadata"]);
        ResponseIds::take(&mut self.response.id, &chunk["responseId"]);
        ResponseIds::take(&mut self.response.model, &chunk["modelVersion"]);
        Ok(())
    }

    /// Takes a part. `written` are the arguments of its call as a text, if they may have a reserved key.
    fn part(&mut self, mut part: Value, written: Option<&str>, on_delta: &mut (dyn FnMut(Delta) + Send)) {
        let provider = provider_data::from_part(&part);
        if part["functionCall"].is_object() {
            let name = part["functionCall"]["name"].as_str().unwrap_or_default().to_owned();
            let refused = written.filter(|text| has_reserved_key(text.as_bytes()));
            let input = match part["functionCall"]["args"].take() {
                _ if refused.is_some() => refused.into(),
                Value::Null => json!({}),
                args @ Value::Object(_) => args,
                other => Value::String(other.to_string()),
            };
            self.parts.push(Part::Call(ToolCall { id: ToolCallId::new(), name, input, provider }));
            return;
        }
        let piece = part["text"].as_str().unwrap_or_default();
        let is_thought = part["thought"] == true;
        if piece.is_empty() && provider.is_none() {
            return;
        }
        if !piece.is_empty() {
            on_delta(if is_thought { Delta::Thought(piece.into()) } else { Delta::Text(piece.into()) });
        }
        // A signature is valid only on its own part, so a signed part is not merged.
        match self.parts.last_mut() {
            Some(Part::Text { text, provider: None }) if provider.is_none() && !is_thought => {
                text.push_str(piece);
            }
            Some(Part::Thought { text, provider: None }) if provider.is_none() && is_thought => {
                text.push_str(piece);
            }
            _ if is_thought => self.parts.push(Part::Thought { text: piece.into(), provider }),
            _ => self.parts.push(Part::Text { text: piece.into(), provider }),
        }
    }

    /// Returns the answer after the end of the body.
    pub fn finish(self) -> Result<Answer, Error> {
        let stop = match (self.finish.as_deref(), self.blocked) {
            (None, None) => return Err(incomplete_stream_error(self.model)),
            (_, Some(reason)) => StopReason::Refused(reason),
            (Some("STOP"), _) if self.parts.iter().any(|part| matches!(part, Part::Call(_))) => {
                StopReason::ToolCalls
            }
            (Some("STOP"), _) => StopReason::End,
            (Some("MAX_TOKENS"), _) => StopReason::MaxTokens,
            // The model made a mistake while writing; a retry with the same prompt usually succeeds.
            (Some(reason @ ("MALFORMED_FUNCTION_CALL" | "MALFORMED_RESPONSE")), _) => {
                return Err(malformed_answer(self.model, reason, &self.remark));
            }
            (Some(reason), _) if is_refusal(reason) => StopReason::Refused(reason.to_owned()),
            (Some(reason), _) => StopReason::Other(reason.to_owned()),
        };
        Ok(Answer { parts: self.parts, usage: self.counts.usage(), stop, response: self.response })
    }
}

/// The arguments of the call of each part of a chunk, as the model wrote them.
fn written_args(data: &str) -> Vec<Option<&str>> {
    let first = field(data, "candidates").and_then(|candidates| elements(candidates).into_iter().next());
    let parts = first.and_then(|candidate| field(field(candidate, "content")?, "parts"));
    let args = |part| field(field(part, "functionCall")?, "args");
    parts.map(elements).unwrap_or_default().into_iter().map(args).collect()
}

/// The text of a field of an object; `None` if there is none.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let fields: HashMap<String, &RawValue> = foreign_json::parse_str(text).ok()?;
    fields.get(name).map(|value| value.get())
}

/// The texts of the elements of a list.
fn elements(text: &str) -> Vec<&str> {
    let list: Vec<&RawValue> = foreign_json::parse_str(text).unwrap_or_default();
    list.into_iter().map(RawValue::get).collect()
}

fn malformed_answer(model: &str, reason: &str, remark: &str) -> Error {
    let remark: String = remark.chars().take(300).collect();
    let message = format!("Google could not parse the model's answer ({reason}) {remark}");
    Error::Overloaded { model: model.into(), message: message.trim_end().into(), source: None }
}

fn is_refusal(reason: &str) -> bool {
    matches!(reason, "SAFETY" | "RECITATION" | "BLOCKLIST" | "PROHIBITED_CONTENT" | "SPII" | "IMAGE_SAFETY")
}

/// Google's counts so far. They grow with each chunk, and a chunk may omit some.
#[derive(Default)]
struct TokenCounts {
    prompt: u64,
    tool_use_prompt: u64,
    candidates: u64,
    thoughts: u64,
    cached: u64,
}

impl TokenCounts {
    fn update(&mut self, metadata: &Value) {
        let fields = [
            ("promptTokenCount", &mut self.prompt),
            ("toolUsePromptTokenCount", &mut self.tool_use_prompt),
            ("candidatesTokenCount", &mut self.candidates),
            ("thoughtsTokenCount", &mut self.thoughts),
            ("cachedContentTokenCount", &mut self.cached),
        ];
        for (name, count) in fields {
            // 64-bit numbers may be sent as strings.
            let value = &metadata[name];
            let number = value.as_u64().or_else(|| value.as_str()?.parse().ok());
            *count = number.unwrap_or(*count);
        }
    }

    fn usage(&self) -> Usage {
        Usage {
            input: self.prompt + self.tool_use_prompt,
            output: self.candidates + self.thoughts,
            reasoning: self.thoughts,
            cache_read: self.cached,
            cache_write: 0,
        }
    }
}
