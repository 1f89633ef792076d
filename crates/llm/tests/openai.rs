//! The providers `openai` and `ollama` against a local server with the same wire format.

#[path = "openai/answers.rs"]
mod answers;
#[path = "support/conversation.rs"]
mod conversation;
#[path = "openai/errors.rs"]
mod errors;
#[path = "openai/requests.rs"]
mod requests;
mod support;

use std::time::Duration;

use conversation::ask;
use emergent_domain::chat::Turn;
use emergent_llm::{Answer, ChatSettings, Delta, Error, OpenAi};
use serde_json::{Value, json};
use support::{Provider, Reply, pieces, streamed};

fn settings(url: &str) -> ChatSettings {
    ChatSettings {
        base_url: Some(url.to_owned()),
        api_key: Some("key-1".into()),
        idle: Some(Duration::from_millis(300)),
    }
}

/// Sends a greeting and returns the result of this reply.
async fn hears(reply: Reply) -> (Result<Answer, Error>, Vec<Delta>) {
    let provider = Provider::replying([reply]).await;
    ask(&OpenAi::new(&settings(&provider.url)).unwrap(), &[Turn::user("Hello")]).await
}

/// Returns the answer to these chunks and the closing mark.
async fn answer(chunks: &[Value]) -> Answer {
    hears(streamed(pieces(&whole(chunks), usize::MAX))).await.0.unwrap()
}

/// Returns the error that this text, instead of a complete stream, produces.
async fn error(text: &str) -> Error {
    hears(streamed(pieces(text, usize::MAX))).await.0.unwrap_err()
}

fn events(chunks: &[Value]) -> String {
    chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).collect()
}

fn whole(chunks: &[Value]) -> String {
    events(chunks) + "data: [DONE]\n\n"
}

/// A complete chunk with this delta.
fn delta(delta: Value) -> Value {
    json!({
        "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "model-1",
        "service_tier": "default", "system_fingerprint": "fp", "obfuscation": "x8f",
        "choices": [{ "index": 0, "delta": delta, "logprobs": null, "finish_reason": null }],
        "usage": null,
    })
}

fn finish(reason: &str) -> Value {
    json!({ "id": "chatcmpl-1", "choices": [{ "index": 0, "delta": {}, "finish_reason": reason }], "usage": null })
}

fn usage(usage: Value) -> Value {
    json!({ "id": "chatcmpl-1", "choices": [], "usage": usage })
}
