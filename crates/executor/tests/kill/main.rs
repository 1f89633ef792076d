//! The server is killed with SIGKILL again and again while agents run. Every accepted run still ends by itself,
//! the graph has each effect of each call once, and the record contains what the models saw. With two servers,
//! the remaining one takes over soon, and no run is driven by both.
//!
//! `EMERGENT_SOAK_KILLS` sets the number of kills (`make soak` uses many). `EMERGENT_TEST_SEED` repeats the same
//! starts and roughly the same kills; their exact timing always differs.

mod agent_scripts;
mod check;
mod effects;
mod environment;
mod observer;
mod server;
mod takeover;
mod wire;

use std::time::Duration;

use check::Servers;
use environment::Environment;
use rand::Rng;
use takeover::Away;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_run_ends_and_each_effect_happens_once_on_sqlite() {
    story(&mut Environment::sqlite(), kills(25)).await;
}

/// The database survives here; only the open transactions of the server are lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_run_ends_and_each_effect_happens_once_on_postgres() {
    story(&mut Environment::postgres().await, kills(8)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_takes_over_from_one_that_died() {
    takeover::story(&mut Environment::postgres().await, Away::Killed, takeovers()).await;
}

/// The stalled server returns after its lease has expired, and must not write to runs it no longer
/// owns.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_takes_over_from_one_that_stalls() {
    takeover::story(&mut Environment::postgres().await, Away::Stalled, takeovers()).await;
}

fn soak() -> Option<usize> {
    let kills = std::env::var("EMERGENT_SOAK_KILLS").ok()?;
    Some(kills.parse().expect("EMERGENT_SOAK_KILLS is a number"))
}

fn kills(usual: usize) -> usize {
    soak().unwrap_or(usual)
}

/// Each takeover waits for a lease to expire, so there are fewer of them.
fn takeovers() -> usize {
    soak().map_or(1, |kills| (kills / 50).max(1))
}

async fn story(env: &mut Environment, kills: usize) {
    while env.kills < kills {
        if env.dice.random_bool(0.15) {
            // A server is also killed while it starts.
            let starting = env.launch(true);
            tokio::time::sleep(Duration::from_micros(env.dice.random_range(0..150_000))).await;
            env.kill(starting);
        }
        let server = env.open(true).await;
        let left = env.observer.observations().left.values().last().copied().unwrap_or(0);
        if left < 30 {
            let some = env.dice.random_range(1..6);
            env.start_some(some);
        }
        some_moment(env).await;
        env.kill(server);
    }
    // Nobody expires leases by hand here. A server that is alone has nobody to wait for.
    let postgres = env.is_shared();
    let server = env.open(!postgres).await;
    env.all_ended(&server, Duration::from_secs(90)).await;
    env.kill(server);

    let db = env.db().await;
    let all = check::load(&db).await;
    let tally = check::check(&env.observer.observations(), &all, Servers::OneAfterTheOther);
    let written = effects::check(&db, &all).await;
    let kills = env.kills;
    eprintln!("{kills} kills: {tally:?}, {written} writes, each once");
    assert!(tally.runs >= kills && tally.taken_up_again > 0, "the kills hardly hit anything: {tally:?}");
}

/// Waits for some event and then for a random time, so that the kill hits any point: during a model
/// call, an external call, or a commit.
async fn some_moment(env: &mut Environment) {
    let (events, tickets) = {
        let observations = env.observer.observations();
        (observations.events(), observations.tickets)
    };
    let at_a_call = env.dice.random_bool(0.3);
    let enough = env.dice.random_range(1..60);
    let limit = Duration::from_secs(2);
    env.observer
        .wait(limit, |observations| match at_a_call {
            true => observations.tickets > tickets,
            false => observations.events() >= events + enough,
        })
        .await;
    let longest = if env.dice.random_bool(0.6) { 25_000 } else { 400_000 };
    tokio::time::sleep(Duration::from_micros(env.dice.random_range(0..longest))).await;
}
