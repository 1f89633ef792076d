//! Two servers on one database: when one stops driving its runs, the other takes them over soon, and no
//! run is driven by both.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use emergent_domain::ids::RunId;
use emergent_store::Db;

use crate::{
    check::{self, Servers},
    effects,
    environment::{Environment, Server},
};

/// The lease of the servers. It is shorter than the default, because the tests wait for it to expire.
const LEASE: Duration = Duration::from_secs(4);
/// The maximum time until the runs of a lost server are taken over.
const SOON: Duration = Duration::from_secs(10);
/// How long a stalled server is stopped: its lease expires without its noticing.
const STALL: Duration = Duration::from_secs(9);

/// How a server is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Away {
    Killed,
    Stalled,
}

pub async fn story(env: &mut Environment, away: Away, rounds: usize) {
    // The remaining server has slots for all runs.
    (env.slots, env.lease) = (64, Some(LEASE));
    let db = env.db().await;
    let mut servers = [env.open(false).await, env.open(false).await];
    let mut slowest = Duration::ZERO;
    for _ in 0..rounds {
        env.observer.pace(Duration::from_millis(250));
        // The stalled server has to return while the runs are still active.
        let long = if away == Away::Stalled { 50 } else { 30 };
        for (agent, steps) in [("writer", long), ("caller", long), ("relay", 30)].repeat(4) {
            env.start(agent, steps);
        }
        env.start("boss", 3);
        let asked = env.observer.observations().asked.len();
        let busy = env
            .observer
            .wait(Duration::from_secs(20), |observations| observations.asked.len() > asked + 60)
            .await;
        assert!(busy, "the servers hardly came to do anything");
        let busier = most_busy(env, &db, [servers[0].process, servers[1].process]).await;
        if busier == servers[1].process {
            servers.swap(0, 1);
        }
        let [victim, survivor] = servers;
        let gone = Instant::now();
        let victim = leave(env, victim, away);
        slowest = slowest.max(taken_over(env, &db, busier, gone).await);
        let other = match victim {
            None => env.open(false).await,
            Some(stalled) => {
                tokio::time::sleep(STALL.saturating_sub(gone.elapsed())).await;
                stalled.signal("CONT");
                stalled
            }
        };
        // Both servers run again, and each has runs to drive.
        env.start_some(10);
        tokio::time::sleep(Duration::from_secs(2)).await;
        env.observer.pace(Duration::from_millis(2));
        env.all_ended(&survivor, Duration::from_secs(90)).await;
        servers = [survivor, other];
    }
    servers.into_iter().for_each(|server| env.kill(server));
    let all = check::load(&db).await;
    let tally = check::check(&env.observer.observations(), &all, Servers::BesideEachOther);
    let written = effects::check(&db, &all).await;
    eprintln!("{away:?} {rounds} times, taken over after at most {slowest:?}: {tally:?}, {written} writes");
    assert!(tally.taken_up_again > 0);
}

fn leave(env: &mut Environment, server: Server, away: Away) -> Option<Server> {
    match away {
        Away::Killed => {
            env.kill(server);
            None
        }
        Away::Stalled => {
            server.signal("STOP");
            Some(server)
        }
    }
}

/// Returns the driven runs with their owner and last `seq`.
async fn running(db: &Db) -> BTreeMap<RunId, (String, i64)> {
    let rows = db.read(|tx| {
        let sql = "SELECT id, owner, seq FROM agent_runs WHERE status = 'running'";
        tx.query(sql, &[], |row| Ok((row.get::<RunId>(0)?, (row.get(1)?, row.get(2)?))))
    });
    let rows: Result<Vec<_>, emergent_store::Error> = rows.await;
    rows.expect("the runs").into_iter().collect()
}

/// Returns the process that last called a model for the run.
fn asker(env: &Environment, run: RunId) -> Option<usize> {
    env.observer.observations().asked.iter().rev().find(|asked| asked.run == run).map(|asked| asked.process)
}

async fn most_busy(env: &Environment, db: &Db, processes: [usize; 2]) -> usize {
    let running = running(db).await;
    let first = running.keys().filter(|run| asker(env, **run) == Some(processes[0])).count();
    if first * 2 >= running.len() { processes[0] } else { processes[1] }
}

/// Waits until all runs of a process have been taken over, and returns how long that took.
async fn taken_over(env: &Environment, db: &Db, process: usize, gone: Instant) -> Duration {
    let before = running(db).await;
    let owner = before.iter().find(|(run, _)| asker(env, **run) == Some(process)).map(|(_, at)| at.0.clone());
    let owner = owner.expect("the server had a run in hand");
    let in_hand: Vec<(RunId, i64)> =
        before.iter().filter(|(_, at)| at.0 == owner).map(|(run, at)| (*run, at.1)).collect();
    assert!(in_hand.len() >= 3, "the server had only {} runs in hand", in_hand.len());
    loop {
        let now = running(db).await;
        let waits = |(run, seq): &&(RunId, i64)| now.get(run).is_some_and(|at| at.0 == owner || at.1 <= *seq);
        let waiting: Vec<_> = in_hand.iter().filter(waits).collect();
        if waiting.is_empty() {
            return gone.elapsed();
        }
        assert!(gone.elapsed() < SOON, "after {SOON:?} nobody has taken over {waiting:?} of {in_hand:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
