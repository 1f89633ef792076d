//! Previews of the revert of a run that wrote much: they succeed, and others read and write meanwhile.

use std::{
    fmt::Write as _,
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    bystander::Bystander,
    common::{Api, Home, eventually},
    project_token, start_run,
};

const CALLS: usize = 50;
const OBJECTS_OF_CALL: usize = 200;
const CLIENTS: usize = 4;
const ATTACK: Duration = Duration::from_secs(6);
/// A preview may wait for 30 seconds and work for 30 seconds.
const MAX_ANSWER: Duration = Duration::from_secs(90);

/// A model that creates many objects in each step.
fn script() -> String {
    let mut rules = String::from("rules:\n");
    for step in 1..=CALLS {
        let objects: Vec<String> =
            (0..OBJECTS_OF_CALL).map(|n| format!("{{ type: Note, key: n{step}-{n} }}")).collect();
        writeln!(
            rules,
            "  - when: {{ step: {step} }}\n    answer: {{ calls: [{{ tool: entities_create, input: {{ objects: [{}] }} }}] }}",
            objects.join(", ")
        )
        .expect("a text");
    }
    rules.push_str("  - when: {}\n    answer: { text: Done. }\n");
    rules
}

/// Previews a revert, and returns whether there was an answer. A preview has a limit of its time, and previews of a
/// project are made one after the other, so one may wait too long for those of others, or for the vectors of what the
/// run wrote, which PostgreSQL computes slowly.
async fn preview(api: &Api, path: &str) -> bool {
    let request = api.request(Method::POST, path).json(&json!({ "dryRun": true }));
    let answer = request.timeout(MAX_ANSWER).send().await.expect("an answer");
    let (status, body) = (answer.status().as_u16(), answer.json::<Value>().await.expect("JSON"));
    if [409, 429].contains(&status) {
        return false;
    }
    assert_eq!(status, 200, "{body}");
    let preview = &body["data"];
    assert_eq!(preview["undone"].as_array().map(Vec::len), Some(CALLS * OBJECTS_OF_CALL));
    assert_eq!((&preview["conflicts"], &preview["dryRun"]), (&json!([]), &json!(true)));
    true
}

async fn preview_until(api: Api, path: String, end: Instant) {
    while Instant::now() < end {
        preview(&api, &path).await;
    }
}

async fn previews_of_a_large_revert(home: Home) {
    let scripts = home.data().join("rehearsals");
    std::fs::create_dir_all(&scripts).expect("a folder");
    std::fs::write(scripts.join("busy.yaml"), script()).expect("a script");
    let server = home.start().await;
    let scopes = ["agents:read", "agents:invoke", "admin:read", "admin:write"];
    let attacker = project_token(&server, "attacker", &scopes).await;
    let agent = json!({
        "name": "busy",
        "tools": ["entities_create"],
        "maxSteps": CALLS + 5,
        "model": { "provider": "rehearsal", "name": "busy" },
    });
    server.api.in_project("attacker").post("/api/admin/agents", &agent).await.data();
    let agent = "/api/admin/agents/busy";
    let run = format!("{agent}/runs/{}", start_run(&attacker, agent).await);
    let status = || async { attacker.get(&run).await.data()["status"].clone() };
    eventually("the run ends", Duration::from_secs(120), || async { status().await == "completed" }).await;

    let bystander = Bystander::start(&server).await;
    let end = Instant::now() + ATTACK;
    let clients = (0..CLIENTS).map(|_| preview_until(attacker.clone(), format!("{run}/revert"), end));
    join_all(clients).await;
    bystander.assert_served(&server).await;
    let path = format!("{run}/revert");
    eventually("there is a preview", Duration::from_secs(180), || preview(&attacker, &path)).await;
    assert_eq!(server.api.get("/ready").await.status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn previews_of_a_large_revert_do_not_hold_up_others_on_sqlite() {
    previews_of_a_large_revert(Home::sqlite()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn previews_of_a_large_revert_do_not_hold_up_others_on_postgres() {
    previews_of_a_large_revert(Home::postgres().await).await;
}
