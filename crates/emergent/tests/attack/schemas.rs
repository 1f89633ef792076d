//! Schemas that overflow the stack of their compiler, never end, or take minutes: with the tokens that may give one, and
//! while another project reads and writes.

use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use crate::{
    bystander::Bystander,
    common::{Api, Home, Server, eventually},
    project_token,
};

/// A refusal takes far less. The rest is for a busy machine.
const MAX_REFUSAL: Duration = Duration::from_secs(5);

/// Definitions of which each applies the next one.
fn chain(levels: usize, level: impl Fn(Value) -> Value) -> Value {
    let mut defs: Map<String, Value> = (0..levels)
        .map(|n| (format!("c{n}"), level(json!({ "$ref": format!("#/$defs/c{}", n + 1) }))))
        .collect();
    defs.insert(format!("c{levels}"), json!({ "properties": { "x": {} } }));
    json!({ "$defs": defs, "$ref": "#/$defs/c0" })
}

pub fn hostile_schemas() -> Vec<(&'static str, Value)> {
    let deep = chain(300, |next| json!({ "allOf": [next], "unevaluatedProperties": false }));
    let mut doubled = chain(30, |next| json!({ "allOf": [next, next] }));
    doubled["unevaluatedProperties"] = json!(false);
    let mut hidden = chain(36, |next| json!({ "allOf": [next, next] }));
    hidden["$id"] = json!("http://a/x");
    let hidden = json!({ "$defs": { "x": hidden, "c0": true }, "$ref": "#/$defs/x" });
    let patterns: Map<String, Value> =
        (0..1_000).map(|n| (format!("\\p{{L}}{{20}}{n}"), json!(true))).collect();
    vec![
        ("a stack overflow", deep),
        ("a compilation without end", doubled),
        ("a validation without end", hidden),
        ("many patterns", json!({ "patternProperties": patterns })),
    ]
}

async fn assert_refused(what: &str, request: impl Future<Output = crate::common::Answer>) {
    let started = Instant::now();
    let answer = request.await;
    assert_eq!(answer.status, 400, "{what}: {:?}", answer.body);
    assert!(started.elapsed() < MAX_REFUSAL, "{what} took {:?}", started.elapsed());
}

async fn give_schemas(attacker: &Api) {
    for (what, schema) in hostile_schemas() {
        let task = json!({ "key": "t", "title": "T", "description": "D", "outputSchema": schema });
        let dispatch = json!({ "tasks": [task], "dryRun": true });
        assert_refused(what, attacker.post("/api/coordination/dispatch", &dispatch)).await;
        let alone = json!({ "title": "T", "outputSchema": schema });
        assert_refused(what, attacker.post("/api/coordination/tasks", &alone)).await;
        let agent = json!({ "name": "a", "outputSchema": schema });
        assert_refused(what, attacker.post("/api/admin/agents", &agent)).await;
        let trigger = json!({ "trigger": "0 0 1 1 *", "dispatch": { "tasks": [task] } });
        assert_refused(what, attacker.put("/api/admin/triggers/t", &trigger)).await;
        let pack = json!({
            "name": "p", "version": "1.0.0", "objectTypeSchemas": { "T": schema }, "relationshipTypeSchemas": {},
        });
        assert_refused(what, attacker.post("/api/template-packs", &pack)).await;
    }
}

async fn hostile_schemas_are_refused(home: Home) {
    let server = home.start().await;
    let scopes = ["agents:invoke", "agents:read", "agents:write", "graph:read", "graph:write"];
    let attacker = project_token(&server, "attacker", &scopes).await;
    let bystander = Bystander::start(&server).await;
    give_schemas(&attacker).await;
    bystander.assert_served(&server).await;
    assert_eq!(server.api.get("/ready").await.status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hostile_schema_is_refused_wherever_it_is_given_and_others_are_served() {
    hostile_schemas_are_refused(Home::sqlite()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hostile_schema_is_refused_wherever_it_is_given_and_others_are_served_on_postgres() {
    hostile_schemas_are_refused(Home::postgres().await).await;
}

/// A model that answers with many texts that a pattern needs long for.
fn with_hostile_answers(home: Home) -> Home {
    let scripts = home.data().join("rehearsals");
    std::fs::create_dir_all(&scripts).expect("a folder");
    let answer = json!(vec![format!("{}!", "a".repeat(60)); 100]);
    let script = format!("rules:\n  - {{ answer: {{ text: '{answer}' }} }}\n");
    std::fs::write(scripts.join("hostile.yaml"), script).expect("a script");
    home
}

async fn has_failed(server: &Server, path: &str) -> bool {
    let run = server.api.get(path).await.data();
    if run["status"] == "failed" {
        assert_eq!(run["reason"], "invalid_output", "{run}");
    }
    run["status"] == "failed"
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_that_backtrack_are_validated_beside_the_requests_of_others() {
    let home = with_hostile_answers(Home::sqlite());
    let server = home.start().await;
    let agent = json!({
        "name": "hostile",
        "model": { "provider": "rehearsal", "name": "hostile" },
        "outputSchema": { "type": "array", "items": { "not": { "pattern": r"^(?:(a|aa)\1?)+$" } } },
    });
    let agent = server.api.post("/api/admin/agents", &agent).await.data();
    let path = format!("/api/admin/agents/{}", agent["id"].as_str().expect("an id"));
    let bystander = Bystander::start(&server).await;
    let mut runs = Vec::new();
    for _ in 0..6 {
        runs.push(crate::start_run(&server.api, &path).await);
    }
    for run in &runs {
        let run = format!("{path}/runs/{run}");
        eventually("the run fails", Duration::from_secs(60), || has_failed(&server, &run)).await;
    }
    bystander.assert_served(&server).await;
}
