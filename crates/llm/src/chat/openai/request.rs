//! A conversation in the words of `/v1/chat/completions`.

use emergent_domain::chat::{Call, CallResult, Part, Speaker, Turn};
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

pub fn body(request: &ChatRequest<'_>, limit: TokenLimit) -> Value {
    let mut messages = vec![];
    if !request.system.is_empty() {
        messages.push(json!({ "role": "system", "content": request.system }));
    }
    request.turns.iter().for_each(|turn| push(&mut messages, turn));

    let mut body = json!({
        "model": request.model,
        "messages": messages,
        "stream": true,
        "stream_options": { "include_usage": true },
    });
    if !request.tools.is_empty() {
        let function = |tool: &ToolSpec| json!({ "name": tool.name, "description": tool.description, "parameters": tool.input_schema });
        let tools =
            request.tools.iter().map(|tool| json!({ "type": "function", "function": function(tool) }));
        body["tools"] = tools.collect();
    }
    if let Some(temperature) = request.temperature {
        body["temperature"] = json!(temperature);
    }
    if let Some(max) = request.max_tokens {
        let name = match limit {
            TokenLimit::MaxCompletionTokens => "max_completion_tokens",
            TokenLimit::MaxTokens => "max_tokens",
        };
        body[name] = json!(max);
    }
    if let Some(schema) = request.output_schema {
        let strict = schema["type"] == "object" && strict(schema);
        body["response_format"] = json!({
            "type": "json_schema",
            "json_schema": { "name": "answer", "schema": schema, "strict": strict },
        });
    }
    body
}

fn push(messages: &mut Vec<Value>, turn: &Turn) {
    let text = turn.text();
    match turn.speaker {
        Speaker::User => messages.push(json!({ "role": "user", "content": text })),
        Speaker::Tools => messages.extend(turn.parts.iter().filter_map(|part| match part {
            Part::Result(result) => Some(tool_message(result)),
            _ => None,
        })),
        Speaker::Assistant => {
            // Thoughts stay behind: servers that give them do not want them back.
            let calls: Vec<Value> = turn
                .parts
                .iter()
                .filter_map(|part| match part {
                    Part::Call(call) => Some(tool_call(call)),
                    _ => None,
                })
                .collect();
            let content = if text.is_empty() { Value::Null } else { Value::String(text) };
            // A message with nothing in it is refused.
            match (calls.is_empty(), content.is_null()) {
                (true, true) => {}
                (true, false) => messages.push(json!({ "role": "assistant", "content": content })),
                (false, _) => {
                    messages.push(json!({ "role": "assistant", "content": content, "tool_calls": calls }))
                }
            }
        }
    }
}

fn tool_call(call: &Call) -> Value {
    let arguments = sent_input(call).to_string();
    json!({ "id": call.id, "type": "function", "function": { "name": call.name, "arguments": arguments } })
}

fn tool_message(result: &CallResult) -> Value {
    // There is no field that marks a failure, so the text has to say it.
    let says_so = result.output.get("error").is_some();
    let content = match result.is_error && !says_so {
        true => json!({ "error": result.output }).to_string(),
        false => output_text(result),
    };
    json!({ "role": "tool", "tool_call_id": result.id, "content": content })
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
