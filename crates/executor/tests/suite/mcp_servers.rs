//! Agents that use the tools of external MCP servers: the reference servers from npm, over all their
//! transports.

use crate::support;

use std::{path::PathBuf, process::Stdio, time::Duration};

use emergent_domain::{
    approval::{Approval, Choice, NewDecision},
    cursor::Page,
    ids::{ProjectId, TokenId},
    mcp_server::{ConfiguredBy, ServerSpec},
    redact::Redactor,
    run::RunStatus,
    time::Clock,
};
use emergent_executor::approvals::ApprovalFilter;
use emergent_secrets::{KeySource, Secrets};
use emergent_testkit::{
    TestDb, both_engines,
    scripted::{ScriptedModel, calls, says},
};
use emergent_tools::remote::{McpServers, NewServer, RemoteSettings};
use serde_json::{Value, json};
use support::{Harness, HarnessOptions, assert_ended, with_tools};
use tokio::process::{Child, Command};

fn program(name: &str) -> String {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/mcp-peers");
    let made =
        std::process::Command::new(script).stderr(Stdio::inherit()).output().expect("scripts/mcp-peers");
    assert!(made.status.success(), "the reference servers could not be installed: see above");
    let folder = PathBuf::from(String::from_utf8(made.stdout).unwrap().trim());
    folder.join("node_modules/.bin").join(name).to_str().unwrap().to_owned()
}

async fn servers(db: &TestDb, folder: &tempfile::TempDir) -> McpServers {
    let keys = KeySource::from_file(folder.path().join("secret-key"));
    let secrets = Secrets::open(db.db.clone(), Clock::system(), keys, Redactor::default()).await.unwrap();
    let settings = RemoteSettings { allow_private_hosts: true, ..RemoteSettings::default() };
    McpServers::new(db.db.clone(), Clock::system(), secrets, settings)
}

async fn add(servers: &McpServers, project: ProjectId, spec: Value) {
    let spec: ServerSpec = serde_json::from_value(spec).unwrap();
    servers.create(project, ConfiguredBy::Operator, NewServer::new(spec)).await.unwrap();
}

/// Waits until a call is held. Starting the servers takes long on a busy machine.
async fn first_request(harness: &Harness) -> Approval {
    for _ in 0..3_000 {
        let (filter, page) = (ApprovalFilter::default(), Page::first(10));
        let listed = harness.executor.list_approvals(harness.project, filter, page).await.unwrap();
        if let Some(request) = listed.items.into_iter().next() {
            return request;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("no call is held");
}

/// Starts the reference server on a free port.
async fn listening(transport: &str) -> (Child, u16) {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut command = Command::new(program("mcp-server-everything"));
    command.arg(transport).env("PORT", port.to_string()).stdin(Stdio::null()).kill_on_drop(true);
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    for _ in 0..400 {
        if tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_ok() {
            return (child, port);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the reference server does not listen");
}

both_engines! {
    async fn an_agent_uses_the_reference_servers_over_every_transport(db: TestDb) {
        let folder = tempfile::tempdir().unwrap();
        let files = folder.path().join("files");
        std::fs::create_dir(&files).unwrap();
        let files = files.canonicalize().unwrap();
        let model = ScriptedModel::new([
            calls("one.echo", json!({ "message": "over stdio" })),
            calls("two.echo", json!({ "message": "over http" })),
            calls("three.echo", json!({ "message": "over sse" })),
            calls("write_file", json!({ "path": files.join("a.txt"), "content": "kept" }))
                .and(calls("read_graph", json!({}))),
            calls("two.get-sum", json!({ "a": "not a number", "b": 1 })),
            says("Done."),
        ]);
        let servers = servers(&db, &folder).await;
        let harness = Harness::with(&db, HarnessOptions { remote: Some(servers.clone()), ..HarnessOptions::new(model) }).await;
        let project = harness.project;
        let (_http, http) = listening("streamableHttp").await;
        let (_sse, sse) = listening("sse").await;
        add(&servers, project, json!({ "name": "one", "transport": "stdio",
            "command": program("mcp-server-everything"), "args": ["stdio"] })).await;
        add(&servers, project, json!({ "name": "two", "transport": "http",
            "url": format!("http://127.0.0.1:{http}/mcp") })).await;
        add(&servers, project, json!({ "name": "three", "transport": "sse",
            "url": format!("http://127.0.0.1:{sse}/sse") })).await;
        add(&servers, project, json!({ "name": "memory", "transport": "stdio",
            "command": program("mcp-server-memory"),
            "env": { "MEMORY_FILE_PATH": folder.path().join("memory.jsonl") } })).await;
        add(&servers, project, json!({ "name": "files", "transport": "stdio",
            "command": program("mcp-server-filesystem"), "args": [files] })).await;

        // The agent is saved before the tools of the servers are known.
        let worker = harness.agent(with_tools("worker", &["*.echo", "two.get-sum", "files.*", "read_graph"])).await;
        let run = harness.start(&worker, "Go.").await;
        // The server marks this tool as destructive, so a person has to approve the call.
        let held = first_request(&harness).await;
        assert_eq!(held.tool, "write_file");
        assert!(!files.join("a.txt").exists());
        let approve =
            NewDecision { choice: Choice::Approve, edited_input: None, answer: None, reason: None, digest: None };
        harness.executor.decide_approval(project, held.id, approve, TokenId::new()).await.unwrap();
        let run = harness.ended(run.id).await;
        assert_ended(&run, RunStatus::Completed, None);
        let answers = harness.answers(run.id).await;
        assert_eq!(answers[0], "Echo: over stdio");
        assert_eq!(answers[1], "Echo: over http");
        assert_eq!(answers[2], "Echo: over sse");
        assert_eq!(std::fs::read_to_string(files.join("a.txt")).unwrap(), "kept");
        let said = answers[5]["error"].as_str().unwrap_or_default();
        assert!(said.contains("two.get-sum") || said.contains("get-sum"), "{said}");
        assert_eq!(servers.open_connections(), 5, "one connection each");
        // From now on the tools are known, and a misspelt one is refused.
        let misspelt = with_tools("other", &["two.ecko"]);
        assert!(harness.executor.create_agent(harness.actor(), misspelt).await.is_err());
        harness.close().await;
        servers.shutdown().await;
        assert_eq!(servers.open_connections(), 0);
    }
}
