//! One caller reads the large result of its own run many times at once: the memory of the server stays bounded, and
//! others are served.

use std::time::Duration;

use reqwest::Method;
use serde_json::json;

use crate::{
    bystander::Bystander,
    common::{Api, Home, eventually},
    project_token,
};

const RESULT_BYTES: usize = 7_000_000;
const AT_ONCE: usize = 120;

/// Reads the result, and returns its status, its size and the header `Retry-After`. Nothing of it is kept.
async fn read(api: Api, path: String) -> (u16, usize, Option<String>) {
    let request = api.request(Method::GET, &path).timeout(Duration::from_secs(120));
    let mut answer = request.send().await.expect("an answer");
    let status = answer.status().as_u16();
    let wait = answer.headers().get("retry-after").map(|value| value.to_str().unwrap().to_owned());
    let mut size = 0;
    while let Some(chunk) = answer.chunk().await.expect("a part of the answer") {
        size += chunk.len();
    }
    (status, size, wait)
}

async fn read_at_once(home: Home) {
    let scripts = home.data().join("rehearsals");
    std::fs::create_dir_all(&scripts).expect("a folder");
    let script =
        format!("rules:\n  - {{ answer: {{ text: \"{}\" }} }}\n", "result ".repeat(RESULT_BYTES / 7));
    std::fs::write(scripts.join("long.yaml"), script).expect("a script");
    let server = home.start().await;
    let attacker = project_token(&server, "attacker", &["agents:invoke"]).await;
    let agent = json!({ "name": "long", "visibility": "external", "model": { "provider": "rehearsal", "name": "long" } });
    server.api.in_project("attacker").post("/api/admin/agents", &agent).await.data();
    let run = attacker.post("/api/agents/long/invoke", &json!({ "input": "Go." })).await.data();
    let path = run["links"]["result"].as_str().expect("a path").to_owned();
    let has_ended = || async { read(attacker.clone(), path.clone()).await.0 == 200 };
    eventually("the run ends", Duration::from_secs(120), has_ended).await;
    assert!(read(attacker.clone(), path.clone()).await.1 > RESULT_BYTES / 7 * 7, "the whole result");

    let bystander = Bystander::start(&server).await;
    let reads = (0..AT_ONCE).map(|_| tokio::spawn(read(attacker.clone(), path.clone())));
    let mut complete = 0;
    for answer in futures_util::future::join_all(reads).await {
        match answer.expect("the request ends") {
            (200, size, _) if size > RESULT_BYTES / 7 * 7 => complete += 1,
            (429, _, Some(_)) => {}
            other => panic!("neither the whole result nor `Retry-After`: {other:?}"),
        }
    }
    eprintln!("{complete} of {AT_ONCE} were answered");
    assert!(complete >= 8, "only {complete} were answered");
    bystander.assert_served(&server).await;

    // The same over A2A, whose lists have the answers of all tasks, and with streams that nobody reads.
    let bystander = Bystander::with(project_token(&server, "second", &["graph:read", "graph:write"]).await);
    let lists = (0..AT_ONCE / 2).map(|_| tokio::spawn(list_tasks(attacker.clone())));
    for status in futures_util::future::join_all(lists).await {
        assert!(matches!(status.expect("the request ends"), 200 | 429));
    }
    let agui = json!({ "threadId": "t", "runId": "r", "messages": [{ "id": "m", "role": "user", "content": "Go." }] });
    let mut unread = Vec::new();
    for n in 0..AT_ONCE {
        let request = match n % 2 {
            0 => attacker.request(Method::GET, &format!("{path}/events")),
            _ => attacker.request(Method::POST, "/api/agents/long/agui").json(&agui),
        };
        unread.push(tokio::spawn(request.timeout(Duration::from_secs(60)).send()));
    }
    tokio::time::sleep(Duration::from_secs(5)).await;
    bystander.assert_served(&server).await;
    unread.iter().for_each(tokio::task::JoinHandle::abort);
    drop(unread);
    assert_eq!(read(attacker, path).await.0, 200, "nothing stays counted");
}

/// Lists the tasks of the agent over A2A, and returns the status. Nothing of the answer is kept.
async fn list_tasks(api: Api) -> u16 {
    let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": { "pageSize": 100 } });
    let request = api.request(Method::POST, "/a2a/attacker/long").header("a2a-version", "1.0").json(&list);
    let mut answer = request.timeout(Duration::from_secs(120)).send().await.expect("an answer");
    while answer.chunk().await.expect("a part of the answer").is_some() {}
    answer.status().as_u16()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_result_that_is_read_many_times_at_once_takes_bounded_memory_on_sqlite() {
    read_at_once(Home::sqlite()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_result_that_is_read_many_times_at_once_takes_bounded_memory_on_postgres() {
    read_at_once(Home::postgres().await).await;
}
