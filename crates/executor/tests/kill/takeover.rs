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
    environment::{House, Server},
};

/// The maximum time until the runs of a lost server are taken over.
const SOON: Duration = Duration::from_secs(15);
/// How long a stalled server is stopped: its lease expires without its noticing.
const STALL: Duration = Duration::from_secs(20);

/// How a server is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Away {
    Killed,
    Stalled,
}

pub async fn story(house: &mut House, away: Away, rounds: usize) {
    // The remaining server has slots for all runs.
    house.places = 64;
    let db = house.db().await;
    let mut servers = [house.open(false).await, house.open(false).await];
    let mut slowest = Duration::ZERO;
    for _ in 0..rounds {
        house.desk.pace(Duration::from_millis(250));
        // The stalled server has to return while the runs are still active.
        let long = if away == Away::Stalled { 90 } else { 30 };
        for (agent, steps) in [("writer", long), ("caller", long), ("relay", 30)].repeat(4) {
            house.start(agent, steps);
        }
        house.start("boss", 3);
        let asked = house.desk.book().asked.len();
        let busy = house.desk.wait(Duration::from_secs(20), |book| book.asked.len() > asked + 60).await;
        assert!(busy, "the servers hardly came to do anything");
        let busier = most_busy(house, &db, [servers[0].process, servers[1].process]).await;
        if busier == servers[1].process {
            servers.swap(0, 1);
        }
        let [victim, survivor] = servers;
        let gone = Instant::now();
        let victim = leave(house, victim, away);
        slowest = slowest.max(taken_over(house, &db, busier, gone).await);
        let other = match victim {
            None => house.open(false).await,
            Some(stalled) => {
                tokio::time::sleep(STALL.saturating_sub(gone.elapsed())).await;
                stalled.signal("CONT");
                stalled
            }
        };
        // Both servers run again, and each has runs to drive.
        house.start_some(10);
        tokio::time::sleep(Duration::from_secs(2)).await;
        house.desk.pace(Duration::from_millis(2));
        house.all_ended(&survivor, Duration::from_secs(90)).await;
        servers = [survivor, other];
    }
    servers.into_iter().for_each(|server| house.kill(server));
    let all = check::load(&db).await;
    let tally = check::check(&house.desk.book(), &all, Servers::BesideEachOther);
    let written = effects::check(&db, &all).await;
    eprintln!("{away:?} {rounds} times, taken over after at most {slowest:?}: {tally:?}, {written} writes");
    assert!(tally.taken_up_again > 0);
}

fn leave(house: &mut House, server: Server, away: Away) -> Option<Server> {
    match away {
        Away::Killed => {
            house.kill(server);
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
fn asker(house: &House, run: RunId) -> Option<usize> {
    house.desk.book().asked.iter().rev().find(|asked| asked.run == run).map(|asked| asked.process)
}

async fn most_busy(house: &House, db: &Db, processes: [usize; 2]) -> usize {
    let running = running(db).await;
    let first = running.keys().filter(|run| asker(house, **run) == Some(processes[0])).count();
    if first * 2 >= running.len() { processes[0] } else { processes[1] }
}

/// Waits until all runs of a process have been taken over, and returns how long that took.
async fn taken_over(house: &House, db: &Db, process: usize, gone: Instant) -> Duration {
    let before = running(db).await;
    let owner =
        before.iter().find(|(run, _)| asker(house, **run) == Some(process)).map(|(_, at)| at.0.clone());
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
