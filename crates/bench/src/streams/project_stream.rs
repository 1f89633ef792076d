//! The stream of a project with a thousand followers: the time from the request that changes something to the
//! arrival of the change at each follower, on one server, and from one server to another one. The baseline is a
//! thread that writes the same bytes to as many connections.

use std::{
    collections::HashMap,
    io::Write,
    net::{TcpListener, TcpStream},
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tokio::runtime::Runtime;

use super::followers::{Arrival, Follower};
use crate::{
    Options,
    report::{Goal, Report, p50, p99},
    server::{Server, TOKEN},
    workflows::thousands,
};

const FOLLOWERS: usize = 1_000;
const CHANGES: usize = 50;
/// Each figure is the median of this many rounds.
const ROUNDS: usize = 3;
/// The pause before the next change, so that the latency is measured and not a queue of changes.
const PAUSE: Duration = Duration::from_millis(150);

/// Which server is changed, and which one is followed.
enum Servers {
    One(Server),
    Two { changed: Server, followed: Server },
}

impl Servers {
    fn changed(&self) -> &Server {
        match self {
            Self::One(changed) | Self::Two { changed, .. } => changed,
        }
    }

    fn followed(&self) -> &Server {
        match self {
            Self::One(followed) | Self::Two { followed, .. } => followed,
        }
    }
}

pub(super) fn is_selected(report: &Report) -> bool {
    report.wants("project stream")
}

pub(super) fn measure(report: &mut Report, options: &Options) {
    let count = options.count.unwrap_or(FOLLOWERS);
    let start = |postgres: Option<&str>| {
        Server::start(&options.binary, tempfile::tempdir().expect("a folder"), postgres, "off")
    };
    report_servers(report, &Servers::One(start(None)), count, "one server", 50.0);
    if let Some(url) = options.postgres.as_deref() {
        report_servers(report, &Servers::One(start(Some(url))), count, "one server", 50.0);
        let servers = Servers::Two { changed: start(Some(url)), followed: start(Some(url)) };
        report_servers(report, &servers, count, "from one server to another", 250.0);
    }
}

fn report_servers(report: &mut Report, servers: &Servers, count: usize, which: &str, limit_ms: f64) {
    let runtime = Runtime::new().expect("a runtime");
    let (mut all, mut half, mut memory) = (vec![], vec![], vec![]);
    let (mut raw_all, mut raw_half) = (vec![], vec![]);
    for _ in 0..ROUNDS {
        let raw = runtime.block_on(follow_sockets(count));
        raw_all.push(p99(raw.clone()));
        raw_half.push(p50(raw));
        let (times, kilobytes) = runtime.block_on(follow_project(servers, count));
        all.push(p99(times.clone()));
        half.push(p50(times));
        memory.push(kilobytes);
    }
    let engine = servers.followed().engine;
    let name = format!("project stream, {}, {} followers: ", which, thousands(count));
    let change = format!("{name}request of a change to its arrival, p99; raw: bytes to as many sockets");
    report.add(&change, engine, p50(all), "ms", Some(p50(raw_all)), &Goal::Below(limit_ms));
    report.add(&format!("{name}… p50"), engine, p50(half), "ms", Some(p50(raw_half)), &Goal::None);
    // The first round has what later ones find again: buffers and caches that stay.
    report.add(&format!("{name}memory of each"), engine, memory[0], "KB", None, &Goal::None);
}

/// Returns the milliseconds that each change took to each follower, and the memory of a follower in kilobytes.
async fn follow_project(servers: &Servers, count: usize) -> (Vec<f64>, f64) {
    let followed = servers.followed();
    let request = format!(
        "GET /api/events?types=graph HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {TOKEN}\r\n\r\n"
    );
    let before = followed.memory_mb();
    let mut tasks = Vec::with_capacity(count);
    for _ in 0..count {
        let mut follower = Follower::connect(&followed.address, Some(&request)).await;
        follower.skip_to("\"ready\"").await;
        tasks.push(follower.receive(CHANGES));
    }
    let mut http = servers.changed().http();
    let write = move || {
        let mut sent = HashMap::new();
        for number in 0..CHANGES {
            let body = json!({ "type": "Fact", "properties": { "title": format!("Fact {number}") } });
            let at = Instant::now();
            let answer: Value =
                serde_json::from_slice(http.post("/api/graph/objects", &body.to_string())).expect("JSON");
            sent.insert(answer["data"]["id"].as_str().expect("an id").to_owned(), at);
            std::thread::sleep(PAUSE);
        }
        sent
    };
    let sent = tokio::task::spawn_blocking(write).await.expect("changes");
    let (mut times, mut open) = (Vec::new(), Vec::new());
    for task in tasks {
        let (follower, arrivals) = task.await.expect("a follower");
        times.extend(arrivals.iter().map(|arrival| since(&sent, arrival)));
        open.push(follower);
    }
    assert_eq!(times.len(), count * CHANGES, "each follower receives each change once");
    (times, (followed.memory_mb() - before) * 1024.0 / count as f64)
}

/// The same bytes, written by one thread to as many connections.
async fn follow_sockets(count: usize) -> Vec<f64> {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let (mut tasks, mut sockets) = (Vec::with_capacity(count), Vec::<TcpStream>::with_capacity(count));
    for _ in 0..count {
        tasks.push(Follower::connect(&address, None).await.receive(CHANGES));
        let (socket, _) = listener.accept().expect("a connection");
        socket.set_nodelay(true).expect("TCP_NODELAY");
        sockets.push(socket);
    }
    let write = move || {
        let mut sent = HashMap::new();
        for number in 0..CHANGES {
            let entity = format!("{number:036}");
            let rest = "x".repeat(200);
            let frame = format!(
                "id: 1\ndata: {{\"type\":\"graph\",\"change\":{{\"entityId\":\"{entity}\",\"rest\":\"{rest}\"}}}}\n\n"
            );
            sent.insert(entity, Instant::now());
            sockets.iter_mut().for_each(|socket| socket.write_all(frame.as_bytes()).expect("a client"));
            std::thread::sleep(PAUSE);
        }
        (sent, sockets)
    };
    let (sent, _sockets) = tokio::task::spawn_blocking(write).await.expect("changes");
    let mut times = Vec::new();
    for task in tasks {
        let (_follower, arrivals) = task.await.expect("a follower");
        times.extend(arrivals.iter().map(|arrival| since(&sent, arrival)));
    }
    times
}

fn since(sent: &HashMap<String, Instant>, arrival: &Arrival) -> f64 {
    let sent = sent.get(&arrival.entity).expect("a change that was made");
    arrival.at.duration_since(*sent).as_secs_f64() * 1e3
}
