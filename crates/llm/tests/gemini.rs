//! The provider `google` against a local server with Gemini's wire format.

#[path = "gemini/answers.rs"]
mod answers;
#[path = "gemini/errors.rs"]
mod errors;
mod google;
#[path = "gemini/requests.rs"]
mod requests;

use emergent_domain::chat::Turn;
use emergent_llm::{Answer, ChatRequest, ChatSettings, Delta, Error, Gemini, Provider, RequestMeta};
use google::{Google, Reply, events, stream};
use serde_json::{Value, json};

fn gemini(google: &Google) -> Gemini {
    let settings = ChatSettings {
        base_url: Some(google.url.clone()),
        api_key: Some("key-1".into()),
        ..Default::default()
    };
    Gemini::google(&settings).unwrap()
}

fn request(turns: &[Turn]) -> ChatRequest<'_> {
    ChatRequest {
        model: "gemini-2.5-flash",
        system: "",
        turns,
        tools: &[],
        temperature: None,
        max_tokens: None,
        output_schema: None,
        cache: None,
        meta: RequestMeta::default(),
    }
}

/// Sends a greeting and returns the result of this reply.
async fn hears(reply: Reply) -> (Result<Answer, Error>, Vec<Delta>) {
    let google = Google::replying([reply]).await;
    let mut deltas = vec![];
    let turns = [Turn::user("Hello")];
    let result = gemini(&google).chat(request(&turns), &mut |delta| deltas.push(delta)).await;
    (result, deltas)
}

/// Returns the answer to an event stream of these chunks.
async fn answer(chunks: &[Value]) -> Result<Answer, Error> {
    hears(stream(&events(chunks, "\r\n\r\n"), 1 << 20)).await.0
}

/// A chunk with these parts.
fn parts(parts: Value) -> Value {
    json!({ "candidates": [{ "content": { "role": "model", "parts": parts }, "index": 0 }] })
}

fn finish(reason: &str) -> Value {
    json!({ "candidates": [{ "content": { "parts": [{ "text": "" }], "role": "model" }, "finishReason": reason }] })
}
