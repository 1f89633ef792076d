//! How many triggers a project may have, and how large they may be: of agents, products and people together.

use emergent_domain::{
    filter::{Filter, Op},
    ids::{AgentId, ProjectId},
    trigger::{EventConfig, EventKind, EventTrigger, FeedStart},
};
use emergent_store::{Error, Tx, triggers};
use emergent_testkit::both_engines;
use serde_json::{Value, json};

use crate::common::{Client, Server};

const AGENTS: &str = "/api/admin/agents";
const TRIGGERS: &str = "/api/admin/triggers";
const INSTALL: &str = "/api/products/install";

/// Stores triggers whose condition has so many letters.
async fn fill(server: &Server, project: ProjectId, count: usize, letters: usize) {
    let condition = Filter { path: "a".into(), op: Op::Eq, value: Some(json!("x".repeat(letters))) };
    let config = EventConfig { conditions: vec![condition], ..EventConfig::default() };
    let row = move || EventTrigger {
        agent: AgentId::new(),
        dispatch: None,
        name: None,
        product: None,
        project,
        event: EventKind::EntityCreated,
        config: config.clone(),
        since: FeedStart::default(),
    };
    let write = move |tx: &mut Tx<'_>| (0..count).try_for_each(|_| triggers::upsert(tx, &row()));
    let written: Result<(), Error> = server.graph.db().write(write).await;
    written.unwrap();
}

fn watching(name: &str, letters: usize) -> Value {
    let condition = json!({ "path": "a", "op": "eq", "value": "x".repeat(letters) });
    json!({ "name": name, "trigger": "on_entity_created", "config": { "trigger": { "conditions": [condition] } } })
}

fn workflow() -> Value {
    let task = json!({ "key": "a", "title": "a", "assignedAgent": "echo" });
    json!({ "trigger": "0 0 1 1 *", "dispatch": { "tasks": [task] } })
}

fn product(agent: &str) -> Value {
    let job = json!({ "name": "daily", "cron": "0 8 * * *", "agent": agent });
    let manifest =
        json!({ "name": "jobs", "version": "1.0.0", "agents": [{ "name": agent }], "jobs": [job] });
    json!({ "manifest": manifest, "accept": true })
}

/// Each way to one more trigger is refused with the field and the limit.
async fn assert_full(client: &Client) {
    assert_full_for_people(client).await;
    let answer = client.post(INSTALL, product("worker")).await;
    let problem = &answer.refused(400, "invalid_manifest")["details"][0];
    assert_eq!(problem["pointer"], "/jobs", "{problem}");
    assert!(problem["message"].as_str().unwrap().contains("may have 1000"), "{problem}");
}

/// As [`assert_full`], without the triggers of products.
async fn assert_full_for_people(client: &Client) {
    for answer in [
        client.post(AGENTS, watching("more", 1)).await,
        client.patch(&format!("{AGENTS}/echo"), json!({ "trigger": "0 8 * * *" })).await,
        client.put(&format!("{TRIGGERS}/more"), workflow()).await,
    ] {
        let problem = &answer.refused(400, "invalid")["details"][0];
        assert!(["trigger", "name"].contains(&problem["field"].as_str().unwrap()), "{problem}");
        assert!(problem["reason"].as_str().unwrap().contains("may have 1000"), "{problem}");
    }
}

both_engines! {
    async fn triggers_of_all_kinds_share_a_number(db: TestDb) {
        let server = Server::start(&db).await;
        let client = server.admin();
        client.agent("echo", json!({})).await;
        fill(&server, server.default_project, 998, 1).await;
        client.post(AGENTS, watching("last", 1)).await.is(201);
        client.put(&format!("{TRIGGERS}/last"), workflow()).await.is(200);
        assert_full(&client).await;
        // What is no further trigger is saved as before.
        client.put(&format!("{TRIGGERS}/last"), workflow()).await.is(200);
        client.agent("plain", json!({})).await;
        client.patch(&format!("{AGENTS}/last"), json!({ "trigger": "0 8 * * *", "config": {} })).await.is(200);
        let other = client.in_project(server.project("other").await);
        other.post(AGENTS, watching("first", 1)).await.is(201);
        client.delete(&format!("{TRIGGERS}/last")).await.is(200);
        client.post(INSTALL, product("worker")).await.is(201);
        assert_full_for_people(&client).await;
    }

    async fn a_project_with_more_than_it_may_have_goes_on(db: TestDb) {
        let server = Server::start(&db).await;
        let client = server.admin();
        client.agent("echo", json!({})).await;
        client.post(AGENTS, watching("old", 100)).await.is(201);
        client.put(&format!("{TRIGGERS}/old"), workflow()).await.is(200);
        fill(&server, server.default_project, 1_003, 4_300).await;
        assert_full(&client).await;
        client.agent("plain", json!({})).await;
        client.patch(&format!("{AGENTS}/old"), json!({ "description": "As before." })).await.is(200);
        let longer = client.patch(&format!("{AGENTS}/old"), watching("old", 200)).await;
        assert_eq!(longer.refused(400, "invalid")["details"][0]["field"], "config.trigger", "{}", longer.text);
        client.patch(&format!("{AGENTS}/old"), watching("old", 50)).await.is(200);
        client.delete(&format!("{TRIGGERS}/old")).await.is(200);
        client.delete(&format!("{AGENTS}/old")).await.is(200);
        assert_full(&client).await;
    }

    async fn triggers_of_all_kinds_share_their_bytes(db: TestDb) {
        let server = Server::start(&db).await;
        let client = server.admin();
        client.agent("echo", json!({})).await;
        fill(&server, server.default_project, 83, 50_000).await;
        let refused = client.post(AGENTS, watching("large", 50_000)).await;
        let problem = &refused.refused(400, "invalid")["details"][0];
        assert_eq!(problem["field"], "config.trigger");
        assert!(problem["reason"].as_str().unwrap().contains("may have 4194304"), "{problem}");
        let settings = json!({ "conditions": watching("x", 50_000)["config"]["trigger"]["conditions"] });
        let mut event = workflow();
        (event["trigger"], event["config"]) = (json!("on_entity_created"), settings);
        let refused = client.put(&format!("{TRIGGERS}/large"), event).await;
        assert_eq!(refused.refused(400, "invalid")["details"][0]["field"], "config", "{}", refused.text);
        client.post(AGENTS, watching("small", 1_000)).await.is(201);
        client.put(&format!("{TRIGGERS}/small"), workflow()).await.is(200);
    }

    async fn what_triggers_of_workflows_say_has_a_limit(db: TestDb) {
        let server = Server::start(&db).await;
        let client = server.admin();
        client.agent("echo", json!({})).await;
        let trigger = |letters: usize, condition: usize| {
            let task = json!({ "key": "a", "title": "a", "description": "x".repeat(letters), "assignedAgent": "echo" });
            let condition = json!({ "path": "a", "op": "eq", "value": "x".repeat(condition) });
            json!({
                "trigger": "on_entity_created", "config": { "types": ["Note"], "conditions": [condition] },
                "dispatch": { "tasks": [task] },
            })
        };
        let refused = client.put(&format!("{TRIGGERS}/long"), trigger(1, 70_000)).await;
        assert_eq!(refused.refused(400, "invalid")["details"][0]["field"], "config", "{}", refused.text);
        for number in 0..4 {
            client.put(&format!("{TRIGGERS}/large-{number}"), trigger(1_000_000, 1)).await.is(200);
        }
        let refused = client.put(&format!("{TRIGGERS}/large-4"), trigger(1_000_000, 1)).await;
        assert_eq!(refused.refused(400, "invalid")["details"][0]["field"], "dispatch", "{}", refused.text);
        client.put(&format!("{TRIGGERS}/large-0"), trigger(1, 1)).await.is(200);
        client.put(&format!("{TRIGGERS}/large-4"), trigger(1_000_000, 1)).await.is(200);
        assert_eq!(client.get(TRIGGERS).await.is(200)["events"].as_array().unwrap().len(), 5);
    }
}
