//! Servers are killed with SIGKILL at random moments around decisions: while runs begin to wait, while two people
//! decide about the same call, and while approved calls are made. On SQLite there is one server; on PostgreSQL
//! there are two, each decision is sent to both, and one of them is killed. In the end no denied call took effect,
//! each approved one did exactly once, and every acknowledged decision is the one of the record. Only a call of an
//! external program that was interrupted may have taken effect or not, and its record says that this is unknown.
//!
//! `EMERGENT_SOAK_KILLS` says how often (`make soak` takes many), `EMERGENT_TEST_SEED` repeats the order; the
//! moments of the kills are never quite the same.

#[path = "../common/mod.rs"]
mod common;

mod agents;
mod check;
mod deciders;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use agents::Agents;
use common::{Api, Home, Server, TOKEN, kills, seed, wait_for_progress};
use deciders::{DECIDED, Deciders, Ledger};
use rand::{Rng, SeedableRng, rngs::StdRng};

/// How many runs are started before each kill.
const RUNS: usize = 4;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_approved_call_takes_effect_once_and_a_denied_one_never_on_sqlite() {
    story(&[Home::sqlite()], kills(20)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_approved_call_takes_effect_once_and_a_denied_one_never_on_two_servers() {
    let first = Home::postgres().await;
    let second = Home::on(first.postgres.clone().unwrap_or_default());
    story(&[first, second], kills(8)).await;
}

async fn story(homes: &[Home], kills: usize) {
    let mut dice = StdRng::seed_from_u64(seed());
    // A program may write only to a folder that exists when it is started, beside the data folder.
    let folder = homes[0].folder().join("programs");
    std::fs::create_dir(&folder).expect("a folder");
    let effects = folder.join("effects");
    let mut servers: Vec<Option<Server>> = Vec::new();
    for home in homes {
        agents::write_scripts(home);
        servers.push(Some(home.start().await));
    }
    let agents = Agents::define(&apis(&servers)[0], &effects).await;
    let mut ledger = Ledger::default();
    for round in 0..kills {
        ledger.check_waiting(&apis(&servers)[round % homes.len()]).await;
        let victim = dice.random_range(0..homes.len());
        let deciders = Deciders {
            apis: apis(&servers),
            agents: agents.clone(),
            round,
            progress: Arc::new(AtomicUsize::new(0)),
            is_over: Arc::new(AtomicBool::new(false)),
        };
        let (progress, is_over) = (Arc::clone(&deciders.progress), Arc::clone(&deciders.is_over));
        let work = tokio::spawn(deciders.work(dice.random()));
        // Before, during and after: the kill follows one of these moments, and a short while at random.
        let moment = dice.random_range(0..=DECIDED + RUNS);
        wait_for_progress(&progress, moment).await;
        tokio::time::sleep(Duration::from_micros(dice.random_range(0..40_000))).await;
        servers[victim].take().expect("a server").kill();
        is_over.store(true, Ordering::Relaxed);
        ledger.add(work.await.expect("deciders that are content with their answers"));
        servers[victim] = Some(start_again(&homes[victim]).await);
    }
    let api = apis(&servers).remove(0);
    ledger.check_waiting(&api).await;
    ledger.add(deciders::settle(&apis(&servers), &mut dice).await);
    let outcome = check::check(&api, &agents, &ledger, &effects).await;
    eprintln!("approvals: {kills} kills, {outcome}");
    outcome.assert_exactly_once();
    servers.into_iter().flatten().for_each(Server::kill);
}

/// Starts a server after a kill. An external program that was being started at that moment holds the lock of the data
/// folder until it is executed, so a server that is refused for that reason is started once more.
async fn start_again(home: &Home) -> Server {
    for _ in 0..200 {
        let mut launched = home.launch(&[]);
        let started = tokio::task::spawn_blocking(move || {
            let address = launched.address().map(str::to_owned);
            (launched, address)
        });
        match started.await.expect("a server that starts") {
            (launched, Ok(address)) => return Server { api: Api::new(&address, TOKEN), launched },
            (_, Err(log)) => assert!(log.contains("is in use by "), "{log}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("the data folder stays locked");
}

fn apis(servers: &[Option<Server>]) -> Vec<Api> {
    servers.iter().flatten().map(|server| server.api.clone()).collect()
}
