//! Tasks of a workflow that agents of another system do, made with the Python SDK of A2A, while the server is killed.

use std::time::Duration;

use emergent_testkit::A2aAgents;
use serde_json::{Value, json};

use crate::{
    clients::{create_agent, with_script},
    common::{Home, Server, command_output, eventually},
};

/// A server that was killed is replaced when its lease has expired.
const PATIENCE: Duration = Duration::from_secs(60);

const SCRIPT: &str = r#"
rules:
  - when: { tool_result: slow_agent }
    answer: { text: "I was told: {{result}}" }
  - when: {}
    answer:
      calls: [{ tool: slow_agent, input: { message: Take your time. } }]
"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_neither_loses_nor_repeats_the_message_to_a_remote_agent_on_sqlite() {
    check(Home::sqlite()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_neither_loses_nor_repeats_the_message_to_a_remote_agent_on_postgres() {
    check(Home::postgres().await).await;
}

/// One task is done by a remote agent before the kill. Two are at work in the other system during it: one is a run of a
/// remote agent, and one a run of a model that called the remote agent as a tool.
async fn check(home: Home) {
    let agents = A2aAgents::start();
    let home = with_script(home.with("EMERGENT_ALLOW_PRIVATE_HOSTS", "true"), "clerk", SCRIPT);
    let server = home.start().await;
    for name in ["echo", "slow"] {
        let spec = json!({ "name": name, "transport": "a2a", "url": agents.url(name) });
        std::fs::write(home.folder().join("server.json"), spec.to_string()).expect("a file");
        command_output(home.run(&["mcp-server", "add", "server.json"]));
    }
    for (name, provider, model, tools) in [
        ("writer", "a2a", "echo", json!([])),
        ("sleeper", "a2a", "slow", json!([])),
        ("clerk", "rehearsal", "clerk", json!(["slow.*"])),
    ] {
        let agent = json!({ "name": name, "model": { "provider": provider, "name": model }, "tools": tools });
        create_agent(&home, &agent);
    }
    let new_task = |key: &str, agent: &str| json!({ "key": key, "title": key, "assignedAgent": agent });
    let tasks = json!([new_task("write", "writer"), new_task("sleep", "sleeper"), new_task("ask", "clerk")]);
    let started = server.api.post("/api/coordination/dispatch", &json!({ "tasks": tasks })).await.data();
    let workflow = started["workflowId"].as_str().expect("an id").to_owned();
    eventually("one task is done and two are at work", PATIENCE, async || {
        let shown = shown(&server, &workflow).await;
        seen(&agents).await.len() == 3 && task(&shown, "write")["status"] == "completed"
    })
    .await;
    server.kill();

    let server = home.start().await;
    eventually("the workflow asks a person", PATIENCE, async || {
        let shown = shown(&server, &workflow).await;
        shown["status"] == "escalated" && task(&shown, "ask")["status"] == "completed"
    })
    .await;
    let shown = shown(&server, &workflow).await;
    for (key, status) in [("write", "completed"), ("sleep", "failed"), ("ask", "completed")] {
        let task = task(&shown, key);
        assert_eq!(
            (&task["status"], &task["attempts"]),
            (&json!(status), &json!(1)),
            "no attempt is repeated: {task}"
        );
    }

    let results = server.api.get("/api/admin/runs").await.data();
    let run = |agent: &str| {
        let runs = results.as_array().expect("runs");
        runs.iter()
            .find(|run| run["agentName"] == agent)
            .unwrap_or_else(|| panic!("{agent}: {results}"))
            .clone()
    };
    let written = run("writer")["summary"].to_string();
    assert!(written.contains("You said:"), "{written}");
    let interrupted = run("sleeper");
    assert_eq!(interrupted["reason"], "unknown_outcome", "{interrupted}");
    let error = interrupted["errorMessage"].to_string();
    assert!(error.contains("Whether it took effect is not known"), "{error}");
    let told = run("clerk")["summary"].to_string();
    assert!(told.contains("Whether it took effect is not known"), "{told}");

    // Nothing was sent twice, and what is sent by a person's decision is another message.
    let ids = seen(&agents).await;
    assert_eq!(ids.len(), 3, "{ids:?}");
    let sleep = task(&shown, "sleep")["id"].as_str().expect("an id");
    server.api.post(&format!("/api/coordination/tasks/{sleep}/retry"), &json!({})).await.data();
    eventually("the task is tried again", PATIENCE, async || seen(&agents).await.len() == 4).await;
    let mut ids = seen(&agents).await;
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 4, "{ids:?}");
    server.api.post(&format!("/api/coordination/workflows/{workflow}/cancel"), &json!({})).await.data();
}

async fn shown(server: &Server, workflow: &str) -> Value {
    server.api.get(&format!("/api/coordination/workflows/{workflow}")).await.data()
}

#[track_caller]
fn task<'a>(shown: &'a Value, key: &str) -> &'a Value {
    let tasks = shown["tasks"].as_array().expect("tasks");
    tasks.iter().find(|task| task["key"] == key).unwrap_or_else(|| panic!("{key}: {shown}"))
}

/// The ids of the messages that the agents got.
async fn seen(agents: &A2aAgents) -> Vec<String> {
    let text =
        reqwest::get(agents.url("seen")).await.expect("the agents answer").text().await.expect("a text");
    let seen: Vec<Value> = serde_json::from_str(&text).expect("a list");
    seen.iter().map(|message| message["message"].as_str().expect("an id").to_owned()).collect()
}
