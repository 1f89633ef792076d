//! As many and as large triggers as a project may have, and objects that are compared with all of them: others are served
//! meanwhile, and their triggers fire.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::{
    bystander::Bystander,
    common::{Api, Home, eventually},
    project_token, with_slow_model,
};

const AGENTS: &str = "/api/admin/agents";
const OBJECTS: &str = "/api/graph/objects";
/// How many triggers are saved at once.
const SAVERS: usize = 8;
/// How long triggers are saved at most. A slow machine saves fewer than a project may have.
const SAVING_TIME: Duration = Duration::from_secs(12);
const ATTACK_TIME: Duration = Duration::from_secs(6);
const WRITERS: usize = 3;
/// What each condition searches, at the end of a long text.
const NEEDLE_BYTES: usize = 1_900;
const TEXT_BYTES: usize = 200_000;
/// How long a trigger of somebody else may take.
const FIRING_TIME: Duration = Duration::from_secs(10);
/// The comparison of a large object with all large triggers takes many passes on a busy machine.
const OWN_FIRING_TIME: Duration = Duration::from_secs(60);

/// A trigger with as many and as long conditions as one may have. All but the last match, so all are compared.
fn large(n: usize) -> Value {
    let needle = "x".repeat(NEEDLE_BYTES);
    let condition = |last: bool| {
        let value = if last { format!("{needle}y") } else { needle.clone() };
        json!({ "path": "text", "op": "contains", "value": value })
    };
    let conditions: Vec<Value> = (0..32).map(|index| condition(index == 31)).collect();
    agent(&format!("large-{n}"), json!({ "conditions": conditions }))
}

/// A trigger that every object fires, much later.
fn small(n: usize) -> Value {
    agent(&format!("small-{n}"), json!({ "coalesce_seconds": 3_600 }))
}

fn agent(name: &str, settings: Value) -> Value {
    let model = json!({ "provider": "rehearsal", "name": "quick" });
    json!({ "name": name, "model": model, "trigger": "on_entity_created", "config": { "trigger": settings } })
}

/// Saves agents until one is refused because there are too many triggers, or they are too large. Returns their number.
async fn save_until_full(api: &Api, agent: fn(usize) -> Value, until: Instant) -> usize {
    let mut saved = 0;
    while Instant::now() < until {
        let mut requests = JoinSet::new();
        for n in saved..saved + SAVERS {
            let api = api.clone();
            requests.spawn(async move { api.post(AGENTS, &agent(n)).await });
        }
        let answers = requests.join_all().await;
        let created = answers.iter().filter(|answer| answer.status == 201).count();
        saved += created;
        if created < SAVERS {
            let refused = answers.iter().find(|answer| answer.status != 201).expect("one that was refused");
            assert_eq!((refused.status, refused.code()), (400, "invalid"), "{}", refused.body);
            assert!(refused.body.to_string().contains("may have"), "{}", refused.body);
            return saved;
        }
    }
    saved
}

async fn write_objects(api: Api, until: Instant) -> usize {
    let text = format!("{}{}", "-".repeat(TEXT_BYTES), "x".repeat(NEEDLE_BYTES));
    let object = json!({ "type": "Note", "properties": { "text": text } });
    let mut written = 0;
    while Instant::now() < until {
        let answer = api.post(OBJECTS, &object).await;
        assert!([201, 429].contains(&answer.status), "{}", answer.body);
        written += 1;
    }
    written
}

async fn many_large_triggers(home: Home) {
    let home = with_slow_model(home);
    let server = home.start().await;
    let scopes = ["agents:read", "agents:write", "agents:invoke", "graph:read", "graph:write", "admin:read"];
    let attacker = project_token(&server, "attacker", &scopes).await;
    let until = Instant::now() + SAVING_TIME;
    let large_ones = save_until_full(&attacker, large, until).await;
    let small_ones = save_until_full(&attacker, small, until).await;
    let task = json!({ "key": "t", "title": "T", "assignedAgent": "large-0" });
    let workflow = json!({ "trigger": "on_entity_created", "config": { "types": ["None"] }, "dispatch": { "tasks": [task] } });
    attacker.put("/api/admin/triggers/workflow", &workflow).await;

    let other = project_token(&server, "watched", &scopes).await;
    other.post(AGENTS, &agent("watcher", json!({}))).await.data();
    let bystander = Bystander::start(&server).await;
    let until = Instant::now() + ATTACK_TIME;
    let mut writers = JoinSet::new();
    for _ in 0..WRITERS {
        writers.spawn(write_objects(attacker.clone(), until));
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    other.post(OBJECTS, &json!({ "type": "Note", "properties": {} })).await.data();
    eventually("a trigger of another project fires", FIRING_TIME, || async {
        !other.get("/api/admin/triggers/firings").await.data().as_array().is_none_or(Vec::is_empty)
    })
    .await;
    let written: usize = writers.join_all().await.into_iter().sum();
    eprintln!("{large_ones} large and {small_ones} small triggers, {written} objects");
    bystander.assert_served(&server).await;
    assert_eq!(server.api.get("/ready").await.status, 200);
    eventually("the triggers of the attacker fire as well", OWN_FIRING_TIME, || async {
        attacker.get("/api/admin/triggers/firings?limit=1").await.data()[0]["status"] == "pending"
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_large_triggers_do_not_delay_others_on_sqlite() {
    many_large_triggers(Home::sqlite()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_large_triggers_do_not_delay_others_on_postgres() {
    many_large_triggers(Home::postgres().await).await;
}
