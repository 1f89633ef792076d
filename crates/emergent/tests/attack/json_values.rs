//! Seven bytes of JSON, `{"":0},`, become a map of 700 bytes. One caller sends, or has stored, such texts wherever the
//! server reads JSON: its memory stays bounded, and others are served.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    bystander::Bystander,
    common::{Api, Home, Server},
    project_token, with_slow_model,
};

/// A JSON list of this many small maps.
fn maps(count: usize) -> String {
    format!("[{}]", vec![r#"{"":0}"#; count].join(","))
}

async fn status(request: reqwest::RequestBuilder) -> u16 {
    let mut answer = request.timeout(Duration::from_secs(60)).send().await.expect("an answer");
    while answer.chunk().await.expect("a part of the answer").is_some() {}
    answer.status().as_u16()
}

/// Sends this many requests at once, and returns their status.
async fn at_once(count: usize, request: impl Fn(usize) -> reqwest::RequestBuilder) -> Vec<u16> {
    let requests = (0..count).map(|index| tokio::spawn(status(request(index))));
    let answers = futures_util::future::join_all(requests).await;
    answers.into_iter().map(|answer| answer.expect("the request ends")).collect()
}

/// Creates an external agent with one of the models of [`with_slow_model`].
async fn external_agent(server: &Server, model: &str) {
    let agent = json!({ "name": model, "visibility": "external", "model": { "provider": "rehearsal", "name": model } });
    server.api.in_project("attacker").post("/api/admin/agents", &agent).await.data();
}

/// The data of the server exist as long as its home does.
async fn start(home: Home) -> (Home, Server, Api) {
    let home = with_slow_model(home);
    let server = home.start().await;
    let scopes = ["agents:invoke", "agents:write", "graph:write"];
    let attacker = project_token(&server, "attacker", &scopes).await;
    external_agent(&server, "quick").await;
    external_agent(&server, "slow").await;
    (home, server, attacker)
}

/// Bodies that are refused in the end, and were parsed before the number of their values was known.
async fn send_bodies(home: Home) {
    let (_home, server, attacker) = start(home).await;
    let bystander = Bystander::start(&server).await;
    let body = format!(r#"{{"input":"x","context":{{"a":{}}}}}"#, maps(1_150_000));
    let keyed = |index: usize| {
        let request = attacker.request(Method::POST, "/api/agents/quick/invoke").body(body.clone());
        request.header("content-type", "application/json").header("idempotency-key", format!("key-{index}"))
    };
    let answers = at_once(6, keyed).await;
    assert!(answers.iter().all(|status| matches!(status, 413 | 429)), "{answers:?}");

    let field = |header: &str, text: &str| {
        format!("--x\r\nContent-Disposition: form-data; {header}\r\n\r\n{text}\r\n")
    };
    let file = field("name=\"file\"; filename=\"a.txt\"", "Some text.");
    let metadata = field("name=\"metadata\"", &format!(r#"{{"a":{}}}"#, maps(1_150_000)));
    let form = format!("{file}{metadata}--x--\r\n");
    let upload = |_| {
        let request = attacker.request(Method::POST, "/api/documents").body(form.clone());
        request.header("content-type", "multipart/form-data; boundary=x")
    };
    let answers = at_once(4, upload).await;
    assert!(answers.iter().all(|status| matches!(status, 400 | 429)), "{answers:?}");

    let line = |index: usize| {
        format!(r#"{{"kind":"object","type":"Note","properties":{{"n":{index},"a":{}}}}}"#, maps(145_000))
    };
    let import = |index: usize| {
        let lines = format!("{}\n{}\n", line(2 * index), line(2 * index + 1));
        let request = attacker.request(Method::POST, "/api/graph/import").body(lines);
        request.header("content-type", "application/x-ndjson")
    };
    let answers = at_once(8, import).await;
    assert!(answers.iter().all(|status| matches!(status, 200 | 400 | 429)), "{answers:?}");
    bystander.assert_served(&server).await;
}

/// Tools of a client, messages of a client and configurations of agents that others read many times.
async fn read_again(home: Home) {
    let (_home, server, attacker) = start(home).await;
    let config = format!(r#"{{"name":"large","config":{{"a":{}}}}}"#, maps(60_000));
    let save = attacker.request(Method::POST, "/api/admin/agents").body(config);
    assert_eq!(status(save.header("content-type", "application/json")).await, 400);

    let bystander = Bystander::start(&server).await;
    let examples: Value = serde_json::from_str(&maps(4_300)).expect("JSON");
    let parameters = json!({ "type": "object", "properties": { "a": { "examples": examples } } });
    let tool = |index| json!({ "type": "function", "function": { "name": format!("t{index}"), "parameters": parameters } });
    let tools: Vec<Value> = (0..4).map(tool).collect();
    let ask = json!({ "model": "quick", "messages": [{ "role": "user", "content": "Go." }], "tools": tools });
    let answers = at_once(20, |_| attacker.request(Method::POST, "/v1/chat/completions").json(&ask)).await;
    assert!(answers.contains(&200), "{answers:?}");
    let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": { "pageSize": 100 } });
    let lists =
        |_| attacker.request(Method::POST, "/a2a/attacker/quick").header("a2a-version", "1.0").json(&list);
    let answers = at_once(24, lists).await;
    assert!(answers.iter().all(|status| matches!(status, 200 | 429)), "{answers:?}");

    let message = |index| json!({ "id": format!("m{index}"), "role": "assistant", "content": "x", "x": [] });
    let mut messages: Vec<Value> = (0..900).map(message).collect();
    for entry in &mut messages {
        entry["x"] = serde_json::from_str(&maps(50)).expect("JSON");
    }
    messages.push(json!({ "id": "m", "role": "user", "content": "Go." }));
    let follow = json!({ "threadId": "t", "runId": "r", "messages": messages });
    let follow = serde_json::to_string(&follow).expect("JSON");
    let mut streams = Vec::new();
    for _ in 0..120 {
        let request = attacker.request(Method::POST, "/api/agents/slow/agui").body(follow.clone());
        let request = request.header("content-type", "application/json").timeout(Duration::from_secs(60));
        streams.push(request.send().await.expect("an answer"));
    }
    let open = streams.iter().filter(|stream| stream.status().as_u16() == 200).count();
    assert!(open >= 40, "only {open} streams");
    bystander.assert_served(&server).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_of_many_small_maps_are_refused_before_they_are_parsed_on_sqlite() {
    send_bodies(Home::sqlite()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_of_many_small_maps_are_refused_before_they_are_parsed_on_postgres() {
    send_bodies(Home::postgres().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stored_values_of_many_small_maps_are_read_as_their_texts_on_sqlite() {
    read_again(Home::sqlite()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stored_values_of_many_small_maps_are_read_as_their_texts_on_postgres() {
    read_again(Home::postgres().await).await;
}
