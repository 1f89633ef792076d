//! Exports that their clients read as fast as they can: another project is served meanwhile.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use reqwest::Method;
use serde_json::json;

use crate::{
    bystander::Bystander,
    common::{Api, Home, eventually},
    project_token,
};

/// As many as one token may have open.
const EXPORTS: usize = 16;
const OBJECTS: usize = 8_000;
/// Objects that are written with one request.
const BATCH: usize = 400;
const ATTACK_TIME: Duration = Duration::from_secs(8);
/// How long `/ready` may take, whatever else the server does.
const READY_TIME: Duration = Duration::from_secs(1);

async fn create_small_objects(api: &Api) {
    for batch in 0..OBJECTS / BATCH {
        let objects: Vec<_> = (0..BATCH)
            .map(|n| json!({ "type": "Small", "properties": { "n": batch * BATCH + n } }))
            .collect();
        api.post("/api/graph/objects/bulk", &json!({ "objects": objects })).await.data();
    }
}

/// Reads the export again and again, and counts its bytes.
async fn read_exports(api: Api, bytes: Arc<AtomicUsize>) {
    loop {
        let mut answer = api.request(Method::GET, "/api/graph/export").send().await.expect("an export");
        // The export before may still be counted.
        if answer.status() == 429 {
            continue;
        }
        assert_eq!(answer.status(), 200);
        while let Some(part) = answer.chunk().await.expect("a part of the export") {
            bytes.fetch_add(part.len(), Ordering::Relaxed);
        }
    }
}

async fn exports_that_are_read(home: Home) {
    let server = home.start().await;
    let attacker = project_token(&server, "attacker", &["graph:read", "graph:write"]).await;
    create_small_objects(&attacker).await;
    let bytes = Arc::<AtomicUsize>::default();
    let reading: Vec<_> =
        (0..EXPORTS).map(|_| tokio::spawn(read_exports(attacker.clone(), Arc::clone(&bytes)))).collect();
    eventually("the exports are under way", Duration::from_secs(30), || async {
        bytes.load(Ordering::Relaxed) > 0
    })
    .await;
    let bystander = Bystander::start(&server).await;
    let started = Instant::now();
    let mut slowest = Duration::ZERO;
    while started.elapsed() < ATTACK_TIME {
        let asked = Instant::now();
        assert_eq!(server.api.get("/ready").await.status, 200);
        slowest = slowest.max(asked.elapsed());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(reading.iter().all(|reading| !reading.is_finished()), "the exports go on");
    let late = bystander.assert_served(&server).await;
    for reading in reading {
        reading.abort();
    }
    eprintln!("{} MB were exported, `/ready` took {slowest:?} at most", bytes.load(Ordering::Relaxed) >> 20);
    assert!(slowest < READY_TIME + late, "`/ready` took {slowest:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exports_that_are_read_fast_delay_nobody_on_sqlite() {
    exports_that_are_read(Home::sqlite().with("EMERGENT_EMBEDDINGS", "off")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exports_that_are_read_fast_delay_nobody_on_postgres() {
    exports_that_are_read(Home::postgres().await.with("EMERGENT_EMBEDDINGS", "off")).await;
}
