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
/// How long ninety-nine of a hundred requests may take.
const MAX_P99: Duration = Duration::from_secs(1);
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
        Self { working: [work(Method::GET, 200), work(Method::POST, 201)], times }
    }

    /// Stops, and checks that every request succeeded, that they were answered in time, and that the server
    /// took no more memory than it may.
    pub async fn assert_served(self, server: &Server) {
        let started = Instant::now();
        while self.times.lock().unwrap().len() < MIN_REQUESTS && started.elapsed() < MAX_P99 * 5 {
            tokio::time::sleep(PAUSE).await;
        }
        for work in &self.working {
            assert!(!work.is_finished(), "the other project's requests succeed");
            work.abort();
        }
        let mut times = self.times.lock().unwrap().clone();
        times.sort();
        assert!(times.len() >= MIN_REQUESTS, "only {} requests", times.len());
        let (p50, p99) = (times[times.len() / 2], times[times.len() * 99 / 100]);
        eprintln!("{} requests, p50 {p50:?}, p99 {p99:?}, {} MB", times.len(), peak_memory(server) >> 20);
        assert!(p99 < MAX_P99, "p99 {p99:?} of {} requests", times.len());
        assert!(peak_memory(server) < MAX_MEMORY, "the server had {} MB", peak_memory(server) >> 20);
    }
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
