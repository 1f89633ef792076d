//! The provider `anthropic` against a local server with the same wire format.

#[path = "anthropic/answers.rs"]
mod answers;
#[path = "support/conversation.rs"]
mod conversation;
#[path = "anthropic/errors.rs"]
mod errors;
#[path = "anthropic/requests.rs"]
mod requests;
mod support;

use std::time::Duration;

use conversation::ask;
use emergent_domain::chat::Turn;
use emergent_llm::{Answer, Anthropic, ChatSettings, Delta, Error};
use serde_json::{Value, json};
use support::{Provider, Reply, pieces, streamed};

fn settings(url: &str) -> ChatSettings {
    ChatSettings {
        base_url: Some(url.to_owned()),
        api_key: Some("key-1".into()),
        idle: Some(Duration::from_millis(300)),
    }
}

fn anthropic(url: &str) -> Anthropic {
    Anthropic::new(&settings(url)).unwrap()
}

/// Sends a greeting and returns the result of this reply.
async fn hears(reply: Reply) -> (Result<Answer, Error>, Vec<Delta>) {
    let provider = Provider::replying([reply]).await;
    ask(&anthropic(&provider.url), &[Turn::user("Hello")]).await
}

/// Returns the answer that a stream of these events produces.
async fn answer(list: &[Value]) -> Result<Answer, Error> {
    hears(streamed(pieces(&events(list), usize::MAX))).await.0
}

/// Each event has the name of its data's type.
fn events(list: &[Value]) -> String {
    list.iter().map(|data| format!("event: {}\ndata: {data}\n\n", data["type"].as_str().unwrap())).collect()
}

/// A message of these blocks, each with a start and its deltas, and the stop reason.
fn message(blocks: &[(Value, &[Value])], stop: &str) -> Vec<Value> {
    let mut list = vec![start()];
    for (index, (block, deltas)) in blocks.iter().enumerate() {
        list.push(json!({ "type": "content_block_start", "index": index, "content_block": block }));
        list.push(json!({ "type": "ping" }));
        let delta = |delta| json!({ "type": "content_block_delta", "index": index, "delta": delta });
        list.extend(deltas.iter().map(delta));
        list.push(json!({ "type": "content_block_stop", "index": index }));
    }
    list.extend(end(stop));
    list
}

fn start() -> Value {
    json!({ "type": "message_start", "message": {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "model-1", "content": [],
        "stop_reason": null, "stop_sequence": null,
        "usage": { "input_tokens": 11, "output_tokens": 1,
            "cache_creation_input_tokens": 200, "cache_read_input_tokens": 3000 },
    } })
}

fn end(stop: &str) -> [Value; 2] {
    let delta = json!({ "stop_reason": stop, "stop_sequence": null });
    [
        json!({ "type": "message_delta", "delta": delta, "usage": { "output_tokens": 42 } }),
        json!({ "type": "message_stop" }),
    ]
}

fn text() -> Value {
    json!({ "type": "text", "text": "" })
}

fn said(text: &str) -> Value {
    json!({ "type": "text_delta", "text": text })
}

fn tool_use(name: &str) -> Value {
    json!({ "type": "tool_use", "id": "toolu_1", "name": name, "input": {} })
}

fn arguments(piece: &str) -> Value {
    json!({ "type": "input_json_delta", "partial_json": piece })
}
