//! Reads that take long, and a database that does not answer: others are served meanwhile.

use std::time::{Duration, Instant};

use emergent_testkit::{StallingProxy, new_postgres_database};
use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    bystander::Bystander,
    common::{Api, Home, Server},
    project_token,
};

/// How long anybody may wait while somebody attacks.
const PATIENCE: Duration = Duration::from_secs(1);
const LIST_LENGTH: usize = 60_000;

/// A list request whose filter walks through long lists, 32 times for each object, and matches nothing.
async fn expensive_path(attacker: &Api) -> String {
    let list: Vec<usize> = (0..LIST_LENGTH).collect();
    let objects: Vec<Value> =
        (0..6).map(|_| json!({ "type": "Note", "properties": { "list": list } })).collect();
    for _ in 0..6 {
        let created = attacker.post("/api/graph/objects/bulk", &json!({ "objects": objects })).await;
        assert!(created.status < 300, "{}", created.body);
    }
    let mut filters = vec![json!({ "path": "list", "op": "contains", "value": LIST_LENGTH - 1 }); 31];
    filters.push(json!({ "path": "list", "op": "contains", "value": -1 }));
    let filters: String = Value::from(filters)
        .to_string()
        .bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'0'..=b'9' => char::from(byte).to_string(),
            _ => format!("%{byte:02X}"),
        })
        .collect();
    format!("/api/graph/objects?filters={filters}")
}

async fn assert_others_are_served(home: Home) {
    let server = home.start().await;
    let attacker = project_token(&server, "attacker", &["graph:read", "graph:write"]).await;
    let other = project_token(&server, "other", &["graph:read", "graph:write"]).await;
    let path = expensive_path(&attacker).await;
    let bystander = Bystander::start(&server).await;
    let attack = join_all((0..8).map(|_| attacker.get(&path)));
    let others = measure_others(&server, &other);
    let (answers, slowest) = tokio::join!(attack, others);
    assert!(slowest < PATIENCE, "others waited {slowest:?}");
    bystander.assert_served(&server).await;
    for answer in answers {
        assert!(
            matches!((answer.status, answer.code()), (422, "query_timeout") | (429, "overloaded")),
            "{answer:?}"
        );
    }
    assert_eq!(attacker.get("/api/graph/objects?type=None").await.status, 200, "its connections go on");
}

/// Reads, writes, logs in and checks the health of the server for a while. Returns the longest wait.
async fn measure_others(server: &Server, other: &Api) -> Duration {
    tokio::time::sleep(Duration::from_millis(300)).await;
    let mut slowest = Duration::ZERO;
    for n in 0..12 {
        let newcomer = project_token(server, &format!("newcomer-{n}"), &["graph:read"]).await;
        for (api, path) in
            [(other, "/api/graph/objects"), (&newcomer, "/api/graph/objects"), (&server.api, "/ready")]
        {
            let started = Instant::now();
            assert_eq!(api.get(path).await.status, 200, "{path}");
            slowest = slowest.max(started.elapsed());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    slowest
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn expensive_lists_of_one_project_do_not_delay_others() {
    assert_others_are_served(Home::sqlite().with("EMERGENT_QUERY_TIMEOUT", "2")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn expensive_lists_of_one_project_do_not_delay_others_on_postgres() {
    assert_others_are_served(Home::postgres().await.with("EMERGENT_QUERY_TIMEOUT", "2")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_hangs_ends_every_request_and_works_again_later() {
    let database = new_postgres_database().await;
    let proxy = StallingProxy::start(&database.url()).await;
    let home = Home::on(proxy.url()).with("EMERGENT_QUERY_TIMEOUT", "2").with("EMERGENT_WRITE_TIMEOUT", "2");
    let server = home.start().await;
    assert_eq!(server.api.get("/ready").await.status, 200);
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    proxy.stall(true);
    let status = async |path: &str| {
        let answer = server.api.request(Method::GET, path).send().await.expect("an answer");
        (answer.status().as_u16(), answer.text().await.unwrap_or_default())
    };
    let started = Instant::now();
    assert_eq!(status("/ready").await.0, 503);
    assert!(started.elapsed() < PATIENCE, "{:?}", started.elapsed());
    for (status, text) in join_all((0..50).map(|_| status("/api/graph/objects"))).await {
        assert!(status == 503 && text.contains("database_unavailable"), "{status} {text}");
    }
    assert!(started.elapsed() < Duration::from_secs(15), "{:?}", started.elapsed());
    proxy.stall(false);
    assert_eq!(status("/ready").await.0, 200);
    assert_eq!(server.api.get("/api/graph/objects").await.status, 200);
    let object = json!({ "type": "Note", "properties": {} });
    assert_eq!(server.api.post("/api/graph/objects", &object).await.status, 201);
}
