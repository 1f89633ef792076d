//! Dry runs of workflows with so many words that choosing the agents takes long: others are served meanwhile.

use std::time::Duration;

use bytes::Bytes;
use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    bystander::Bystander,
    common::{Api, Home},
    project_token, with_slow_model,
};

const DRY_RUNS: usize = 3;
const TASKS: usize = 1_000;
const TASK_WORDS: usize = 600;
const AGENTS: usize = 40;
/// About as many as are read of a system prompt.
const AGENT_WORDS: usize = 1_140;
/// How many words there are, of which each task and each agent has other ones.
const VOCABULARY: usize = 3_000;
/// The dry runs of a project wait for each other, and each may take some seconds of its own.
const MAX_ANSWER: Duration = Duration::from_secs(120);

/// Words of which texts with near numbers have many in common.
fn words(first: usize, count: usize) -> String {
    let word = |n: usize| format!("w{:04}q", (first * 37 + n) % VOCABULARY);
    (0..count).map(word).collect::<Vec<_>>().join(" ")
}

/// The body of a request, which is serialized once, so that the attack does not slow down itself.
fn dry_run() -> Bytes {
    let task = |n: usize| json!({ "key": format!("t{n}"), "title": words(n, 5), "description": words(n, TASK_WORDS) });
    let tasks: Vec<Value> = (0..TASKS).map(task).collect();
    json!({ "dryRun": true, "tasks": tasks }).to_string().into()
}

/// Makes a dry run, and returns the status of its answer.
async fn make_dry_run(api: Api, body: Bytes) -> u16 {
    let request = api.request(Method::POST, "/api/coordination/dispatch").timeout(MAX_ANSWER);
    let request = request.header("content-type", "application/json").body(body);
    request.send().await.expect("an answer").status().as_u16()
}

async fn expensive_dry_runs(home: Home) {
    let home = with_slow_model(home);
    let server = home.start().await;
    let attacker = project_token(&server, "attacker", &["agents:invoke"]).await;
    for n in 0..AGENTS {
        let agent = json!({
            "name": format!("agent-{n}"),
            "description": words(n, AGENT_WORDS),
            "systemPrompt": words(n + AGENTS, AGENT_WORDS),
            "model": { "provider": "rehearsal", "name": "quick" },
        });
        server.api.in_project("attacker").post("/api/admin/agents", &agent).await.data();
    }
    let body = dry_run();
    let bystander = Bystander::start(&server).await;
    let mut attacks = tokio::task::JoinSet::new();
    for _ in 0..DRY_RUNS {
        attacks.spawn(make_dry_run(attacker.clone(), body.clone()));
    }
    let statuses = attacks.join_all().await;
    // It has a result, or a limit of its time was reached, or it waited too long for the others.
    assert!(statuses.iter().all(|status| [200, 400, 422, 429].contains(status)), "{statuses:?}");
    bystander.assert_served(&server).await;
    assert_eq!(server.api.get("/ready").await.status, 200);

    let small = json!({ "dryRun": true, "tasks": [{ "key": "t", "title": words(3, 5) }] });
    let checked = attacker.post("/api/coordination/dispatch", &small).await.data();
    assert!(checked["layers"][0][0]["agent"].is_string(), "the project is served again: {checked}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dry_runs_with_many_words_do_not_delay_others_on_sqlite() {
    expensive_dry_runs(Home::sqlite()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dry_runs_with_many_words_do_not_delay_others_on_postgres() {
    expensive_dry_runs(Home::postgres().await).await;
}
