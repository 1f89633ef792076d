//! Several servers on one PostgreSQL: how runs, workflows, triggers and event streams are shared by one, two and three
//! of them, and what happens when one is added, stopped or killed while runs are in progress.
//!
//! The model takes 200 ms for each answer, and each server has few slots. The slots are then the limit and not the
//! processors of the machine, which all servers, the database, the model and the clients share here. The rows about
//! processors show whether that held.

mod cluster;
mod database;
mod membership;
mod processors;
mod runs;
mod streams;
mod triggers;
mod workflows;

use std::collections::BTreeMap;

use self::{
    cluster::{Agent, Cluster},
    database::Database,
};
use crate::{
    Options,
    model::Model,
    report::{Goal, Report},
};

const RUNS: usize = 3_000;
/// The slots of each server. With 200 ms for an answer they allow 40 runs a second.
const SLOTS: usize = 8;
const MAX_SERVERS: usize = 3;
/// An agent with this model makes one call, which is answered after 200 ms.
const PLAN: &str = "s0-l200-read";
const LATENCY_SECONDS: f64 = 0.2;

const RUNS_PART: &str = "servers: runs";
const WORKFLOWS_PART: &str = "servers: workflows";
const TRIGGERS_PART: &str = "servers: triggers";
const STREAMS_PART: &str = "servers: streams";
const MEMBERSHIP_PART: &str = "servers: added and removed";

/// What all parts use.
#[derive(Clone, Copy)]
struct Setup<'a> {
    options: &'a Options,
    model: &'a Model,
    url: &'a str,
    database: &'a Database,
    slots: usize,
    runs: usize,
}

impl Setup<'_> {
    /// How many runs of one call a second the slots of so many servers allow.
    fn slot_limit(&self, servers: usize) -> f64 {
        (self.slots * servers) as f64 / LATENCY_SECONDS
    }

    /// The goals hold for the whole measurement only.
    fn is_whole(&self) -> bool {
        self.runs >= RUNS
    }
}

/// The throughput of one server for each part, which that of several servers is compared with.
type Rates = BTreeMap<&'static str, f64>;

/// Whether any row about several servers is selected: `--only servers`, or for example `--only "servers: workflows"`.
pub fn is_selected(report: &Report) -> bool {
    [RUNS_PART, WORKFLOWS_PART, TRIGGERS_PART, STREAMS_PART, MEMBERSHIP_PART]
        .iter()
        .any(|part| report.wants(part))
}

/// Whether only these rows are selected. The names of some other rows contain the word as well.
pub fn is_only(options: &Options) -> bool {
    options.only.as_deref().is_some_and(|only| only.starts_with("servers"))
}

pub fn measure(report: &mut Report, options: &Options) {
    if !is_selected(report) {
        return;
    }
    let Some(url) = options.postgres.as_deref() else {
        eprintln!(
            "servers: not measured, because several servers need PostgreSQL; run this with `scripts/postgres --durable \
             run`, or name a database with --postgres"
        );
        return;
    };
    let (model, database) = (Model::start(options), Database::connect(url));
    let setup = Setup {
        options,
        model: &model,
        url,
        database: &database,
        slots: options.slots.unwrap_or(SLOTS).max(1),
        runs: options.runs.unwrap_or(RUNS).max(1),
    };
    eprintln!(
        "servers: {} slots each (EMERGENT_MAX_RUNS) and a model that answers after 200 ms, so the slots allow {} runs/s \
         of one server and {} of three; all requests that start runs go to the first server",
        setup.slots,
        setup.slot_limit(1),
        setup.slot_limit(MAX_SERVERS),
    );
    if report.wants(RUNS_PART) {
        runs::measure_capacity(report, setup);
    }
    let mut rates = Rates::new();
    for count in 1..=MAX_SERVERS {
        let shared = [RUNS_PART, WORKFLOWS_PART, TRIGGERS_PART];
        if !shared.iter().any(|part| report.wants(part)) {
            break;
        }
        let cluster = Cluster::start(setup, count);
        if report.wants(RUNS_PART) {
            runs::measure(report, &mut rates, &cluster);
        }
        if report.wants(WORKFLOWS_PART) {
            workflows::measure(report, &mut rates, &cluster);
        }
        if report.wants(TRIGGERS_PART) {
            triggers::measure(report, &mut rates, &cluster);
        }
    }
    if report.wants(STREAMS_PART) {
        streams::measure(report, &Cluster::start(setup, MAX_SERVERS));
    }
    if report.wants(MEMBERSHIP_PART) {
        membership::measure(report, setup);
    }
}

/// The throughput of one kind of work on all servers of a cluster.
struct Throughput<'a> {
    part: &'static str,
    /// What was done, for example `3,000 runs`.
    work: &'a str,
    /// How many runs or tasks ended a second.
    rate: f64,
    unit: &'static str,
    /// The agent of all runs, by which the shares of the servers are counted.
    agent: &'a Agent,
    /// Which part of the machine's processor time was used.
    busy: f64,
    /// How many times the rate of one server three servers must reach.
    goal: Option<f64>,
}

impl Throughput<'_> {
    fn add_to(&self, report: &mut Report, rates: &mut Rates, cluster: &Cluster<'_>) {
        let (setup, count) = (cluster.setup(), cluster.members.len());
        let name =
            format!("{}, {}, {}; raw: what the slots allow", self.part, self.work, servers_text(count));
        report.add(&name, "postgres", self.rate, self.unit, Some(setup.slot_limit(count)), &Goal::None);
        let one = *rates.entry(self.part).or_insert(self.rate);
        if count > 1 {
            let goal = match self.goal {
                Some(times) if count == MAX_SERVERS && setup.is_whole() => Goal::AtLeast(times),
                _ => Goal::None,
            };
            report.add("… in relation to one server", "postgres", self.rate / one, "×", None, &goal);
            let shares = cluster.count_runs(self.agent);
            eprintln!("{name}: runs of each server {:?}, of others {}", shares.of_members, shares.of_others);
            let fewest = shares.of_members.iter().min().copied().unwrap_or(0) as f64;
            let equal = shares.total() as f64 / count as f64;
            let name = "… runs of the server with the fewest; raw: an equal share";
            report.add(name, "postgres", fewest, "runs", Some(equal), &Goal::AtLeastTimes(0.75));
        }
        let name = "… processors of the machine in use";
        report.add(name, "postgres", self.busy * 100.0, "%", None, &Goal::Below(90.0));
    }
}

fn servers_text(count: usize) -> &'static str {
    match count {
        1 => "one server",
        2 => "two servers",
        _ => "three servers",
    }
}
