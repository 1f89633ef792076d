//! Callers from outside: how many requests for an agent the protocols handle, and what they add to the stream of the
//! model. The model has no latency; the raw column is the model itself, without Emergent, in the same run.

mod throughput;
mod token_delay;

use serde_json::{Value, json};

use crate::{Options, model::Model, report::Report, server::Server};

/// Whether any row about callers from outside is selected: `--only "outside"`, `--only "outside: invoke"`.
pub fn is_selected(report: &Report) -> bool {
    throughput::is_selected(report) || token_delay::is_selected(report)
}

pub fn measure(report: &mut Report, options: &Options) {
    if !is_selected(report) {
        return;
    }
    let model = Model::start(options);
    let engines = [None, options.postgres.as_deref()];
    for postgres in engines.into_iter().take(1 + usize::from(options.postgres.is_some())) {
        let server = start(options, &model, postgres);
        throughput::measure(report, options, &server, &model);
        token_delay::measure(report, options, &server, &model);
    }
}

/// Starts a server whose agents use the model and may be started as often as somebody likes.
fn start(options: &Options, model: &Model, postgres: Option<&str>) -> Server {
    let settings = [
        ("EMERGENT_OPENAI_BASE_URL", format!("http://{}", model.address)),
        ("OPENAI_API_KEY", "none".to_owned()),
        ("EMERGENT_INVOKE_RATE", "100000000".to_owned()),
    ];
    let dir = tempfile::tempdir().expect("a folder");
    Server::start_with(&options.binary, dir, postgres, "off", &settings)
}

/// Creates an external agent that uses a plan of the model, and returns its name.
fn agent(server: &Server, plan: &str) -> String {
    let name = format!("bench-{}", uuid::Uuid::now_v7().simple());
    let body = json!({
        "name": name, "systemPrompt": "Answer.", "model": { "provider": "openai", "name": plan }, "tools": [],
        "visibility": "external", "acp": { "displayName": "Bench", "description": "Answers.", "capabilities": ["chat"] },
    });
    let mut http = server.http();
    let answer: Value =
        serde_json::from_slice(http.post("/api/admin/agents", &body.to_string())).expect("JSON");
    assert!(answer["data"]["id"].is_string(), "{answer}");
    name
}

/// A message of a user, as OpenAI and AG-UI write it.
fn messages() -> Value {
    json!([{ "id": "m1", "role": "user", "content": "What is there to know?" }])
}
