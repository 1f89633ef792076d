//! Attacks on the real binary. Each test does what an attacker with the smallest sufficient token would
//! do, and shows that it fails, and that others are served meanwhile. `make attack` runs them alone.

#[path = "../common/mod.rs"]
mod common;

mod connections;
mod consent;
mod listener;
mod programs;

use common::{Api, Server};
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
