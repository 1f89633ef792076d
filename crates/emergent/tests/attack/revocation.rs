//! A token is revoked while its answers are under way: its export and its event streams end, and those of others go on.

use std::time::Duration;

use reqwest::{Method, Response};
use serde_json::json;

use crate::{
    common::{Api, Home},
    create_agent, start_run, with_slow_model,
};

/// How long an answer to a revoked token may go on.
const PATIENCE: Duration = Duration::from_secs(8);
/// Objects that are more together than the buffers between the server and a client that does not read.
const OBJECTS: usize = 600;
const TEXT_BYTES: usize = 40_000;
/// Objects that are written with one request.
const BATCH: usize = 25;

async fn create_large_objects(api: &Api) {
    let text = "x".repeat(TEXT_BYTES);
    for _ in 0..OBJECTS / BATCH {
        let objects: Vec<_> =
            (0..BATCH).map(|_| json!({ "type": "Note", "properties": { "text": text } })).collect();
        api.post("/api/graph/objects/bulk", &json!({ "objects": objects })).await.data();
    }
}

async fn open(api: &Api, path: &str) -> Response {
    let answer = api.request(Method::GET, path).send().await.expect("an answer");
    assert_eq!(answer.status(), 200, "{path}");
    answer
}

/// Reads an answer, and returns whether the server breaks it off before its end.
async fn is_broken_off(mut answer: Response) -> bool {
    // The server checks the token once a second. Until then it has sent no more than the buffers have room for.
    tokio::time::sleep(Duration::from_secs(3)).await;
    loop {
        match answer.chunk().await {
            Ok(Some(_)) => {}
            Ok(None) => return false,
            Err(_) => return true,
        }
    }
}

/// Reads a stream until it has this text.
async fn read_until(stream: &mut Response, text: &str) {
    let mut read = String::new();
    while !read.contains(text) {
        let part = stream.chunk().await.expect("a part of the stream").expect("the stream goes on");
        read.push_str(&String::from_utf8_lossy(&part));
    }
}

async fn revoke_while_reading(home: Home) {
    let home = with_slow_model(home.with("EMERGENT_EMBEDDINGS", "off"));
    let server = home.start().await;
    server.api.post("/api/projects", &json!({ "name": "attacked" })).await.data();
    let scopes = ["graph:read", "admin:read"];
    let body = json!({ "name": "leaked", "scopes": scopes, "project": "attacked" });
    let made = server.api.post("/api/tokens", &body).await.data();
    let leaked = Api::new(server.url(), made["token"].as_str().expect("a token"));
    let operator = server.api.in_project("attacked");
    create_large_objects(&operator).await;
    let agent = create_agent(&operator, "slow", &[]).await;
    let run = start_run(&operator, &agent).await;
    let paths = [format!("{agent}/runs/{run}/events"), "/api/graph/changes".to_owned()];

    let mut streams = Vec::new();
    for path in &paths {
        streams.push(open(&leaked, path).await);
    }
    let mut changes = open(&operator, &paths[1]).await;
    let mut export = open(&leaked, "/api/graph/export").await;
    assert!(export.chunk().await.expect("the export begins").is_some());
    let token = format!("/api/tokens/{}", made["id"].as_str().expect("an id"));
    assert_eq!(server.api.delete(&token).await.status, 200);

    assert_eq!(leaked.get("/api/graph/objects").await.status, 401);
    let broken = tokio::time::timeout(PATIENCE * 4, is_broken_off(export)).await;
    assert!(broken.expect("the export ends"), "what was read is not taken for all there is");
    for (stream, path) in streams.into_iter().zip(&paths) {
        let ended = tokio::time::timeout(PATIENCE, stream.bytes()).await;
        assert!(ended.is_ok(), "{path} goes on");
    }
    // The stream of another token has what is written now.
    let object =
        operator.post("/api/graph/objects", &json!({ "type": "Note", "properties": {} })).await.data();
    let id = object["id"].as_str().expect("an id");
    let is_read = tokio::time::timeout(PATIENCE, read_until(&mut changes, id)).await;
    assert!(is_read.is_ok(), "the stream of another token goes on");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revoked_token_reads_no_export_and_no_stream_to_its_end() {
    revoke_while_reading(Home::sqlite()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revoked_token_reads_no_export_and_no_stream_to_its_end_on_postgres() {
    revoke_while_reading(Home::postgres().await).await;
}
