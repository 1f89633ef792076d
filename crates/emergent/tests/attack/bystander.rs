//! Another project, which reads and writes all the time while somebody attacks.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use reqwest::Method;
use serde_json::json;
use tokio::task::JoinHandle;

use crate::{
    common::{Api, Server},
    project_token,
};

/// The most memory that the server may ever have had, whatever the attack is.
const MAX_MEMORY: u64 = 1 << 30;
/// How long ninety-nine of a hundred requests may take on a machine that runs whatever is ready.
const MAX_P99: Duration = Duration::from_secs(1);
/// How often a request waits for the processor: in the client, in the server, and in the database.
const TURNS: u32 = 10;
/// How long a bystander may need for its first requests.
const MIN_REQUESTS_TIME: Duration = Duration::from_secs(60);
/// A percentile of fewer requests would mean nothing.
const MIN_REQUESTS: usize = 100;
const PAUSE: Duration = Duration::from_millis(5);
const OBJECTS: &str = "/api/graph/objects";

/// The largest memory that the server has had, in bytes.
pub fn peak_memory(server: &Server) -> u64 {
    let status =
        std::fs::read_to_string(format!("/proc/{}/status", server.launched.id())).expect("its status");
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).expect("VmHWM");
    let kilobytes: u64 = line.split_whitespace().nth(1).expect("a number").parse().expect("a number");
    kilobytes << 10
}

/// A client of another project. It reads and writes until it is stopped, and measures each request.
pub struct Bystander {
    working: [JoinHandle<()>; 2],
    times: Arc<Mutex<Vec<Duration>>>,
    /// How late a thread that only sleeps was woken. A machine whose processors are lent to others wakes it late, and
    /// the server is not to blame for that.
    late: Arc<Mutex<Vec<Duration>>>,
}

impl Bystander {
    pub async fn start(server: &Server) -> Self {
        Self::with(project_token(server, "bystander", &["graph:read", "graph:write"]).await)
    }

    /// Works with this client, in its project.
    pub fn with(api: Api) -> Self {
        let times = Arc::<Mutex<Vec<Duration>>>::default();
        let work = |method: Method, expected: u16| {
            let (api, times) = (api.clone(), Arc::clone(&times));
            tokio::spawn(async move {
                loop {
                    let started = Instant::now();
                    assert_eq!(status(&api, &method).await, expected, "{method}");
                    times.lock().unwrap().push(started.elapsed());
                    tokio::time::sleep(PAUSE).await;
                }
            })
        };
        Self { working: [work(Method::GET, 200), work(Method::POST, 201)], times, late: sleeper() }
    }

    /// Stops, and checks that every request succeeded, that they were answered in time, and that the server
    /// took no more memory than it may. Returns how much longer requests may take than on a machine of one's own.
    pub async fn assert_served(self, server: &Server) -> Duration {
        let started = Instant::now();
        while self.times.lock().unwrap().len() < MIN_REQUESTS && started.elapsed() < MIN_REQUESTS_TIME {
            tokio::time::sleep(PAUSE).await;
        }
        for work in &self.working {
            assert!(!work.is_finished(), "the other project's requests succeed");
            work.abort();
        }
        let times = self.times.lock().unwrap().clone();
        let count = times.len();
        assert!(count >= MIN_REQUESTS, "only {count} requests");
        let [p50, p99] = percentiles(times);
        let [_, late] = percentiles(self.late.lock().unwrap().clone());
        let memory = peak_memory(server) >> 20;
        eprintln!("{count} requests, p50 {p50:?}, p99 {p99:?}, {memory} MB; p99 of the machine {late:?}");
        assert!(p99 < MAX_P99 + late * TURNS, "p99 {p99:?} of {count} requests; of the machine {late:?}");
        assert!(peak_memory(server) < MAX_MEMORY, "the server had {} MB", peak_memory(server) >> 20);
        late * TURNS
    }
}

/// Starts a thread that sleeps for [`PAUSE`] again and again, and records how much later it was woken each time. It ends
/// when nobody else has the record.
fn sleeper() -> Arc<Mutex<Vec<Duration>>> {
    let late = Arc::new(Mutex::new(Vec::new()));
    let record = Arc::clone(&late);
    std::thread::spawn(move || {
        while Arc::strong_count(&record) > 1 {
            let started = Instant::now();
            std::thread::sleep(PAUSE);
            record.lock().unwrap().push(started.elapsed().saturating_sub(PAUSE));
        }
    });
    late
}

/// The 50th and the 99th percentile; zero of nothing.
fn percentiles(mut times: Vec<Duration>) -> [Duration; 2] {
    times.sort();
    [50, 99].map(|percent| times.get(times.len() * percent / 100).copied().unwrap_or_default())
}

/// Makes a request, and once more if its connection was closed meanwhile, as clients do.
async fn status(api: &Api, method: &Method) -> u16 {
    let request = || match *method {
        Method::POST => {
            api.request(Method::POST, OBJECTS).json(&json!({ "type": "Note", "properties": { "n": 1 } }))
        }
        _ => api.request(Method::GET, &format!("{OBJECTS}?limit=1")),
    };
    let answer = match request().send().await {
        Ok(answer) => answer,
        Err(_) => request().send().await.expect("an answer"),
    };
    answer.status().as_u16()
}
