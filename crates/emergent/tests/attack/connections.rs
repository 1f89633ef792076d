//! Connections and requests that are opened and never finished: others are served meanwhile.

use std::{
    io::{Read, Write},
    net::TcpStream,
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use reqwest::Method;
use serde_json::json;

use crate::{
    bystander::Bystander,
    common::{Api, Home},
    project_token,
};

/// How long anybody may wait while somebody attacks.
const PATIENCE: Duration = Duration::from_secs(1);
/// More requests than the server takes at once in all.
const SLOW_BODIES: usize = 1_030;

fn connect(url: &str) -> TcpStream {
    TcpStream::connect(url.trim_start_matches("http://")).expect("a connection")
}

async fn assert_served(api: &Api, path: &str) {
    let started = Instant::now();
    assert_eq!(api.get(path).await.status, 200);
    assert!(started.elapsed() < PATIENCE, "it took {:?}", started.elapsed());
}

async fn half_sent_headers(home: Home) {
    let server = home.start().await;
    let bystander = Bystander::start(&server).await;
    let mut half_sent: Vec<TcpStream> = (0..1_100).map(|_| connect(server.url())).collect();
    for stream in &mut half_sent {
        stream.write_all(b"GET /api/graph/objects HTTP/1.1\r\nHost: localhost\r\nX-Slow: ").unwrap();
    }
    assert_served(&server.api, "/api/graph/objects").await;
    assert_served(&server.api, "/ready").await;
    let mut first = half_sent.swap_remove(0);
    first.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let (started, mut rest) = (Instant::now(), Vec::new());
    let _ = first.read_to_end(&mut rest);
    assert!(started.elapsed() < Duration::from_secs(15), "a header has a deadline");
    bystander.assert_served(&server).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn half_sent_headers_keep_nobody_out_and_are_closed() {
    half_sent_headers(Home::sqlite()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn half_sent_headers_keep_nobody_out_and_are_closed_on_postgres() {
    half_sent_headers(Home::postgres().await).await;
}

async fn slow_bodies(home: Home) {
    let server = home.start().await;
    let attacker = project_token(&server, "attacker", &["graph:write"]).await;
    let other = project_token(&server, "other", &["graph:read"]).await;
    let bystander = Bystander::start(&server).await;
    let header = attacker.request(Method::POST, "/").build().unwrap();
    let token = header.headers()["authorization"].to_str().unwrap().to_owned();
    let mut slow: Vec<TcpStream> = (0..SLOW_BODIES).map(|_| connect(server.url())).collect();
    for stream in &mut slow {
        let head = format!(
            "POST /api/graph/objects HTTP/1.1\r\nHost: localhost\r\nAuthorization: {token}\r\n\
             Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n{{"
        );
        // Most are refused, and may be closed before all is sent.
        let _ = stream.write_all(head.as_bytes());
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_served(&other, "/api/graph/objects").await;
    assert_served(&server.api, "/api/graph/objects").await;
    let object = json!({ "type": "Note", "properties": {} });
    let refused = attacker.post("/api/graph/objects", &object).await;
    assert_eq!((refused.status, refused.code()), (429, "overloaded"), "{}", refused.body);
    assert!(refused.body["error"]["message"].as_str().unwrap().contains("of this token"));
    bystander.assert_served(&server).await;
    drop(slow);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_bodies_of_one_token_leave_room_for_others() {
    slow_bodies(Home::sqlite()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_bodies_of_one_token_leave_room_for_others_on_postgres() {
    slow_bodies(Home::postgres().await).await;
}

async fn unread_exports(home: Home) {
    let server = home.start().await;
    let attacker = project_token(&server, "attacker", &["graph:read", "graph:write"]).await;
    let text = "x".repeat(40_000);
    for _ in 0..10 {
        let objects: Vec<_> =
            (0..25).map(|_| json!({ "type": "Note", "properties": { "text": text } })).collect();
        let created = attacker.post("/api/graph/objects/bulk", &json!({ "objects": objects })).await;
        assert!(created.status < 300, "{}", created.body);
    }
    let bystander = Bystander::start(&server).await;
    let header = attacker.request(Method::GET, "/").build().unwrap();
    let token = header.headers()["authorization"].to_str().unwrap().to_owned();
    let mut unread: Vec<TcpStream> = (0..60).map(|_| connect(server.url())).collect();
    for stream in &mut unread {
        let head =
            format!("GET /api/graph/export HTTP/1.1\r\nHost: localhost\r\nAuthorization: {token}\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    for _ in 0..5 {
        assert_served(&server.api, "/api/projects").await;
        assert_served(&server.api, "/ready").await;
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    bystander.assert_served(&server).await;
    drop(unread);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exports_that_nobody_reads_do_not_silence_the_server() {
    unread_exports(Home::sqlite()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exports_that_nobody_reads_do_not_silence_the_server_on_postgres() {
    unread_exports(Home::postgres().await).await;
}

async fn unknown_tokens(home: Home) {
    let server = home.start().await;
    assert_served(&server.api, "/api/graph/objects").await;
    let guess = Api::new(server.url(), "emt_guess");
    let answers = join_all((0..150).map(|_| guess.get("/api/graph/objects"))).await;
    let refused = answers.iter().find(|answer| answer.status == 429).expect("a limit");
    assert_eq!(refused.code(), "too_many_failed_logins");
    assert!(answers.iter().all(|answer| matches!(answer.status, 401 | 429)));
    // A token that the server has never seen before is served as well.
    let newcomer = project_token(&server, "newcomer", &["graph:read"]).await;
    assert_served(&newcomer, "/api/graph/objects").await;
    assert_served(&server.api, "/api/graph/objects").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_with_many_unknown_tokens_has_to_wait_and_valid_tokens_do_not() {
    unknown_tokens(Home::sqlite()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_with_many_unknown_tokens_has_to_wait_and_valid_tokens_do_not_on_postgres() {
    unknown_tokens(Home::postgres().await).await;
}
