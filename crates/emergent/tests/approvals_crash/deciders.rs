//! The people of the test: they start runs and decide about what waits, two at the same time about each call, until
//! a server is gone.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::future::join_all;
use rand::{Rng, SeedableRng, rngs::StdRng};
use reqwest::Method;
use serde_json::{Value, json};

use crate::{RUNS, agents::Agents, common::Api};

/// How far the clients of a round are: their runs are started, one of them waits, and one decision after the other
/// is acknowledged.
const STARTED: usize = 1;
const PENDING: usize = 2;
pub const DECIDED: usize = 3;

/// What clients know about requests.
#[derive(Default)]
pub struct Ledger {
    /// The decisions that a server acknowledged.
    pub acknowledged: HashMap<String, String>,
    /// The requests about which nobody has sent a decision, with their runs.
    untouched: HashMap<String, String>,
    attempted: HashSet<String>,
    /// How often two decisions about one request were answered, one with 200 and the other one with 409.
    pub contests: usize,
}

impl Ledger {
    pub fn add(&mut self, other: Ledger) {
        for (id, decision) in other.acknowledged {
            assert_eq!(self.acknowledged.insert(id, decision), None, "a request is decided once");
        }
        self.attempted.extend(other.attempted);
        self.untouched.extend(other.untouched);
        self.untouched.retain(|id, _| !self.attempted.contains(id));
        self.contests += other.contests;
    }

    /// Requests that nobody decided wait on after a kill, and so do their runs.
    pub async fn check_waiting(&self, api: &Api) {
        if self.untouched.is_empty() {
            return;
        }
        let ids = |items: Vec<Value>| -> HashSet<String> {
            items.iter().map(|item| item["id"].as_str().expect("an id").to_owned()).collect()
        };
        let pending = ids(api.all("/api/approvals?status=pending").await);
        let waiting = ids(api.all("/api/admin/runs?status=waiting").await);
        for (id, run) in &self.untouched {
            assert!(pending.contains(id), "request {id} was pending and was not decided");
            assert!(waiting.contains(run), "run {run} waits for request {id}");
        }
    }
}

/// What a person got for a decision.
enum Reply {
    Accepted,
    AlreadyDecided,
    /// There was no whole answer, so nobody knows what came of it.
    Lost,
}

pub struct Deciders {
    pub apis: Vec<Api>,
    pub agents: Agents,
    pub round: usize,
    pub progress: Arc<AtomicUsize>,
    pub is_over: Arc<AtomicBool>,
}

impl Deciders {
    fn reached(&self, moment: usize) {
        self.progress.fetch_max(moment, Ordering::Relaxed);
    }

    /// Starts runs and decides about most of what waits, until a server is gone.
    pub async fn work(self, seed: u64) -> Ledger {
        let (mut dice, mut ledger) = (StdRng::seed_from_u64(seed), Ledger::default());
        let started = join_all((0..RUNS).map(|number| self.start(number))).await;
        if started.contains(&false) {
            return ledger;
        }
        self.reached(STARTED);
        while !self.is_over.load(Ordering::Relaxed) {
            let api = &self.apis[dice.random_range(0..self.apis.len())];
            let Ok(pending) = api.send(Method::GET, "/api/approvals?status=pending", None).await else {
                return ledger;
            };
            let pending = pending.data();
            let items = pending.as_array().expect("a list");
            if !items.is_empty() {
                self.reached(PENDING);
            }
            if !decide_some(&self.apis, items, 0.75, &mut dice, &mut ledger, &self.progress).await {
                return ledger;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        ledger
    }

    /// Starts a run; false when the server is gone.
    async fn start(&self, number: usize) -> bool {
        let api = &self.apis[(self.round + number) % self.apis.len()];
        let body = json!({ "input": format!("effect {}.{number}", self.round) });
        api.send(Method::POST, &self.agents.trigger(number), Some(&body)).await.is_ok()
    }
}

/// Decides about a part of the requests, all at once; false when a server is gone.
async fn decide_some(
    apis: &[Api],
    items: &[Value],
    part: f64,
    dice: &mut StdRng,
    ledger: &mut Ledger,
    progress: &AtomicUsize,
) -> bool {
    let mut decisions = Vec::new();
    for item in items {
        let id = item["id"].as_str().expect("an id").to_owned();
        if dice.random_bool(part) {
            ledger.attempted.insert(id.clone());
            let choices = [0, 1].map(|_| if dice.random_bool(0.5) { "approve" } else { "deny" });
            let first = dice.random_range(0..apis.len());
            decisions.push(decide_twice(apis, first, id, choices, progress));
        } else {
            ledger.untouched.insert(id, item["runId"].as_str().expect("a run").to_owned());
        }
    }
    let mut is_gone = false;
    for (id, replies) in join_all(decisions).await {
        let (mut accepted, mut refused) = (0, 0);
        for (choice, reply) in replies {
            match reply {
                Reply::Accepted => {
                    accepted += 1;
                    let before = ledger.acknowledged.insert(id.clone(), choice.to_owned());
                    assert_eq!(before, None, "request {id} is decided once");
                }
                Reply::AlreadyDecided => refused += 1,
                Reply::Lost => is_gone = true,
            }
        }
        // Both may be refused, if an earlier decision whose answer was lost counts.
        ledger.contests += usize::from((accepted, refused) == (1, 1));
    }
    ledger.untouched.retain(|id, _| !ledger.attempted.contains(id));
    !is_gone
}

/// Two people decide about the same call at the same time, each on a server of their own if there are two.
async fn decide_twice(
    apis: &[Api],
    first: usize,
    id: String,
    choices: [&'static str; 2],
    progress: &AtomicUsize,
) -> (String, [(&'static str, Reply); 2]) {
    let (one, two) = tokio::join!(
        decide(&apis[first], &id, choices[0], progress),
        decide(&apis[(first + 1) % apis.len()], &id, choices[1], progress),
    );
    let is_answered = !matches!(one, Reply::Lost) && !matches!(two, Reply::Lost);
    let accepted = [&one, &two].iter().filter(|reply| matches!(reply, Reply::Accepted)).count();
    assert!(!is_answered || accepted <= 1, "{accepted} decisions about {id} were accepted");
    (id, [(choices[0], one), (choices[1], two)])
}

async fn decide(api: &Api, id: &str, choice: &str, progress: &AtomicUsize) -> Reply {
    let path = format!("/api/approvals/{id}/decide");
    let Ok(answer) = api.send(Method::POST, &path, Some(&json!({ "decision": choice }))).await else {
        return Reply::Lost;
    };
    match answer.status {
        200 => {
            // The next moment: one more decision is acknowledged.
            let _ =
                progress.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |at| Some(at.max(PENDING) + 1));
            Reply::Accepted
        }
        409 => {
            assert_eq!(answer.code(), "already_decided", "{}", answer.body);
            Reply::AlreadyDecided
        }
        other => panic!("{other} {}", answer.body),
    }
}

/// Decides about everything that is left, and waits until every run has ended.
pub async fn settle(apis: &[Api], dice: &mut StdRng) -> Ledger {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(90);
    let (mut ledger, progress) = (Ledger::default(), AtomicUsize::new(0));
    loop {
        let pending = apis[0].all("/api/approvals?status=pending").await;
        let before = ledger.contests;
        assert!(
            decide_some(apis, &pending, 1.0, dice, &mut ledger, &progress).await,
            "the servers are there"
        );
        assert_eq!(ledger.contests - before, pending.len(), "of two decisions one counts");
        let mut active = 0;
        for status in ["queued", "running", "waiting"] {
            active += apis[0].all(&format!("/api/admin/runs?status={status}")).await.len();
        }
        if active == 0 {
            return ledger;
        }
        // On PostgreSQL the lease of a killed server has to expire first.
        assert!(tokio::time::Instant::now() < deadline, "{active} runs do not end");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
