//! Agents with external visibility, called as tools.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use emergent_api::AppOptions;
use emergent_domain::{prompt::Prompt, token::Scope};
use emergent_store::Tx;
use emergent_testkit::{
    TestDb, both_engines,
    scripted::{ScriptedModel, calls, says},
};
use futures_util::StreamExt;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::mcp::{
    common::{Client, Server},
    names,
    peer::Peer,
};

const LONG: Duration = Duration::from_secs(600);

async fn server(db: &TestDb, model: &ScriptedModel) -> (Server, watch::Sender<bool>) {
    let server = Server::with_models(db, 1_024, model.models()).await;
    let runner = server.drive();
    (server, runner)
}

/// Waits until the only run has this status.
async fn becomes(client: &Client, status: &str) -> Value {
    for _ in 0..500 {
        let runs = client.get("/api/admin/runs").await;
        if runs.is(200)[0]["status"] == status {
            return runs.body["data"][0].clone();
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("the run is not {status}: {}", client.get("/api/admin/runs").await.text);
}

both_engines! {
    async fn a_call_over_mcp_counts_for_the_rate_limit_of_the_agent(db: TestDb) {
        let model = ScriptedModel::always(|_| says("Here."));
        let options = AppOptions { invoke_rate: 2, ..AppOptions::default() };
        let server = Server::with_options(&db, model.models(), options).await;
        let _runner = server.drive();
        let admin = server.admin();
        admin.agent("finder", json!({ "visibility": "external" })).await;
        let peer = Peer::modern(admin.clone());
        for _ in 0..2 {
            let answer = peer.call("agent_finder", json!({ "input": "Go." })).await;
            assert_ne!(answer["isError"], true, "{answer}");
        }
        let refused = peer.call("agent_finder", json!({ "input": "Go." })).await;
        assert_eq!(refused["isError"], true, "{refused}");
        assert!(refused["content"][0]["text"].as_str().unwrap().contains("EMERGENT_INVOKE_RATE"), "{refused}");
        assert_eq!(admin.get("/api/admin/runs").await.is(200).as_array().unwrap().len(), 2);
    }

    async fn only_an_external_agent_is_a_tool_and_it_answers_with_what_it_came_to(db: TestDb) {
        let model = ScriptedModel::new([calls("project_info", json!({})), says("Three patterns fit.")]);
        let (server, _runner) = server(&db, &model).await;
        let admin = server.admin();
        admin.agent("researcher", json!({ "visibility": "external", "description": "Researches.", "tools": ["project_info"] })).await;
        admin.agent("worker", json!({ "visibility": "project" })).await;
        admin.agent("helper", json!({ "visibility": "internal" })).await;
        let peer = Peer::modern(admin.clone());
        let tools = peer.asks("tools/list", json!({})).await;
        let agents: Vec<_> = names(&tools).into_iter().filter(|name| name.starts_with("agent_")).collect();
        assert_eq!(agents, ["agent_researcher"]);

        let params = json!({ "name": "agent_researcher", "arguments": { "input": "Look." }, "_meta": { "progressToken": "p" } });
        let answer = peer.send("tools/call", params).await;
        assert_eq!(answer.headers["content-type"], "text/event-stream");
        let frames: Vec<Value> =
            answer.text.lines().filter_map(|line| line.strip_prefix("data: ")).map(|text| serde_json::from_str(text).unwrap()).collect();
        let (last, before) = frames.split_last().unwrap();
        assert_eq!(last["result"]["content"][0]["text"], "Three patterns fit.", "{last}");
        assert_eq!(last["result"]["structuredContent"]["status"], "completed");
        let progress: Vec<_> = before.iter().map(|frame| frame["params"]["progress"].as_f64().unwrap()).collect();
        assert!(progress.len() >= 2 && progress.is_sorted(), "{before:?}");
        assert!(before.iter().all(|frame| frame["params"]["progressToken"] == "p"));
        assert!(before.iter().any(|frame| frame["params"]["message"].as_str().unwrap().contains("project_info")), "{before:?}");
        assert_eq!(becomes(&admin, "completed").await["origin"], "invoke");

        let wrong = peer.call("agent_researcher", json!({ "inputs": "x" })).await;
        assert_eq!(wrong["isError"], true, "{wrong}");
        let reader = server.client(Some(&server.token(&[Scope::GraphRead], None).await));
        let refused = Peer::modern(reader).send("tools/call", json!({ "name": "agent_researcher", "arguments": { "input": "x" } })).await;
        assert_eq!(refused.status, 403, "{}", refused.text);
        assert_eq!(admin.get("/api/admin/runs").await.is(200).as_array().unwrap().len(), 1, "nothing else was started");
    }

    async fn a_call_that_is_dropped_cancels_its_run(db: TestDb) {
        let (server, _runner) = server(&db, &ScriptedModel::new([says("Never.").with_delay(LONG)])).await;
        let admin = server.admin();
        admin.agent("slow", json!({ "visibility": "external" })).await;
        let peer = Peer::modern(admin.clone());
        let params = json!({ "name": "agent_slow", "arguments": { "input": "Go." }, "_meta": { "progressToken": 1 } });
        let mut frames = peer.open("tools/call", params).await.into_body().into_data_stream();
        let first = frames.next().await.unwrap().unwrap();
        assert!(String::from_utf8_lossy(&first).contains("notifications/progress"));
        becomes(&admin, "running").await;
        drop(frames);
        becomes(&admin, "cancelled").await;
    }

    async fn a_call_that_is_taken_back_cancels_its_run(db: TestDb) {
        let (server, _runner) = server(&db, &ScriptedModel::new([says("Never.").with_delay(LONG)])).await;
        let admin = server.admin();
        admin.agent("slow", json!({ "visibility": "external" })).await;
        let peer = Peer::legacy(admin.clone()).await;
        let call = peer.send("tools/call", json!({ "name": "agent_slow", "arguments": { "input": "Go." } }));
        let take_back = async {
            becomes(&admin, "running").await;
            peer.tell("notifications/cancelled", json!({ "requestId": 1 })).await;
        };
        let (answer, ()) = tokio::join!(call, take_back);
        assert_eq!((answer.status.as_u16(), answer.text.as_str()), (202, ""), "nothing is answered to it");
        becomes(&admin, "cancelled").await;
    }

    async fn listeners_hear_of_a_new_tool_and_a_new_prompt(db: TestDb) {
        let (server, _runner) = server(&db, &ScriptedModel::new([])).await;
        let admin = server.admin();
        let peer = Peer::modern(admin.clone());
        let wanted = json!({ "notifications": { "toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true } });
        let mut frames = peer.open("subscriptions/listen", wanted).await.into_body().into_data_stream();
        let first = String::from_utf8_lossy(&frames.next().await.unwrap().unwrap()).into_owned();
        assert!(first.contains("acknowledged") && first.contains("toolsListChanged"), "{first}");
        assert!(!first.contains("resourcesListChanged"), "what is not told is not promised: {first}");
        let prompt: Prompt = serde_json::from_value(json!({
            "name": "ask", "messages": [{ "role": "user", "content": "What is known?" }],
        })).unwrap();
        let project = server.default_project;
        let change = async {
            tokio::time::sleep(Duration::from_millis(500)).await;
            admin.agent("new", json!({ "visibility": "external" })).await;
            let work = move |tx: &mut Tx<'_>| emergent_store::prompts::upsert_for_product(tx, project, "p", &prompt);
            server.graph.db().write(work).await.unwrap();
        };
        let both = async {
            let mut heard = String::new();
            while !["tools", "prompts"].iter().all(|one| heard.contains(&format!("notifications/{one}/list_changed"))) {
                heard += &String::from_utf8_lossy(&frames.next().await.unwrap().unwrap());
            }
        };
        let (heard, ()) = tokio::join!(tokio::time::timeout(Duration::from_secs(20), both), change);
        heard.expect("both are told");
    }
}

/// SQLite runs one write transaction at a time, so the admission of a run can be delayed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_goes_away_while_its_run_is_written_down_cancels_it() {
    let db = TestDb::sqlite().await;
    let server = Server::with_models(&db, 1_024, ScriptedModel::new([]).models()).await;
    let admin = server.admin();
    admin.agent("slow", json!({ "visibility": "external" })).await;
    let peer = Peer::modern(admin.clone());
    peer.asks("tools/list", json!({})).await;

    let go_on = Arc::new(AtomicBool::new(false));
    let (held, graph) = (Arc::clone(&go_on), server.graph.clone());
    let other = tokio::spawn(async move {
        let work = move |_: &mut Tx<'_>| {
            while !held.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(5));
            }
            Ok::<_, emergent_store::Error>(())
        };
        graph.db().write(work).await
    });
    tokio::time::sleep(Duration::from_millis(50)).await;
    let call = peer.send("tools/call", json!({ "name": "agent_slow", "arguments": { "input": "Go." } }));
    assert!(tokio::time::timeout(Duration::from_millis(500), call).await.is_err(), "it waits");
    go_on.store(true, Ordering::Relaxed);
    other.await.unwrap().unwrap();
    becomes(&admin, "cancelled").await;
}
