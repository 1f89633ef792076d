//! The server is killed with SIGKILL again and again while clients write. After every restart
//! each acknowledged write is there, no half of a transaction is, and full text, edges and
//! history agree with the objects.
//!
//! `EMERGENT_SOAK_KILLS` says how often (`make soak` takes many), `EMERGENT_TEST_SEED` repeats
//! what the clients do; the moments of the kills are never quite the same.

#[path = "../common/mod.rs"]
mod common;

mod check;
mod model;
mod on_disk;
mod writer;

use std::{
    sync::{Arc, atomic::AtomicUsize},
    time::Duration,
};

use common::{Home, kills, seed, wait_for_progress};
use futures_util::future::join_all;
use rand::{Rng, SeedableRng, rngs::StdRng};
use writer::Writer;

const CLIENTS: usize = 8;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_acknowledged_is_lost_and_nothing_is_half_done_on_sqlite() {
    story(&Home::sqlite(), kills(25)).await;
}

/// The database survives here; what dies with the server are its transactions half way.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_acknowledged_is_lost_and_nothing_is_half_done_on_postgres() {
    story(&Home::postgres().await, kills(8)).await;
}

async fn story(home: &Home, kills: usize) {
    let mut dice = StdRng::seed_from_u64(seed());
    let mut writers: Vec<_> =
        (0..CLIENTS).map(|client| Writer::new(client, StdRng::seed_from_u64(dice.random()))).collect();
    for _ in 0..kills {
        if dice.random_bool(0.2) {
            // A start is a moment like any other.
            let starting = home.launch(&[]);
            tokio::time::sleep(Duration::from_millis(dice.random_range(0..60))).await;
            starting.kill();
        }
        let server = home.start().await;
        let api = server.api.clone();
        let told = Arc::new(AtomicUsize::new(0));
        let work = |writer: Writer| tokio::spawn(writer.work(api.clone(), Arc::clone(&told)));
        let working: Vec<_> = writers.drain(..).map(work).collect();
        // After so many answers, and at any point of what comes next: in the middle of a request,
        // of a commit, of a batch of embeddings.
        let enough = dice.random_range(1..250);
        wait_for_progress(&told, enough).await;
        tokio::time::sleep(Duration::from_micros(dice.random_range(0..10_000))).await;
        server.kill();
        for worker in working {
            writers.push(worker.await.expect("a client that is content with its answers"));
        }
        on_disk::settle(home).await;

        let server = home.start().await;
        join_all(writers.iter_mut().map(|writer| check::check(writer, &server.api))).await;
        server.kill();
    }
    if home.postgres.is_none() {
        // Nobody waits for the leases of the dead: the folder is this server's alone.
        let server = home.start().await;
        join_all(writers.iter().map(|writer| check::vectors(writer, &server.api))).await;
        server.kill();
        on_disk::check(home);
    }
    let acknowledged: usize = writers.iter().map(|writer| writer.acknowledged).sum();
    eprintln!("{kills} kills, {acknowledged} acknowledged writes by {CLIENTS} clients");
    assert!(acknowledged > kills * CLIENTS, "the clients hardly came to write anything: {acknowledged}");
}
