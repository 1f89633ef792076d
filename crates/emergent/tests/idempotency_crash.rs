//! The server is killed with SIGKILL at random moments while clients start runs with an `Idempotency-Key`. A
//! client that got no answer sends the same request again. In the end each key has started exactly one run, and
//! every answer names it.
//!
//! `EMERGENT_SOAK_KILLS` says how often (`make soak` takes many), `EMERGENT_TEST_SEED` repeats the order.

mod common;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use common::{Api, Home, kills, seed, wait_for_progress};
use futures_util::future::join_all;
use rand::{Rng, SeedableRng, rngs::StdRng};
use reqwest::Method;
use serde_json::{Value, json};

/// How many requests are sent at once before each kill.
const REQUESTS: usize = 8;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_starts_one_run_whenever_the_server_is_killed_on_sqlite() {
    story(&Home::sqlite().with("EMERGENT_EMBEDDINGS", "off"), kills(10)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_starts_one_run_whenever_the_server_is_killed_on_postgres() {
    story(&Home::postgres().await.with("EMERGENT_EMBEDDINGS", "off"), kills(5)).await;
}

async fn story(home: &Home, kills: usize) {
    let mut dice = StdRng::seed_from_u64(seed());
    let server = home.start().await;
    let definition = json!({ "name": "a", "model": { "provider": "rehearsal", "name": "emergent.memory" } });
    let agent = server.api.post("/api/admin/agents", &definition).await.data();
    let path = format!("/api/admin/agents/{}/trigger", agent["id"].as_str().expect("an id"));
    server.kill();
    let mut acknowledged: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for round in 0..kills {
        let server = home.start().await;
        let answered = Arc::new(AtomicUsize::new(0));
        let requests = (0..REQUESTS).map(|number| {
            let (api, path, answered) = (server.api.clone(), path.clone(), Arc::clone(&answered));
            tokio::spawn(async move {
                let key = format!("{round}.{number}");
                let run = start(&api, &path, &key).await;
                answered.fetch_add(usize::from(run.is_some()), Ordering::Relaxed);
                run.map(|run| (key, run))
            })
        });
        let requests: Vec<_> = requests.collect();
        // Before, during and after: the kill follows so many answers, and a short while at random.
        let moment = dice.random_range(0..REQUESTS);
        wait_for_progress(&answered, moment).await;
        tokio::time::sleep(Duration::from_micros(dice.random_range(0..3_000))).await;
        server.kill();
        for (key, run) in join_all(requests).await.into_iter().filter_map(|done| done.expect("a client")) {
            acknowledged.entry(key).or_default().insert(run);
        }
    }
    let known = acknowledged.len();
    let server = home.start().await;
    for key in (0..kills).flat_map(|round| (0..REQUESTS).map(move |number| format!("{round}.{number}"))) {
        let run = start(&server.api, &path, &key).await.expect("an answer");
        acknowledged.entry(key).or_default().insert(run);
    }
    let told: BTreeSet<String> = acknowledged.values().flatten().cloned().collect();
    assert!(acknowledged.values().all(|runs| runs.len() == 1), "{acknowledged:?}");
    let runs = server.api.all("/api/admin/runs?").await;
    let found: BTreeSet<String> =
        runs.iter().map(|run| run["id"].as_str().expect("an id").to_owned()).collect();
    assert_eq!(
        (found.len(), &found),
        (kills * REQUESTS, &told),
        "each key has one run, and each run its key"
    );
    eprintln!("{kills} kills, {known} of {} requests were answered before", kills * REQUESTS);
    server.kill();
}

/// Starts a run. `None` when there was no whole answer.
async fn start(api: &Api, path: &str, key: &str) -> Option<String> {
    let body = json!({ "input": format!("request {key}") });
    let request = api.request(Method::POST, path).header("idempotency-key", key).json(&body);
    let answer = request.send().await.ok()?;
    let status = answer.status().as_u16();
    let answer: Value = serde_json::from_str(&answer.text().await.ok()?).ok()?;
    assert_eq!(status, 202, "{answer}");
    Some(answer["data"]["runId"].as_str().expect("an id").to_owned())
}
