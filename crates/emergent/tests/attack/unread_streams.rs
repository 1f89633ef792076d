//! Streams of a run's events that nobody reads: the memory of the server stays bounded, and others are served.

use std::{fmt::Write as _, io::Write, net::TcpStream, time::Duration};

use reqwest::Method;
use serde_json::json;

use crate::{
    bystander::Bystander,
    common::{Api, Home, eventually},
    project_token,
};

const STEPS: usize = 40;
const TEXT_BYTES: usize = 120_000;
/// Nearly as many as one token may have open (1,024): the others would be refused.
const STREAMS: usize = 900;

/// A model that says much in each step, and never the same twice.
fn script() -> String {
    let text = "word ".repeat(TEXT_BYTES / 5);
    let mut rules = String::from("rules:\n");
    for step in 1..STEPS {
        writeln!(
            rules,
            "  - when: {{ step: {step} }}\n    answer: {{ text: \"{step} {text}\", calls: [{{ tool: entities_create, input: {{ objects: [{{ type: Note, key: n{step}, properties: {{ title: Note {step} }} }}] }} }}] }}"
        )
        .expect("a text");
    }
    rules.push_str("  - when: {}\n    answer: { text: Done. }\n");
    rules
}

fn authorization(api: &Api) -> String {
    let request = api.request(Method::GET, "/").build().unwrap();
    request.headers()["authorization"].to_str().unwrap().to_owned()
}

async fn unread_streams(home: Home) {
    let scripts = home.data().join("rehearsals");
    std::fs::create_dir_all(&scripts).expect("a folder");
    std::fs::write(scripts.join("talkative.yaml"), script()).expect("a script");
    let server = home.start().await;
    let attacker = project_token(&server, "attacker", &["agents:invoke"]).await;
    let agent = json!({
        "name": "talkative",
        "visibility": "external",
        "tools": ["entities_create"],
        "maxSteps": STEPS + 5,
        "model": { "provider": "rehearsal", "name": "talkative" },
    });
    server.api.in_project("attacker").post("/api/admin/agents", &agent).await.data();
    let run = attacker.post("/api/agents/talkative/invoke", &json!({ "input": "Go." })).await.data();
    let path = run["links"]["result"].as_str().expect("a path").to_owned();
    let status = || async { attacker.get(&path).await.data()["status"].clone() };
    eventually("the run ends", Duration::from_secs(120), || async { status().await == "completed" }).await;

    let bystander = Bystander::start(&server).await;
    let token = authorization(&attacker);
    let request = format!("GET {path}/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: {token}\r\n\r\n");
    let mut unread = Vec::new();
    for _ in 0..STREAMS {
        let mut stream =
            TcpStream::connect(server.url().trim_start_matches("http://")).expect("a connection");
        stream.write_all(request.as_bytes()).expect("room for a request");
        unread.push(stream);
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    tokio::time::sleep(Duration::from_secs(6)).await;
    bystander.assert_served(&server).await;
    assert_eq!(server.api.get("/ready").await.status, 200);
    drop(unread);
    assert_eq!(status().await, "completed", "the caller is served again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn event_streams_that_nobody_reads_take_bounded_memory_on_sqlite() {
    unread_streams(Home::sqlite()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn event_streams_that_nobody_reads_take_bounded_memory_on_postgres() {
    unread_streams(Home::postgres().await).await;
}
