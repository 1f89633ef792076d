//! One project writes as much as it can, with plain bulk requests: another project reads and writes on, and the
//! server stays ready.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    bystander::Bystander,
    common::{Api, Home, eventually},
    project_token,
};

/// How many requests of one token the server handles at once.
const AT_ONCE: usize = 256;
/// The objects of one request. It needs far more time of the writer than to be parsed.
const OBJECTS: usize = 20;

/// The body of a request, which is serialized once, so that the attack does not slow down itself.
fn bulk() -> String {
    let objects: Vec<Value> = (0..OBJECTS)
        .map(|n| json!({ "type": "Note", "properties": { "text": format!("kettle {n} sings of tea") } }))
        .collect();
    json!({ "objects": objects }).to_string()
}

/// Writes without end, and counts what succeeded.
async fn write_without_end(api: Api, body: Bytes, written: Arc<AtomicUsize>) {
    loop {
        let request = api.request(Method::POST, "/api/graph/objects/bulk");
        let request = request.header("content-type", "application/json").body(body.clone());
        let answer = request.send().await;
        match answer.map(|answer| answer.status().as_u16()) {
            Ok(200) => written.fetch_add(1, Ordering::Relaxed),
            Ok(429) | Err(_) => continue,
            Ok(status) => panic!("status {status}"),
        };
    }
}

async fn bulk_writes_of_one_project(home: Home) {
    let server = home.start().await;
    let attacker = project_token(&server, "attacker", &["graph:read", "graph:write"]).await;
    let other = project_token(&server, "bystander", &["graph:read", "graph:write"]).await;
    let (body, written) = (Bytes::from(bulk()), Arc::new(AtomicUsize::new(0)));
    let mut attacks = tokio::task::JoinSet::new();
    for _ in 0..AT_ONCE {
        attacks.spawn(write_without_end(attacker.clone(), body.clone(), Arc::clone(&written)));
    }
    // All of them have arrived when some have been answered.
    let answered = || async { written.load(Ordering::Relaxed) > AT_ONCE / 8 };
    eventually("the attacker is answered", Duration::from_secs(20), answered).await;
    let bystander = Bystander::with(other);
    for _ in 0..4 {
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert_eq!(server.api.get("/ready").await.status, 200);
    }
    bystander.assert_served(&server).await;
    attacks.abort_all();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bulk_writes_of_one_project_at_full_concurrency_do_not_delay_others() {
    bulk_writes_of_one_project(Home::sqlite()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bulk_writes_of_one_project_at_full_concurrency_do_not_delay_others_on_postgres() {
    bulk_writes_of_one_project(Home::postgres().await).await;
}
