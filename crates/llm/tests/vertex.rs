//! The provider `vertex` against a local server that issues tokens and responds like Gemini.

#[path = "vertex/credentials.rs"]
mod credentials;
mod google;
#[path = "vertex/tokens.rs"]
mod tokens;

use std::path::PathBuf;

use emergent_domain::chat::Turn;
use emergent_llm::{Answer, ChatRequest, ChatSettings, Error, Gemini, Provider, RequestMeta, VertexSettings};
use google::{Google, Reply, events, json, stream};
use serde_json::{Value, json};
use tempfile::TempDir;

/// This key was generated for tests and is not used anywhere else.
const KEY: &str = include_str!("fixtures/service-account-key.pem");

fn hello() -> Reply {
    let chunk =
        json!({ "candidates": [{ "content": { "parts": [{ "text": "Hello." }] }, "finishReason": "STOP" }] });
    stream(&events(&[chunk], "\r\n\r\n"), 1 << 20)
}

fn token(name: &str, seconds: u64) -> Reply {
    json(200, json!({ "access_token": name, "expires_in": seconds, "token_type": "Bearer" }))
}

/// A service account whose tokens come from `google`, in a file that exists as long as the directory.
fn service_account(google: &Google) -> (TempDir, VertexSettings) {
    credentials_file(json!({
        "type": "service_account",
        "project_id": "p-1",
        "private_key_id": "key-id-1",
        "private_key": KEY,
        "client_email": "agent@p-1.iam.gserviceaccount.com",
        "token_uri": format!("{}/token", google.url),
    }))
}

fn credentials_file(content: Value) -> (TempDir, VertexSettings) {
    let dir = tempfile::tempdir().unwrap();
    let file: PathBuf = dir.path().join("credentials.json");
    std::fs::write(&file, content.to_string()).unwrap();
    (dir, VertexSettings { credentials_file: Some(file), ..Default::default() })
}

fn vertex(google: &Google, settings: &VertexSettings) -> Gemini {
    let chat = ChatSettings { base_url: Some(google.url.clone()), ..Default::default() };
    Gemini::vertex(&chat, settings).unwrap()
}

async fn ask(vertex: &Gemini) -> Result<Answer, Error> {
    let turns = [Turn::user("Hello")];
    let request = ChatRequest {
        model: "gemini-2.5-flash",
        system: "",
        turns: &turns,
        tools: &[],
        temperature: None,
        max_tokens: None,
        output_schema: None,
        cache: None,
        meta: RequestMeta::default(),
    };
    vertex.chat(request, &mut |_| {}).await
}

/// Returns the tokens of the model requests in order, and `-` for each token request.
fn bearers(google: &Google) -> Vec<String> {
    let asked = google.asked();
    let bearer = |asked: &google::Asked| {
        asked.header("authorization").map_or("-".into(), |value| value.replace("Bearer ", ""))
    };
    asked.iter().map(bearer).collect()
}
