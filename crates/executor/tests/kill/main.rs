//! The server is killed with SIGKILL again and again while agents run. Every run that was accepted
//! comes to its end by itself; the graph has each effect of each call once; what is recorded is
//! what the models saw. With two servers, the one that is left takes over, soon and alone.
//!
//! `EMERGENT_SOAK_KILLS` says how often (`make soak` takes many), `EMERGENT_TEST_SEED` repeats what
//! is started and roughly when it dies; the moments of the kills are never quite the same.

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
use environment::House;
use rand::Rng;
use takeover::Away;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_run_ends_and_each_effect_happens_once_on_sqlite() {
    story(&mut House::sqlite(), kills(25)).await;
}

/// The database survives here; only the open transactions of the server are lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_run_ends_and_each_effect_happens_once_on_postgres() {
    story(&mut House::postgres().await, kills(8)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_takes_over_from_one_that_died() {
    takeover::story(&mut House::postgres().await, Away::Killed, takeovers()).await;
}

/// The stalled server returns after its lease has expired, and must not write to runs it no longer
/// owns.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_takes_over_from_one_that_stalls() {
    takeover::story(&mut House::postgres().await, Away::Stalled, takeovers()).await;
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

async fn story(house: &mut House, kills: usize) {
    while house.kills < kills {
        if house.dice.random_bool(0.15) {
            // A server is also killed while it starts.
            let starting = house.launch(true);
            tokio::time::sleep(Duration::from_micros(house.dice.random_range(0..150_000))).await;
            house.kill(starting);
        }
        let server = house.open(true).await;
        let left = house.desk.book().left.values().last().copied().unwrap_or(0);
        if left < 30 {
            let some = house.dice.random_range(1..6);
            house.start_some(some);
        }
        some_moment(house).await;
        house.kill(server);
    }
    // Nobody expires leases by hand here. A server that is alone has nobody to wait for.
    let postgres = house.is_shared();
    let server = house.open(!postgres).await;
    house.all_ended(&server, Duration::from_secs(90)).await;
    house.kill(server);

    let db = house.db().await;
    let all = check::load(&db).await;
    let tally = check::check(&house.desk.book(), &all, Servers::OneAfterTheOther);
    let written = effects::check(&db, &all).await;
    let kills = house.kills;
    eprintln!("{kills} kills: {tally:?}, {written} writes, each once");
    assert!(tally.runs >= kills && tally.taken_up_again > 0, "the kills hardly hit anything: {tally:?}");
}

/// Waits for some event and then for a random time, so that the kill hits any point: during a model
/// call, an external call, or a commit.
async fn some_moment(house: &mut House) {
    let (events, tickets) = {
        let book = house.desk.book();
        (book.events(), book.tickets)
    };
    let at_a_call = house.dice.random_bool(0.3);
    let enough = house.dice.random_range(1..60);
    let limit = Duration::from_secs(2);
    house
        .desk
        .wait(limit, |book| match at_a_call {
            true => book.tickets > tickets,
            false => book.events() >= events + enough,
        })
        .await;
    let longest = if house.dice.random_bool(0.6) { 25_000 } else { 400_000 };
    tokio::time::sleep(Duration::from_micros(house.dice.random_range(0..longest))).await;
}
