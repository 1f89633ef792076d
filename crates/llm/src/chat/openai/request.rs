//! Converts a conversation to the format of `/v1/chat/completions`.

use std::borrow::Cow;

use emergent_domain::{
    chat::{Part, Speaker, ToolResult, Turn},
    ids::ToolCallId,
    json::Schema,
};
use serde::Serialize;
use serde_json::{Value, json};

use super::super::{
    ChatRequest, ToolSpec, output_schema,
    request_cache::{RequestCache, SerializedTurns},
    wire::{input_object, output_text, tool_name},
};

/// The name under which a server accepts the output limit.
#[derive(Debug, Clone, Copy)]
pub enum TokenLimit {
    MaxCompletionTokens,
    MaxTokens,
}

/// Serialises the request: the turns that were sent before, the new turns, and the other fields. Turns
/// that were serialised for an earlier request are reused.
pub fn body(request: &ChatRequest<'_>, limit: TokenLimit) -> Vec<u8> {
    let is_own_server = matches!(limit, TokenLimit::MaxCompletionTokens);
    let tokens = |kind: fn(TokenLimit) -> bool| request.max_tokens.filter(|_| kind(limit));
    let rest = RequestFields {
        model: request.model,
        stream: true,
        stream_options: StreamOptions { include_usage: true },
        tools: request.tools.iter().map(tool).collect(),
        temperature: request.temperature,
        max_completion_tokens: tokens(|limit| matches!(limit, TokenLimit::MaxCompletionTokens)),
        max_tokens: tokens(|limit| matches!(limit, TokenLimit::MaxTokens)),
        response_format: output_schema::for_openai(request, is_own_server).map(response_format),
    };
    RequestCache::with_turns(request.cache, |cached| {
        if cached.turns == 0 || cached.turns > request.turns.len() {
            *cached = SerializedTurns::default();
            if !request.system.is_empty() {
                push_message(&mut cached.text, &text_message("system", Cow::Borrowed(request.system)));
            }
        }
        request.turns[cached.turns..].iter().for_each(|turn| push_turn(&mut cached.text, turn));
        cached.turns = request.turns.len();
        let rest = serde_json::to_vec(&rest).unwrap_or_default();
        let mut body = Vec::with_capacity(cached.text.len() + rest.len() + 16);
        body.extend_from_slice(b"{\"messages\":[");
        body.extend_from_slice(&cached.text);
        body.extend_from_slice(b"],");
        // The opening brace is already written.
        body.extend_from_slice(rest.get(1..).unwrap_or_default());
        body
    })
}

/// Texts and values always serialise.
fn write_json(into: &mut Vec<u8>, what: &impl Serialize) {
    let _ = serde_json::to_writer(into, what);
}

fn push_message(messages: &mut Vec<u8>, message: &Message<'_>) {
    if !messages.is_empty() {
        messages.push(b',');
    }
    write_json(messages, message);
}

/// The fields besides the conversation.
#[derive(Serialize)]
struct RequestFields<'a> {
    model: &'a str,
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
    name: Cow<'a, str>,
    description: &'a str,
    parameters: &'a Schema,
}

fn tool(tool: &ToolSpec) -> Tool<'_> {
    let function = Function {
        name: tool_name(&tool.name),
        description: &tool.description,
        parameters: &tool.input_schema,
    };
    Tool { r#type: "function", function }
}

fn response_format(schema: &Value) -> Value {
    let strict = is_strict(schema);
    json!({ "type": "json_schema", "json_schema": { "name": "answer", "schema": schema, "strict": strict } })
}

#[derive(Serialize)]
struct Message<'a> {
    role: &'static str,
    /// Null for an assistant turn that consists of calls only.
    content: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<ToolCallId>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<ToolCallBody<'a>>,
}

#[derive(Serialize)]
struct ToolCallBody<'a> {
    id: ToolCallId,
    r#type: &'static str,
    function: FunctionBody<'a>,
}

#[derive(Serialize)]
struct FunctionBody<'a> {
    name: Cow<'a, str>,
    arguments: String,
}

fn text_message<'a>(role: &'static str, content: Cow<'a, str>) -> Message<'a> {
    Message { role, content: Some(content), tool_call_id: None, tool_calls: vec![] }
}

fn push_turn(messages: &mut Vec<u8>, turn: &Turn) {
    match turn.speaker {
        Speaker::User => push_message(messages, &text_message("user", text(turn))),
        Speaker::Tools => {
            for part in &turn.parts {
                if let Part::Result(result) = part {
                    let message = text_message("tool", Cow::Owned(result_text(result)));
                    push_message(messages, &Message { tool_call_id: Some(result.id), ..message });
                }
            }
        }
        Speaker::Assistant => {
            // Thoughts are not sent back: servers that produce them do not accept them.
            let tool_calls: Vec<_> = turn.parts.iter().filter_map(tool_call_body).collect();
            let content = Some(text(turn)).filter(|text| !text.is_empty());
            // The API refuses an empty message.
            if content.is_some() || !tool_calls.is_empty() {
                push_message(
                    messages,
                    &Message { role: "assistant", content, tool_call_id: None, tool_calls },
                );
            }
        }
    }
}

/// Returns the text of a turn, borrowed if it is in one piece.
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

fn tool_call_body(part: &Part) -> Option<ToolCallBody<'_>> {
    let Part::Call(call) = part else { return None };
    let arguments = input_object(call).to_string();
    Some(ToolCallBody {
        id: call.id,
        r#type: "function",
        function: FunctionBody { name: tool_name(&call.name), arguments },
    })
}

fn result_text(result: &ToolResult) -> String {
    // The API has no field for a failure, so the text has to contain it.
    let says_so = result.output.get("error").is_some();
    match result.is_error && !says_so {
        true => json!({ "error": result.output }).to_string(),
        false => output_text(result),
    }
}

/// Whether the schema satisfies OpenAI's strict mode: every property required, no others allowed.
/// OpenAI refuses other schemas in strict mode, but still follows them in normal mode.
fn is_strict(schema: &Value) -> bool {
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
    (!is_object || closed) && inner.chain(choices).chain(fields.get("items")).all(is_strict)
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
            is_strict(&schema)
        };
        assert!(closed(json!({})));
        assert!(closed(json!({ "properties": { "a": { "type": "array", "items": { "type": "string" } } } })));
        assert!(!closed(json!({ "required": [] })));
        assert!(!closed(json!({ "additionalProperties": true })));
        assert!(!closed(json!({ "properties": { "a": { "type": "object" } } })));
        assert!(!closed(json!({ "allOf": [] })));
    }
}
