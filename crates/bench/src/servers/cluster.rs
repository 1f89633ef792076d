//! Servers that share one database. Each is a process of its own, with a data folder of its own.

use std::{
    collections::BTreeSet,
    thread::JoinHandle,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::Setup;
use crate::{
    http::Http,
    runs,
    server::{Server, TOKEN},
};

/// How many clients start runs at the same time.
const CLIENTS: usize = 8;
/// How long a server that answers may take until its runner is registered.
const REGISTRATION_TIMEOUT: Duration = Duration::from_secs(10);

/// A server, and the name by which its runner owns runs.
pub(super) struct Member {
    pub server: Server,
    pub owner: String,
}

pub(super) struct Cluster<'a> {
    setup: Setup<'a>,
    pub members: Vec<Member>,
}

/// An agent of a measurement, which has runs of this measurement only.
pub(super) struct Agent {
    pub id: String,
    pub name: String,
}

/// How many runs each server drove to their end.
pub(super) struct RunCounts {
    pub of_members: Vec<i64>,
    /// Runs of servers that are not in the cluster any more, or whose runner had to take a new name.
    pub of_others: i64,
}

impl RunCounts {
    pub fn total(&self) -> i64 {
        self.of_members.iter().sum::<i64>() + self.of_others
    }
}

impl<'a> Cluster<'a> {
    pub fn start(setup: Setup<'a>, count: usize) -> Self {
        let mut cluster = Self { setup, members: Vec::new() };
        for _ in 0..count {
            cluster.add();
        }
        cluster
    }

    /// Starts another server, and waits until it answers and its runner is registered.
    pub fn add(&mut self) {
        let setup = self.setup;
        let before = setup.database.runners();
        let settings = [
            ("EMERGENT_OPENAI_BASE_URL", format!("http://{}", setup.model.address)),
            ("OPENAI_API_KEY", "none".to_owned()),
            ("EMERGENT_MAX_RUNS", setup.slots.to_string()),
            // All runs are of one project, which would get three quarters of the slots otherwise.
            ("EMERGENT_MAX_PROJECT_RUNS", setup.slots.to_string()),
            ("EMERGENT_MODEL_CALLS", "20000".to_owned()),
        ];
        let dir = tempfile::tempdir().expect("a folder");
        let server = Server::start_with(&setup.options.binary, dir, Some(setup.url), "off", &settings);
        let start = Instant::now();
        let owner = loop {
            if let Some(owner) = setup.database.runners().difference(&before).next() {
                break owner.clone();
            }
            assert!(start.elapsed() < REGISTRATION_TIMEOUT, "the server registers no runner");
            std::thread::sleep(Duration::from_millis(10));
        };
        self.members.push(Member { server, owner });
    }

    pub fn setup(&self) -> Setup<'a> {
        self.setup
    }

    /// The server that clients send their requests to.
    pub fn first(&self) -> &Server {
        &self.members[0].server
    }

    /// Creates an agent without tools that uses a plan of the model. `more` are additional fields of its definition.
    pub fn create_agent(&self, plan: &str, more: &Value) -> Agent {
        let name = format!("bench-{}", uuid::Uuid::now_v7().simple());
        let mut body = json!({
            "name": name, "systemPrompt": "Do what you are asked and report.",
            "model": { "provider": "openai", "name": plan }, "tools": [], "defaultTimeout": 3_600,
        });
        for (field, value) in more.as_object().into_iter().flatten() {
            body[field] = value.clone();
        }
        let mut http = self.first().http();
        let answer: Value =
            serde_json::from_slice(http.post("/api/admin/agents", &body.to_string())).expect("JSON");
        Agent { id: answer["data"]["id"].as_str().expect("an id").to_owned(), name }
    }

    /// Starts runs on the first server, from several clients. The others get their share from the queue.
    pub fn start_runs(&self, agent: &Agent, count: usize) -> RunStarts {
        let start = |client: usize| {
            let (address, agent) = (self.first().address.clone(), agent.id.clone());
            let own = count / CLIENTS + usize::from(client < count % CLIENTS);
            std::thread::spawn(move || {
                let mut http = Http::connect(&address, TOKEN);
                (0..own).map(|_| runs::trigger(&mut http, &agent)).collect::<Vec<String>>()
            })
        };
        RunStarts((0..CLIENTS).map(start).collect())
    }

    /// Counts the runs of an agent by server, in the order of the members.
    pub fn count_runs(&self, agent: &Agent) -> RunCounts {
        let mut counts = self.setup.database.runs_by_owner(agent);
        let of_members =
            self.members.iter().map(|member| counts.remove(&member.owner).unwrap_or(0)).collect();
        RunCounts { of_members, of_others: counts.values().sum() }
    }
}

/// The clients that start runs.
pub(super) struct RunStarts(Vec<JoinHandle<Vec<String>>>);

impl RunStarts {
    /// Waits until all runs are started, and returns how many different ones there are.
    pub fn join(self) -> usize {
        let ids: BTreeSet<String> =
            self.0.into_iter().flat_map(|client| client.join().expect("a client that starts runs")).collect();
        ids.len()
    }
}
