//! Requests that are too expensive, answers that nobody reads, and a database that does not answer.

use crate::common;

use std::time::{Duration, Instant};

use axum::{
    body::{Body, Bytes},
    http::{Method, Request},
};
use common::{Client, Server};
use emergent_domain::token::Scope;
use emergent_store::{Db, DbConfig, TimeLimits};
use emergent_testkit::{StallingProxy, TestDb, both_engines};
use futures_util::{StreamExt, stream};
use serde_json::{Value, json};

/// Sends a request and does not read the answer.
async fn unread(client: &Client, path: &str) -> axum::response::Response {
    client.open(client.request(Method::GET, path).body(Body::empty()).unwrap()).await
}

/// A request whose body begins and does not end.
fn unfinished(client: &Client, path: &str, beginning: Bytes) -> Request<Body> {
    let beginning = stream::iter([Ok::<_, std::io::Error>(beginning)]);
    let request = client.request(Method::POST, path).header("content-type", "application/json");
    request.body(Body::from_stream(beginning.chain(stream::pending()))).unwrap()
}

/// Sends requests that do not end, until the answer is dropped.
async fn send_unfinished(
    client: &Client,
    path: &str,
    beginning: &Bytes,
    number: usize,
) -> tokio::task::JoinSet<()> {
    let mut requests = tokio::task::JoinSet::new();
    for _ in 0..number {
        let (client, request) = (client.clone(), unfinished(client, path, beginning.clone()));
        requests.spawn(async move { drop(client.open(request).await) });
    }
    // The requests are read as far as they go.
    tokio::time::sleep(Duration::from_millis(300)).await;
    requests
}

/// Objects that have this many values together, a thousand each.
fn objects_with_values(values: usize) -> Value {
    let object = json!({ "type": "Note", "properties": { "list": vec![0; 995] } });
    json!({ "objects": vec![object; values / 1_000] })
}

both_engines! {
    async fn a_body_with_too_many_values_is_refused(db: TestDb) {
        let server = Server::start(&db).await;
        let client = server.admin();
        let many = json!({ "type": "Note", "properties": { "list": vec![0; 200_001] } });
        let refused = client.post("/api/graph/objects", many).await;
        assert_eq!(refused.refused(413, "too_large")["details"]["limit"], 200_000);
        let lists = format!("[{}[0]]", "[0],".repeat(120_000));
        let search = format!(r#"{{"query":"x","filters":[{{"path":"a","op":"eq","value":{lists}}}]}}"#);
        client.raw(Method::POST, "/api/graph/search", "application/json", search).await.refused(413, "too_large");
        let call = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"ping","params":{lists}}}"#);
        client.raw(Method::POST, "/mcp", "application/json", call).await.refused(413, "too_large");
        client.post("/api/graph/objects/bulk", objects_with_values(250_000)).await.is(200);
        let refused = client.post("/api/graph/objects/bulk", objects_with_values(502_000)).await;
        assert_eq!(refused.refused(413, "too_large")["details"]["limit"], 500_000);
    }

    async fn bodies_of_searches_decisions_messages_and_logins_are_small(db: TestDb) {
        let server = Server::start(&db).await;
        let client = server.admin();
        let id = uuid::Uuid::now_v7();
        for (path, limit) in [
            ("/api/graph/search".to_owned(), 512 << 10),
            ("/api/documents/search".to_owned(), 512 << 10),
            (format!("/api/approvals/{id}/decide"), 512 << 10),
            ("/api/chat/stream".to_owned(), 512 << 10),
            ("/api/session".to_owned(), 16 << 10),
        ] {
            let refused = client.post(&path, json!({ "text": "x".repeat(limit) })).await;
            assert_eq!(refused.refused(413, "too_large")["details"]["limit"], limit, "{path}");
        }
    }

    async fn unfinished_logins_keep_out_nobody_with_a_token(db: TestDb) {
        let server = Server::with_places(&db, 8).await;
        let (client, nobody) = (server.admin(), server.client(None));
        let logins = send_unfinished(&nobody, "/api/session", &Bytes::from_static(b"{"), 64).await;
        client.get("/api/graph/objects").await.is(200);
        client.get("/ready").await.is(200);
        let refused = nobody.post("/api/session", json!({ "token": "emt_wrong" })).await;
        assert_eq!(refused.refused(429, "overloaded")["details"]["limit"], 64);
        assert_eq!(refused.headers["retry-after"], "1");
        drop(logins);
        tokio::time::sleep(Duration::from_millis(100)).await;
        nobody.post("/api/session", json!({ "token": "emt_wrong" })).await.refused(401, "unauthorized");
    }

    async fn unfinished_bodies_of_one_project_have_a_limit(db: TestDb) {
        let server = Server::start(&db).await;
        let (one, two) = (server.project("one").await, server.project("two").await);
        let one = server.client(Some(&server.token(&[Scope::GraphWrite], Some(one)).await));
        let two = server.client(Some(&server.token(&[Scope::GraphWrite], Some(two)).await));
        let large = Bytes::from(vec![b' '; 7 << 20]);
        let path = "/api/graph/objects";
        let requests = send_unfinished(&one, path, &large, 18).await;
        let refused = one.raw(Method::POST, path, "application/json", large.clone()).await;
        assert_eq!(refused.refused(429, "overloaded")["details"]["limit"], 128 << 20);
        assert_eq!(refused.headers["retry-after"], "1");
        one.object("Note", "small", json!({})).await;
        two.raw(Method::POST, path, "application/json", large.clone()).await.refused(400, "malformed");
        drop(requests);
        tokio::time::sleep(Duration::from_millis(100)).await;
        one.raw(Method::POST, path, "application/json", large).await.refused(400, "malformed");
    }

    async fn the_context_of_a_run_has_a_limit(db: TestDb) {
        let server = Server::start(&db).await;
        let client = server.admin();
        let agent = client.agent("reader", json!({})).await;
        let body = json!({ "input": "go", "context": { "text": "x".repeat(1 << 20) } });
        let refused = client.post(&format!("/api/admin/agents/{agent}/trigger"), body).await;
        refused.refused(400, "invalid");
        assert_eq!(refused.field(), "context");
    }

    async fn a_query_that_takes_too_long_is_refused_and_nothing_else_is(db: TestDb) {
        let mut db = db;
        let limits = TimeLimits { read: Duration::from_nanos(1), write: Duration::from_secs(30) };
        db.db = Db::open_with(db.config().clone(), limits).await.unwrap();
        let server = Server::start(&db).await;
        let client = server.admin();
        let answer = client.get("/api/graph/objects").await;
        answer.refused(422, "query_timeout");
        assert!(answer.body["error"]["details"]["limitSeconds"].is_number(), "{}", answer.text);
        client.post("/api/projects", json!({ "name": "another" })).await.is(201);
        client.get("/ready").await.is(200);
    }

    async fn answers_that_nobody_reads_have_a_limit(db: TestDb) {
        let server = Server::start(&db).await;
        let (one, two) = (server.project("one").await, server.project("two").await);
        let scopes = [Scope::GraphRead, Scope::GraphWrite];
        let one = server.client(Some(&server.token(&scopes, Some(one)).await));
        let two = server.client(Some(&server.token(&scopes, Some(two)).await));
        let text = "x".repeat(1_000_000);
        for client in [&one, &two] {
            for n in 0..8 {
                client.object("Large", &n.to_string(), json!({ "text": text })).await;
            }
        }
        let mut answers = Vec::new();
        for _ in 0..30 {
            answers.push(unread(&one, "/api/graph/objects").await);
        }
        let refused = answers.iter().filter(|answer| answer.status() == 429).count();
        let sent = answers.iter().filter(|answer| answer.status() == 200).count();
        assert!(refused > 0 && sent >= 15 && refused + sent == 30, "{sent} answers of 8 MB, {refused} refused");
        one.get("/api/graph/objects").await.refused(429, "overloaded");
        one.get("/api/graph/objects?limit=1&type=None").await.is(200);
        assert_eq!(two.get("/api/graph/objects").await.is(200).as_array().unwrap().len(), 8);
        drop(answers);
        one.get("/api/graph/objects").await.is(200);
    }

    async fn exports_are_limited_for_each_token(db: TestDb) {
        let server = Server::start(&db).await;
        let project = server.project("one").await;
        let client = server.client(Some(&server.token(&[Scope::GraphRead], Some(project)).await));
        let mut open = Vec::new();
        for _ in 0..16 {
            open.push(unread(&client, "/api/graph/export").await);
        }
        assert!(open.iter().all(|answer| answer.status() == 200));
        client.get("/api/graph/export").await.refused(429, "overloaded");
        server.admin().get("/api/graph/export").await;
        drop(open);
        assert_eq!(client.get("/api/graph/export").await.status, 200);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_does_not_answer_makes_the_server_unready_within_a_second() {
    let db = TestDb::postgres().await;
    let DbConfig::Postgres { url, .. } = db.config().clone() else { panic!("PostgreSQL") };
    let proxy = StallingProxy::start(&url).await;
    let config = DbConfig::Postgres { url: proxy.url(), connections: 8, statement_cache: true };
    let mut db = db;
    let limits = TimeLimits { read: Duration::from_secs(1), write: Duration::from_secs(1) };
    db.db = Db::open_with(config, limits).await.unwrap();
    let server = Server::start(&db).await;
    let client = server.admin();
    client.get("/ready").await.is(200);
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    proxy.stall(true);
    let started = Instant::now();
    client.get("/ready").await.refused(503, "database_unavailable");
    assert!(started.elapsed() < Duration::from_secs(1), "{:?}", started.elapsed());
    client.get("/api/graph/objects").await.refused(503, "database_unavailable");
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
    proxy.stall(false);
    client.get("/ready").await.is(200);
    client.object("Note", "a", json!({})).await;
    assert_eq!(client.get("/api/graph/objects").await.is(200).as_array().unwrap().len(), 1);
}
