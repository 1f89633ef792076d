//! A list that is read page by page visits each row exactly once, whatever is added meanwhile.

use std::{collections::BTreeSet, time::Duration};

use emergent_domain::{
    cursor::{Cursor, Page},
    ids::JobId,
    time::Timestamp,
};
use emergent_store::{
    Db, Error,
    jobs::{self, NewJob},
    params,
};
use emergent_testkit::TestDb;
use proptest::{
    prelude::*,
    test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
};

/// One list: how many rows are there at first and at which moments, and what comes in between pages.
#[derive(Debug, Clone)]
struct Story {
    /// Few moments, so that many rows share one and the id decides.
    moments: Vec<u8>,
    limit: usize,
    added: Vec<Vec<u8>>,
}

fn story() -> impl Strategy<Value = Story> {
    let moments = || prop::collection::vec(0..6_u8, 0..20);
    (moments(), 1..8_usize, prop::collection::vec(prop::collection::vec(0..6_u8, 0..4), 0..8))
        .prop_map(|(moments, limit, added)| Story { moments, limit, added })
}

async fn bury(db: &Db, queue: &str, moments: &[u8]) -> Vec<JobId> {
    let (queue, moments) = (queue.to_owned(), moments.to_vec());
    db.write(move |tx| {
        let mut ids = Vec::new();
        for moment in &moments {
            let at = Timestamp::from_micros(0) + Duration::from_secs(u64::from(*moment));
            ids.extend(jobs::enqueue(tx, &NewJob::new(&queue, at))?);
        }
        tx.execute("UPDATE jobs SET status = 'dead' WHERE queue = $1", params![&queue])?;
        Ok::<_, Error>(ids)
    })
    .await
    .unwrap()
}

async fn check(db: &Db, story: Story) -> Result<(), TestCaseError> {
    let queue = format!("q {}", JobId::new());
    let first: BTreeSet<JobId> = bury(db, &queue, &story.moments).await.into_iter().collect();
    let mut all = first.clone();
    let mut seen = Vec::new();
    let mut added = story.added.iter();
    let mut after: Option<Cursor> = None;
    loop {
        let name = queue.clone();
        let limit = story.limit;
        let page =
            db.read(move |tx| jobs::dead_letters(tx, Some(&name), Page { limit, after })).await.unwrap();
        prop_assert!(page.items.len() <= limit);
        seen.extend(page.items.iter().map(|job| (job.created_at, job.id)));
        let Some(next) = page.next else { break };
        // What goes over the wire is the cursor's text.
        after = Some(next.encode().parse().unwrap());
        if let Some(moments) = added.next() {
            all.extend(bury(db, &queue, moments).await);
        }
    }
    prop_assert!(seen.windows(2).all(|two| two[0] > two[1]), "newest first, and nothing twice");
    let ids: BTreeSet<JobId> = seen.iter().map(|(_, id)| *id).collect();
    prop_assert!(first.is_subset(&ids), "every row that was there at the start");
    prop_assert!(ids.is_subset(&all));
    Ok(())
}

/// Runs a property from a seed that is printed, and taken from `SEED` if set.
fn runner(cases: u32) -> TestRunner {
    let seed: u64 = match std::env::var("SEED") {
        Ok(seed) => seed.parse().expect("SEED is a number"),
        Err(_) => uuid::Uuid::now_v7().as_u64_pair().1,
    };
    println!("SEED={seed}");
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes))
}

/// A failure prints the smallest story that shows it.
fn run_cases(cases: u32, db: impl Future<Output = TestDb>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let db = runtime.block_on(db);
    runner(cases).run(&story(), |story| runtime.block_on(check(&db, story))).unwrap();
}

#[test]
fn pages_visit_every_row_once_on_sqlite() {
    run_cases(1_000, TestDb::sqlite());
}

#[test]
fn pages_visit_every_row_once_on_postgres() {
    run_cases(100, TestDb::postgres());
}
