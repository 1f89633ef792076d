//! The event stream of each of three servers shows what the others write: every change once, and how soon.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tokio::runtime::Runtime;

use super::{Cluster, STREAMS_PART};
use crate::{
    http::Http,
    report::{Goal, Report, p50, p99},
    server::TOKEN,
    streams::followers::{Arrival, Follower},
};

/// How many clients follow each server.
const FOLLOWERS: usize = 5;
/// How many changes are made on each server.
const CHANGES: usize = 40;
/// The pause before the next change, so that the latency is measured and not a queue of changes.
const PAUSE: Duration = Duration::from_millis(50);

/// On which server a change was made, and when it was requested.
struct Sent {
    server: usize,
    at: Instant,
}

pub(super) fn measure(report: &mut Report, cluster: &Cluster<'_>) {
    // The changes of this measurement have a type of their own: the servers may still write something else.
    let object_type = format!("Tick{}", uuid::Uuid::now_v7().simple());
    let runtime = Runtime::new().expect("a runtime");
    let (sent, arrivals) = runtime.block_on(follow(cluster, &object_type));
    let (mut own, mut others, mut missing) = (Vec::new(), Vec::new(), 0);
    for (followed, arrivals) in &arrivals {
        let distinct: BTreeSet<&str> = arrivals.iter().map(|arrival| arrival.entity.as_str()).collect();
        missing += sent.keys().filter(|id| !distinct.contains(id.as_str())).count();
        for arrival in arrivals {
            let Some(Sent { server, at }) = sent.get(&arrival.entity) else { continue };
            let milliseconds = arrival.at.duration_since(*at).as_secs_f64() * 1e3;
            let times = if server == followed { &mut own } else { &mut others };
            times.push(milliseconds);
        }
    }
    let servers = cluster.members.len();
    let name = format!(
        "{STREAMS_PART}, a change on one of {servers} servers to followers of the others, p99; raw: to its own followers"
    );
    report.add(&name, "postgres", p99(others.clone()), "ms", Some(p99(own.clone())), &Goal::Below(250.0));
    report.add("… p50", "postgres", p50(others), "ms", Some(p50(own)), &Goal::None);
    let name = "… changes that a follower missed or got twice";
    report.add(name, "postgres", missing as f64, "changes", None, &Goal::Below(1.0));
}

/// Makes changes on all servers in turn while clients follow each of them. Returns the changes, and what each follower of
/// which server received.
async fn follow(
    cluster: &Cluster<'_>,
    object_type: &str,
) -> (BTreeMap<String, Sent>, Vec<(usize, Vec<Arrival>)>) {
    let request = format!(
        "GET /api/events?types=graph HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {TOKEN}\r\n\r\n"
    );
    let expected = CHANGES * cluster.members.len();
    let mut tasks = Vec::new();
    for (number, member) in cluster.members.iter().enumerate() {
        for _ in 0..FOLLOWERS {
            let mut follower = Follower::connect(&member.server.address, Some(&request)).await;
            follower.skip_to("\"ready\"").await;
            tasks.push((number, tokio::spawn(receive(follower, object_type.to_owned(), expected))));
        }
    }
    let clients: Vec<Http> = cluster.members.iter().map(|member| member.server.http()).collect();
    let object_type = object_type.to_owned();
    let sent =
        tokio::task::spawn_blocking(move || make_changes(clients, &object_type)).await.expect("changes");
    let mut arrivals = Vec::with_capacity(tasks.len());
    for (number, task) in tasks {
        arrivals.push((number, task.await.expect("a follower")));
    }
    (sent, arrivals)
}

/// Receives so many changes of objects of a type. A change that came twice would be in the place of another one.
async fn receive(mut follower: Follower, object_type: String, expected: usize) -> Vec<Arrival> {
    let mut arrivals = Vec::with_capacity(expected);
    while arrivals.len() < expected {
        let line = follower.next_line().await;
        let at = Instant::now();
        if !line.contains(&object_type) {
            continue;
        }
        if let Some((_, rest)) = line.split_once("\"entityId\":\"") {
            let entity = rest.split('"').next().unwrap_or_default().to_owned();
            arrivals.push(Arrival { entity, at });
        }
    }
    arrivals
}

fn make_changes(mut clients: Vec<Http>, object_type: &str) -> BTreeMap<String, Sent> {
    let mut sent = BTreeMap::new();
    for number in 0..CHANGES {
        for (server, http) in clients.iter_mut().enumerate() {
            let body = json!({ "type": object_type, "properties": { "number": number } });
            let at = Instant::now();
            let answer: Value =
                serde_json::from_slice(http.post("/api/graph/objects", &body.to_string())).expect("JSON");
            sent.insert(answer["data"]["id"].as_str().expect("an id").to_owned(), Sent { server, at });
            std::thread::sleep(PAUSE);
        }
    }
    sent
}
