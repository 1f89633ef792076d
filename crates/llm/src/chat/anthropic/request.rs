//! Converts a conversation to the format of `/v1/messages`.

use emergent_domain::chat::{Part, Speaker, Turn};
use serde_json::{Value, json};

use super::super::{
    ChatRequest, output_schema,
    wire::{input_object, output_text, tool_name},
};

/// The API requires a limit; every model supports this one.
const MAX_TOKENS: u32 = 8192;

pub fn body(request: &ChatRequest<'_>) -> Value {
    let mut messages = messages(request.turns);
    // Each request of a run repeats the previous one and appends to it. With cache marks after the tools,
    // the system prompt and the newest message (three of the four allowed), the provider processes only the
    // new part.
    let newest = messages.iter_mut().rfind(|message| message["role"] == "user");
    if let Some(block) = newest.and_then(|message| message["content"].as_array_mut()?.last_mut()) {
        mark_cache_point(block);
    }
    let mut body = json!({
        "model": request.model,
        "max_tokens": request.max_tokens.unwrap_or(MAX_TOKENS),
        "messages": messages,
        "stream": true,
    });
    if !request.system.trim().is_empty() {
        let mut block = json!({ "type": "text", "text": request.system });
        mark_cache_point(&mut block);
        body["system"] = json!([block]);
    }
    let mut tools: Vec<Value> = request
        .tools
        .iter()
        .map(|tool| {
            json!({ "name": tool_name(&tool.name), "description": &*tool.description, "input_schema": tool.input_schema.as_value() })
        })
        .collect();
    if let Some(last) = tools.last_mut() {
        mark_cache_point(last);
        body["tools"] = json!(tools);
    }
    if let Some(temperature) = request.temperature {
        body["temperature"] = json!(temperature);
    }
    if let Some(schema) = output_schema::for_anthropic(request) {
        body["output_config"] = json!({ "format": { "type": "json_schema", "schema": schema } });
    }
    body
}

fn mark_cache_point(block: &mut Value) {
    block["cache_control"] = json!({ "type": "ephemeral" });
}

/// The API has only two roles: tool results and user text in between form one message, with the results
/// first, as the provider requires.
fn messages(turns: &[Turn]) -> Vec<Value> {
    let mut messages: Vec<(&str, Vec<Value>)> = vec![];
    for turn in turns {
        let role = match turn.speaker {
            Speaker::User | Speaker::Tools => "user",
            Speaker::Assistant => "assistant",
        };
        let blocks: Vec<Value> = turn.parts.iter().filter_map(block).collect();
        match messages.last_mut() {
            // The provider refuses an empty message.
            _ if blocks.is_empty() => {}
            Some((last, content)) if *last == role => content.extend(blocks),
            _ => messages.push((role, blocks)),
        }
    }
    let message = |(role, mut content): (&str, Vec<Value>)| {
        if role == "user" {
            content.sort_by_key(|block| block["type"] != "tool_result");
        }
        json!({ "role": role, "content": content })
    };
    messages.into_iter().map(message).collect()
}

fn block(part: &Part) -> Option<Value> {
    Some(match part {
        // The provider refuses blank text, although its models write it.
        Part::Text { text, .. } if text.trim().is_empty() => return None,
        Part::Text { text, .. } => json!({ "type": "text", "text": text }),
        Part::Thought { text, provider } => return thought(text, provider.as_ref()?),
        Part::Call(call) => {
            json!({ "type": "tool_use", "id": call.id, "name": tool_name(&call.name), "input": input_object(call) })
        }
        Part::Result(result) => json!({
            "type": "tool_result", "tool_use_id": result.id,
            "content": output_text(result), "is_error": result.is_error,
        }),
    })
}

/// A thought is sent back unchanged with its signature, or not at all: a thought of another provider
/// has no valid signature.
fn thought(text: &str, provider: &Value) -> Option<Value> {
    match provider["type"].as_str()? {
        "thinking" => {
            Some(json!({ "type": "thinking", "thinking": text, "signature": provider["signature"] }))
        }
        "redacted_thinking" => Some(provider.clone()),
        _ => None,
    }
}
