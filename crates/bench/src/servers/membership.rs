//! Servers that come and go while runs are in progress: one is added to two, one is stopped with SIGTERM, one is killed
//! with SIGKILL, and the one that is left completes everything.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::json;

use super::{
    Cluster, MEMBERSHIP_PART, PLAN, Setup,
    cluster::{Agent, Member},
};
use crate::{
    report::{Goal, Report},
    workflows::thousands,
};

/// Fewer runs would have ended before all servers have come and gone.
const RUNS_PER_SLOT: usize = 100;
/// The longest time that is waited for one change of the servers to take effect.
const PATIENCE: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

pub(super) fn measure(report: &mut Report, setup: Setup<'_>) {
    let runs = setup.runs.max(RUNS_PER_SLOT * setup.slots);
    let mut cluster = Cluster::start(setup, 2);
    let agent = cluster.create_agent(PLAN, &json!({}));
    let starts = cluster.start_runs(&agent, runs);
    setup.database.wait_until_ended(&agent, runs / 6);
    add_server(report, &mut cluster, &agent, runs);
    stop_server(report, setup, cluster.members.remove(1));
    setup.database.wait_until_ended(&agent, runs * 2 / 3);
    kill_server(report, setup, cluster.members.remove(1));
    assert_eq!(starts.join(), runs, "each request starts a run of its own");
    setup.database.wait_until_ended(&agent, runs);
    // A server that believes that it still owns a run would write now.
    std::thread::sleep(Duration::from_secs(2));
    let counts = cluster.count_runs(&agent);
    eprintln!(
        "{MEMBERSHIP_PART}: {} runs of the server that was there all the time, {} of the others",
        counts.of_members[0], counts.of_others
    );
    let wrong = setup.database.outcome(&agent).wrong(runs);
    let name = format!("{MEMBERSHIP_PART}, {} runs: runs that did not end exactly once", thousands(runs));
    report.add(&name, "postgres", wrong, "runs", None, &Goal::Below(1.0));
}

/// Starts a third server, and measures how soon it has runs and how many of those that start from then on.
fn add_server(report: &mut Report, cluster: &mut Cluster<'_>, agent: &Agent, runs: usize) {
    let (setup, start) = (cluster.setup(), Instant::now());
    cluster.add();
    let added = cluster.members.last().expect("the server that was added");
    let ready = start.elapsed();
    let first = seconds_until(start, || setup.database.owned(agent, &added.owner) > 0);
    let from = clock_seconds();
    // A slot that was just freed may be empty at the moment of the look.
    let many = i64::try_from(setup.slots * 3 / 4).unwrap_or(i64::MAX).max(1);
    let busy = seconds_until(start, || setup.database.running(&added.owner) >= many);
    eprintln!("{MEMBERSHIP_PART}: the added server answers and has its lease {ready:.2?} after its start");
    let name = format!("{MEMBERSHIP_PART}, start of a third server to its first run");
    report.add(&name, "postgres", first, "s", None, &Goal::Below(10.0));
    let name = "… to runs in three quarters of its slots";
    report.add(name, "postgres", busy, "s", None, &Goal::Below(10.0));

    setup.database.wait_until_ended(agent, runs / 2);
    let started = setup.database.runs_started_between(agent, from, clock_seconds());
    let (all, own) = (started.values().sum::<i64>(), started.get(&added.owner).copied().unwrap_or(0));
    let equal = all as f64 / cluster.members.len() as f64;
    let name = "… its runs from then on; raw: an equal share";
    report.add(name, "postgres", own as f64, "runs", Some(equal), &Goal::AtLeastTimes(0.75));
}

/// Stops a server with SIGTERM. It finishes what it can within its grace period and gives up the rest.
fn stop_server(report: &mut Report, setup: Setup<'_>, Member { server, owner }: Member) {
    let start = Instant::now();
    let ended = server.terminate();
    let left = setup.database.running(&owner);
    let taken = seconds_until(start, || setup.database.running(&owner) == 0);
    eprintln!("{MEMBERSHIP_PART}: the server that was stopped left {left} runs in progress");
    let name = format!("{MEMBERSHIP_PART}, SIGTERM to the end of the process");
    report.add(&name, "postgres", ended, "s", None, &Goal::Below(10.0));
    let name = "… to its last run with another server";
    report.add(name, "postgres", taken, "s", None, &Goal::Below(10.0));
}

/// Kills a server. Its runs stay with it until its lease has expired.
fn kill_server(report: &mut Report, setup: Setup<'_>, Member { server, owner }: Member) {
    let start = Instant::now();
    server.kill();
    let left = setup.database.running(&owner);
    let taken = seconds_until(start, || setup.database.running(&owner) == 0);
    eprintln!("{MEMBERSHIP_PART}: the server that was killed left {left} runs in progress");
    let name = format!("{MEMBERSHIP_PART}, SIGKILL to its last run with another server");
    report.add(&name, "postgres", taken, "s", None, &Goal::Below(15.0));
}

/// Waits for a condition, and returns the seconds since `start`; infinity if it is not met in time.
fn seconds_until(start: Instant, is_met: impl Fn() -> bool) -> f64 {
    let waiting_since = Instant::now();
    while !is_met() {
        if waiting_since.elapsed() > PATIENCE {
            return f64::INFINITY;
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    start.elapsed().as_secs_f64()
}

/// The time of the machine's clock, which the timestamps of runs are of.
fn clock_seconds() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock").as_secs_f64()
}
