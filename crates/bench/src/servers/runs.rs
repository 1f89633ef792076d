//! Runs of one model call, on one, two and three servers.

use std::time::Instant;

use serde_json::json;

use super::{
    Cluster, MAX_SERVERS, PLAN, RUNS_PART, Rates, Setup, Throughput, cluster::Agent, processors::Processors,
};
use crate::{
    report::{Goal, Report},
    workflows::thousands,
};

/// Enough slots that they are not the limit.
const MANY_SLOTS: usize = 256;
/// The same plan without latency.
const FAST_PLAN: &str = "s0-l0-read";

/// Measures how many runs a second this machine can do with three servers when neither slots nor the model limit it. The
/// rows with slots mean something only as far as they stay below that.
pub(super) fn measure_capacity(report: &mut Report, setup: Setup<'_>) {
    let many = Setup { slots: MANY_SLOTS, runs: (setup.runs / 3).max(1), ..setup };
    let cluster = Cluster::start(many, MAX_SERVERS);
    let (_, seconds, _) = run_all(&cluster, FAST_PLAN);
    let name = format!(
        "{RUNS_PART}, what the machine can do: {} runs, model without latency, {MANY_SLOTS} slots, three servers; \
         raw: what {} slots on three servers allow with 200 ms",
        thousands(many.runs),
        setup.slots
    );
    let (rate, limit) = (many.runs as f64 / seconds, setup.slot_limit(MAX_SERVERS));
    report.add(&name, "postgres", rate, "runs/s", Some(limit), &Goal::AtLeastTimes(1.5));
}

pub(super) fn measure(report: &mut Report, rates: &mut Rates, cluster: &Cluster<'_>) {
    let setup = cluster.setup();
    let (agent, seconds, busy) = run_all(cluster, PLAN);
    let work = format!("{} runs of a 200 ms model", thousands(setup.runs));
    let throughput = Throughput {
        part: RUNS_PART,
        work: &work,
        rate: setup.runs as f64 / seconds,
        unit: "runs/s",
        agent: &agent,
        busy,
        goal: Some(2.5),
    };
    throughput.add_to(report, rates, cluster);
    let wrong = setup.database.outcome(&agent).wrong(setup.runs);
    report.add("… runs that did not end exactly once", "postgres", wrong, "runs", None, &Goal::Below(1.0));
}

/// Starts all runs and waits for their end. Returns their agent, the seconds from the first request to the last end, and
/// which part of the machine's processor time was used.
fn run_all(cluster: &Cluster<'_>, plan: &str) -> (Agent, f64, f64) {
    let setup = cluster.setup();
    // Connections, threads and plans of statements exist before anything is measured.
    let warm_up = cluster.create_agent(plan, &json!({}));
    let count = (2 * setup.slots * cluster.members.len()).min(setup.runs);
    cluster.start_runs(&warm_up, count).join();
    setup.database.wait_until_ended(&warm_up, count);

    let agent = cluster.create_agent(plan, &json!({}));
    let (processors, start) = (Processors::now(), Instant::now());
    let started = cluster.start_runs(&agent, setup.runs).join();
    assert_eq!(started, setup.runs, "each request starts a run of its own");
    let created = start.elapsed();
    setup.database.wait_until_ended(&agent, setup.runs);
    let (seconds, busy) = (start.elapsed().as_secs_f64(), processors.busy_since());
    eprintln!(
        "{RUNS_PART}: {} runs after {seconds:.2} s, all of them requested within {created:.2?}",
        setup.runs
    );
    (agent, seconds, busy)
}
