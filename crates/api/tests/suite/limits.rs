//! Requests that are too expensive, answers that nobody reads, and a database that does not answer.

use crate::common;

use std::time::{Duration, Instant};

use axum::{body::Body, http::Method};
use common::{Client, Server};
use emergent_domain::token::Scope;
use emergent_store::{Db, DbConfig, TimeLimits};
use emergent_testkit::{StallingProxy, TestDb, both_engines};
use serde_json::json;

/// Sends a request and does not read the answer.
async fn unread(client: &Client, path: &str) -> axum::response::Response {
    client.open(client.request(Method::GET, path).body(Body::empty()).unwrap()).await
}

both_engines! {
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
