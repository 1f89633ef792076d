//! Runs that the creation of objects triggers, on one, two and three servers. Every server reads the change feed for
//! triggers, and each object starts one run.

use std::time::Instant;

use serde_json::json;

use super::{Cluster, PLAN, Rates, TRIGGERS_PART, Throughput, processors::Processors};
use crate::{
    http::Http,
    report::{Goal, Report},
    server::TOKEN,
    workflows::thousands,
};

const CLIENTS: usize = 8;
/// One object is written for so many runs of the other part.
const RUNS_PER_OBJECT: usize = 10;
const MIN_OBJECTS: usize = 30;

pub(super) fn measure(report: &mut Report, rates: &mut Rates, cluster: &Cluster<'_>) {
    let setup = cluster.setup();
    let objects = (setup.runs / RUNS_PER_OBJECT).max(MIN_OBJECTS);
    let object_type = format!("Ping{}", uuid::Uuid::now_v7().simple());
    let trigger = json!({
        "trigger": "on_entity_created", "config": { "trigger": { "types": [object_type] } },
    });
    let agent = cluster.create_agent(PLAN, &trigger);
    let (processors, start) = (Processors::now(), Instant::now());
    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let address = cluster.members[client % cluster.members.len()].server.address.clone();
            let (object_type, own) = (object_type.clone(), (client..objects).step_by(CLIENTS));
            std::thread::spawn(move || {
                let mut http = Http::connect(&address, TOKEN);
                for number in own {
                    let body = json!({ "type": object_type, "properties": { "number": number } });
                    http.post("/api/graph/objects", &body.to_string());
                }
            })
        })
        .collect();
    clients.into_iter().for_each(|client| client.join().expect("a client that writes"));
    setup.database.wait_until_ended(&agent, objects);
    let (seconds, busy) = (start.elapsed().as_secs_f64(), processors.busy_since());

    let work = format!("{} objects that each start a run of a 200 ms model", thousands(objects));
    let throughput = Throughput {
        part: TRIGGERS_PART,
        work: &work,
        rate: objects as f64 / seconds,
        unit: "runs/s",
        agent: &agent,
        busy,
        goal: None,
    };
    throughput.add_to(report, rates, cluster);
    let wrong: f64 =
        setup.database.firings(&agent).iter().map(|count| (*count as f64 - objects as f64).abs()).sum();
    let wrong = wrong + setup.database.outcome(&agent).wrong(objects);
    report.add(
        "… objects that did not start exactly one run",
        "postgres",
        wrong,
        "",
        None,
        &Goal::Below(1.0),
    );
}
