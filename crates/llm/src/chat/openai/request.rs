//! A conversation in the words of `/v1/chat/completions`.

use std::borrow::Cow;

use emergent_domain::{
    chat::{CallResult, Part, Speaker, Turn},
    ids::ToolCallId,
};
use serde::{Serialize, Serializer, ser::SerializeSeq};
use serde_json::{Value, json};

use super::super::{
    ChatRequest, ToolSpec,
    wire::{output_text, sent_input},
};

/// The name under which a server takes the limit of an answer.
#[derive(Debug, Clone, Copy)]
pub enum TokenLimit {
    MaxCompletionTokens,
    MaxTokens,
}

/// The request as JSON, written straight from the conversation: it is sent whole at every step, and
/// building a tree of it first took longer than everything else a step does.
pub fn body(request: &ChatRequest<'_>, limit: TokenLimit) -> String {
    let tokens = |kind: fn(TokenLimit) -> bool| request.max_tokens.filter(|_| kind(limit));
    let body = Body {
        model: request.model,
        messages: Messages { system: request.system, turns: request.turns },
        stream: true,
        stream_options: StreamOptions { include_usage: true },
        tools: request.tools.iter().map(tool).collect(),
        temperature: request.temperature,
        max_completion_tokens: tokens(|limit| matches!(limit, TokenLimit::MaxCompletionTokens)),
        max_tokens: tokens(|limit| matches!(limit, TokenLimit::MaxTokens)),
        response_format: request.output_schema.map(response_format),
    };
    // Texts and values always have a JSON text.
    serde_json::to_string(&body).unwrap_or_default()
}

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    messages: Messages<'a>,
    stream: bool,
    stream_options: StreamOptions,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_format: Option<Value>,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

#[derive(Serialize)]
struct Tool<'a> {
    r#type: &'static str,
    function: Function<'a>,
}

#[derive(Serialize)]
struct Function<'a> {
    name: &'a str,
    description: &'a str,
    parameters: &'a Value,
}

fn tool(tool: &ToolSpec) -> Tool<'_> {
    let function =
        Function { name: &tool.name, description: &tool.description, parameters: &tool.input_schema };
    Tool { r#type: "function", function }
}

fn response_format(schema: &Value) -> Value {
    let strict = schema["type"] == "object" && strict(schema);
    json!({ "type": "json_schema", "json_schema": { "name": "answer", "schema": schema, "strict": strict } })
}

struct Messages<'a> {
    system: &'a str,
    turns: &'a [Turn],
}

#[derive(Serialize)]
struct Message<'a> {
    role: &'static str,
    /// Null for an assistant that only calls.
    content: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<ToolCallId>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<MadeCall<'a>>,
}

#[derive(Serialize)]
struct MadeCall<'a> {
    id: ToolCallId,
    r#type: &'static str,
    function: MadeFunction<'a>,
}

#[derive(Serialize)]
struct MadeFunction<'a> {
    name: &'a str,
    arguments: String,
}

impl Serialize for Messages<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(None)?;
        let plain =
            |role, content| Message { role, content: Some(content), tool_call_id: None, tool_calls: vec![] };
        if !self.system.is_empty() {
            list.serialize_element(&plain("system", Cow::Borrowed(self.system)))?;
        }
        for turn in self.turns {
            match turn.speaker {
                Speaker::User => list.serialize_element(&plain("user", text(turn)))?,
                Speaker::Tools => {
                    for part in &turn.parts {
                        if let Part::Result(result) = part {
                            let message = plain("tool", Cow::Owned(result_text(result)));
                            list.serialize_element(&Message { tool_call_id: Some(result.id), ..message })?;
                        }
                    }
                }
                Speaker::Assistant => {
                    // Thoughts stay behind: servers that give them do not want them back.
                    let tool_calls: Vec<_> = turn.parts.iter().filter_map(made_call).collect();
                    let content = Some(text(turn)).filter(|text| !text.is_empty());
                    // A message with nothing in it is refused.
                    if content.is_some() || !tool_calls.is_empty() {
                        let message = Message { role: "assistant", content, tool_call_id: None, tool_calls };
                        list.serialize_element(&message)?;
                    }
                }
            }
        }
        list.end()
    }
}

/// The text of a turn, borrowed where it is in one piece.
fn text(turn: &Turn) -> Cow<'_, str> {
    let mut texts = turn.parts.iter().filter_map(|part| match part {
        Part::Text { text, .. } => Some(text.as_str()),
        _ => None,
    });
    match (texts.next(), texts.next()) {
        (None, _) => Cow::Borrowed(""),
        (Some(only), None) => Cow::Borrowed(only),
        _ => Cow::Owned(turn.text()),
    }
}

fn made_call(part: &Part) -> Option<MadeCall<'_>> {
    let Part::Call(call) = part else { return None };
    let arguments = sent_input(call).to_string();
    Some(MadeCall { id: call.id, r#type: "function", function: MadeFunction { name: &call.name, arguments } })
}

fn result_text(result: &CallResult) -> String {
    // There is no field that marks a failure, so the text has to say it.
    let says_so = result.output.get("error").is_some();
    match result.is_error && !says_so {
        true => json!({ "error": result.output }).to_string(),
        false => output_text(result),
    }
}

/// Whether the schema keeps to what OpenAI takes as strict: every property required, no others
/// allowed. It refuses a strict schema that does not, while it still follows a loose one.
fn strict(schema: &Value) -> bool {
    const NEVER: [&str; 8] = [
        "allOf",
        "oneOf",
        "not",
        "if",
        "patternProperties",
        "dependentRequired",
        "dependentSchemas",
        "prefixItems",
    ];
    let Value::Object(fields) = schema else { return true };
    if NEVER.iter().any(|name| fields.contains_key(*name)) {
        return false;
    }
    let properties = fields.get("properties").and_then(Value::as_object);
    let is_object = properties.is_some() || schema["type"] == "object";
    let required = |name: &String| schema["required"].as_array().is_some_and(|r| r.contains(&json!(name)));
    let closed = schema["additionalProperties"] == json!(false)
        && properties.is_some_and(|properties| properties.keys().all(required));
    let inner = ["properties", "$defs", "definitions"].iter().filter_map(|name| fields.get(*name));
    let inner = inner.filter_map(Value::as_object).flat_map(|map| map.values());
    let choices = fields.get("anyOf").and_then(Value::as_array).into_iter().flatten();
    (!is_object || closed) && inner.chain(choices).chain(fields.get("items")).all(strict)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_is_strict_when_every_property_is_required_and_no_other_allowed() {
        let closed = |extra: Value| {
            let mut schema = json!({ "type": "object", "additionalProperties": false,
                "properties": { "a": { "type": "string" } }, "required": ["a"] });
            schema.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
            strict(&schema)
        };
        assert!(closed(json!({})));
        assert!(closed(json!({ "properties": { "a": { "type": "array", "items": { "type": "string" } } } })));
        assert!(!closed(json!({ "required": [] })));
        assert!(!closed(json!({ "additionalProperties": true })));
        assert!(!closed(json!({ "properties": { "a": { "type": "object" } } })));
        assert!(!closed(json!({ "allOf": [] })));
    }
}
