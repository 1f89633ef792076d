//! Workflows whose tasks are runs of one model call, on one, two and three servers.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{Cluster, PLAN, Rates, Throughput, WORKFLOWS_PART, processors::Processors};
use crate::{
    http::Http,
    report::{Goal, Report},
    server::TOKEN,
    workflows::{body, dispatch, get_workflow, not_done_once, task, wait},
};

const MAX_WORKFLOWS: usize = 30;
/// The tasks of a workflow: each layer waits for the one before.
const LAYERS: usize = 4;
const WIDTH: usize = 5;
const BLOCKERS: usize = 3;
/// The most tasks of one workflow at once.
const AT_ONCE: usize = 16;
const CLIENTS: usize = 4;

pub(super) fn measure(report: &mut Report, rates: &mut Rates, cluster: &Cluster<'_>) {
    let setup = cluster.setup();
    let workflows = (setup.runs / 100).clamp(1, MAX_WORKFLOWS);
    let agent = cluster.create_agent(PLAN, &json!({}));
    let tasks = body(&in_layers(&agent.name), AT_ONCE);
    let (processors, start) = (Processors::now(), Instant::now());
    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| {
            // Workflows are dispatched on all servers in turn, and any server may claim and drive them.
            let address = cluster.members[client % cluster.members.len()].server.address.clone();
            let (tasks, own) = (tasks.clone(), (client..workflows).step_by(CLIENTS));
            std::thread::spawn(move || {
                let mut http = Http::connect(&address, TOKEN);
                own.map(|_| dispatch(&mut http, &tasks)).collect::<Vec<String>>()
            })
        })
        .collect();
    let ids: Vec<String> =
        clients.into_iter().flat_map(|client| client.join().expect("a client that dispatches")).collect();
    let mut http = cluster.first().http();
    wait(&mut http, Duration::from_millis(100));
    let (seconds, busy) = (start.elapsed().as_secs_f64(), processors.busy_since());

    let work = format!("{workflows} of {} tasks of a 200 ms model", LAYERS * WIDTH);
    let throughput = Throughput {
        part: WORKFLOWS_PART,
        work: &work,
        rate: (workflows * LAYERS * WIDTH) as f64 / seconds,
        unit: "tasks/s",
        agent: &agent,
        busy,
        goal: None,
    };
    throughput.add_to(report, rates, cluster);
    let dispatchers = setup.database.workflows_by_dispatcher(&ids);
    eprintln!("{WORKFLOWS_PART}: workflows of each dispatcher {dispatchers:?}");
    let lost: usize = ids.iter().map(|id| not_done_once(&get_workflow(&mut http, id))).sum();
    report.add("… tasks lost or done twice", "postgres", lost as f64, "tasks", None, &Goal::Below(1.0));
}

/// Each task waits for three tasks of the previous layer.
fn in_layers(agent: &str) -> Vec<Value> {
    let key = |layer: usize, index: usize| format!("t{layer}-{}", index % WIDTH);
    let mut tasks = Vec::with_capacity(LAYERS * WIDTH);
    for layer in 0..LAYERS {
        for index in 0..WIDTH {
            let blockers = if layer == 0 { 0 } else { BLOCKERS };
            let blocked_by: Vec<String> =
                (0..blockers).map(|blocker| key(layer - 1, index + blocker)).collect();
            tasks.push(task(agent, &key(layer, index), &blocked_by));
        }
    }
    tasks
}
