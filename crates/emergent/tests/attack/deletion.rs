//! A project is deleted while it is at work: its run, its program and its streams end, and its secret is gone.

use std::time::Duration;

use emergent_testkit::ShellMcpServer;
use reqwest::Method;
use serde_json::json;

use crate::{
    common::{Home, eventually},
    create_agent, project_token, start_run, stdio_server, with_slow_model,
};

/// How long anything of a deleted project may go on.
const PATIENCE: Duration = Duration::from_secs(8);
const SCOPES: &[&str] = &[
    "agents:read",
    "agents:write",
    "admin:read",
    "admin:write",
    "graph:read",
    "graph:write",
    "agents:invoke",
];

/// A server of one tool that takes long, and that stays when its input ends.
fn program() -> String {
    ShellMcpServer::with_tool("wait", "Waits.").on_call("sleep 100").at_end("sleep 1000").script()
}

/// How many processes have this text in their command line.
fn processes(tag: &str) -> usize {
    let all = std::fs::read_dir("/proc").expect("processes").flatten();
    let lines = all.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    lines.filter(|line| String::from_utf8_lossy(line).contains(tag)).count()
}

async fn everything_of_a_deleted_project_ends(home: Home, tag: &str) {
    let home = with_slow_model(home);
    let server = home.start().await;
    let owner = project_token(&server, "doomed", SCOPES).await;
    let operator = server.api.in_project("doomed");
    operator.put("/api/admin/secrets/KEY", &json!({ "value": "a secret of the project" })).await.data();
    let program = stdio_server("sh", &["-c", &program(), tag]);
    let id =
        operator.post("/api/admin/mcp-servers", &program).await.data()["id"].as_str().unwrap().to_owned();
    operator.post(&format!("/api/admin/mcp-servers/{id}/inspect"), &json!({})).await.data();
    let agent = create_agent(&owner, "waits", &["helper.*"]).await;
    let run = start_run(&owner, &agent).await;
    eventually("the program runs", PATIENCE, async || processes(tag) > 0).await;

    // Streams of the project's own token and of the operator's.
    let mut streams = Vec::new();
    for api in [&owner, &operator] {
        for path in [format!("{agent}/runs/{run}/events"), "/api/graph/changes".to_owned()] {
            let opened = api.request(Method::GET, &path).send().await.expect("a stream");
            assert_eq!(opened.status(), 200, "{path}");
            streams.push(opened);
        }
    }
    let project = owner.get("/api/projects").await.data()[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(server.api.delete(&format!("/api/projects/{project}")).await.status, 200);

    assert_eq!(owner.get("/api/graph/objects").await.status, 401);
    for stream in streams {
        let ended = tokio::time::timeout(PATIENCE, stream.bytes()).await;
        assert!(ended.is_ok(), "a stream of a deleted project goes on");
    }
    eventually("the program ends", PATIENCE, async || processes(tag) == 0).await;
    let running = async || {
        let metrics = server.api.get("/metrics").await.body;
        metrics.as_str().unwrap_or_default().lines().any(|line| line == "emergent_runs_running 0")
    };
    eventually("the run ends", PATIENCE, running).await;
    // The name is free again, and nothing of the old project shows.
    server.api.post("/api/projects", &json!({ "name": "doomed" })).await.data();
    assert_eq!(operator.get("/api/admin/secrets").await.data(), json!([]));
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_projects_run_program_and_streams_end() {
    everything_of_a_deleted_project_ends(Home::sqlite(), "attack-deletion-sqlite").await;
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_projects_run_program_and_streams_end_on_postgres() {
    everything_of_a_deleted_project_ends(Home::postgres().await, "attack-deletion-postgres").await;
}

async fn rename_a_project(home: Home) {
    let server = home.start().await;
    let curious = project_token(&server, "curious", SCOPES).await;
    project_token(&server, "hidden", SCOPES).await;
    let project = curious.get("/api/projects").await.data()[0]["id"].as_str().unwrap().to_owned();
    let rename = async |name: &str| {
        let refused = curious.patch(&format!("/api/projects/{project}"), &json!({ "name": name })).await;
        (refused.status, refused.body["error"]["message"].clone())
    };
    let (taken, free) = (rename("hidden").await, rename("no-such-project").await);
    assert_eq!(taken.0, 403);
    assert_eq!(taken, free, "both names are refused alike");
    let kept =
        curious.patch(&format!("/api/projects/{project}"), &json!({ "retention": { "runsDays": 90 } })).await;
    assert_eq!(kept.data()["retention"]["runsDays"], json!(90));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn renaming_a_project_does_not_reveal_others() {
    rename_a_project(Home::sqlite()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn renaming_a_project_does_not_reveal_others_on_postgres() {
    rename_a_project(Home::postgres().await).await;
}
