//! Attacks on the real binary. Each test does what an attacker with the smallest sufficient token would
//! do, and shows that it fails, and that others are served meanwhile. `make attack` runs them alone.

#[path = "../common/mod.rs"]
mod common;

mod access;
mod bulk_writes;
mod bystander;
mod connections;
mod consent;
mod damaged_pages;
mod deletion;
mod dry_runs;
mod exports;
mod fairness;
mod internal_agents;
mod json_values;
mod large_results;
mod listener;
mod mcp_names;
mod parallel_results;
mod programs;
mod reads;
mod reserved_keys;
mod reverts;
mod revocation;
mod schemas;
mod stored_schemas;
mod triggers;
mod unfinished_bodies;
mod unread_answers;
mod unread_streams;
mod writes;

use common::{Api, Home, Server};
use serde_json::{Value, json};

/// A token of a new project with these scopes.
async fn project_token(server: &Server, project: &str, scopes: &[&str]) -> Api {
    let created = server.api.post("/api/projects", &json!({ "name": project })).await;
    let project = created.data()["id"].as_str().expect("an id").to_owned();
    let body = json!({ "name": "attacker", "scopes": scopes, "project": project });
    let token =
        server.api.post("/api/tokens", &body).await.data()["token"].as_str().expect("a token").to_owned();
    Api::new(server.url(), &token)
}

fn stdio_server(command: &str, args: &[&str]) -> Value {
    json!({ "name": "helper", "transport": "stdio", "command": command, "args": args })
}

/// Models that answer at once (`quick`), after minutes (`slow`), and that call a tool that waits (`waits`).
fn with_slow_model(home: Home) -> Home {
    let scripts = home.data().join("rehearsals");
    std::fs::create_dir_all(&scripts).expect("a folder");
    for (name, rule) in [
        ("quick", "{ answer: { text: Done. } }"),
        ("slow", "{ answer: { text: Done. }, delay_ms: 200000 }"),
        ("waits", "{ answer: { calls: [{ tool: wait, input: {} }] } }"),
    ] {
        let script = format!("rules:\n  - {rule}\n");
        std::fs::write(scripts.join(format!("{name}.yaml")), script).expect("a script");
    }
    home
}

/// Creates an agent with one of the models of [`with_slow_model`], and returns its path.
async fn create_agent(api: &Api, model: &str, tools: &[&str]) -> String {
    let body = json!({ "name": model, "model": { "provider": "rehearsal", "name": model }, "tools": tools });
    let created = api.post("/api/admin/agents", &body).await.data();
    format!("/api/admin/agents/{}", created["id"].as_str().expect("an id"))
}

/// Starts a run of an agent, and returns its id.
async fn start_run(api: &Api, agent: &str) -> String {
    let started = api.post(&format!("{agent}/trigger"), &json!({ "input": "Go." })).await.data();
    started["runId"].as_str().expect("an id").to_owned()
}
