//! Making agents work without the right to start them: with writes of the graph, and by the way of other agents.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    common::{Api, Home, eventually},
    project_token,
};

const AGENTS: &str = "/api/admin/agents";
const OBJECTS: &str = "/api/graph/objects";

const SCRIPT: &str = r#"
rules:
  - when: { agent: slow }
    answer: { text: Done. }
    delay_ms: 200000
  - when: { agent: inside, turn: 1 }
    answer: { calls: [{ tool: project_info, input: {} }] }
  - when: { agent: inside }
    answer: { text: I was stopped. }
  - when: { turn: 1 }
    answer: { calls: [{ tool: spawn_agents, input: { tasks: [{ agent_name: inside, task: Obey. }] } }] }
  - answer: { text: Done. }
"#;

fn with_script(home: Home) -> Home {
    let scripts = home.data().join("rehearsals");
    std::fs::create_dir_all(&scripts).expect("a folder");
    std::fs::write(scripts.join("play.yaml"), SCRIPT).expect("a script");
    home
}

async fn create_agent(api: &Api, name: &str, more: Value) -> String {
    let mut body = json!({ "name": name, "model": { "provider": "rehearsal", "name": "play" } });
    for (field, value) in more.as_object().expect("fields") {
        body[field] = value.clone();
    }
    let created = api.post(AGENTS, &body).await;
    assert_eq!(created.status, 201, "{}", created.body);
    format!("{AGENTS}/{}", created.data()["id"].as_str().expect("an id"))
}

async fn run_ends(api: &Api, agent: &str) -> String {
    let started = api.post(&format!("{agent}/trigger"), &json!({ "input": "Go." })).await.data();
    let path = format!("{agent}/runs/{}", started["runId"].as_str().expect("an id"));
    eventually("the run ends", Duration::from_secs(20), || async {
        !matches!(api.get(&path).await.data()["status"].as_str(), Some("queued" | "running"))
    })
    .await;
    path
}

/// An agent that only other agents may start, with a run that stopped at its limit.
async fn internal_agent(operator: &Api) -> String {
    let config = json!({ "visibility": "internal", "maxSteps": 1, "tools": ["project_info"] });
    let inside = create_agent(operator, "inside", config).await;
    let lead = create_agent(operator, "lead", json!({ "tools": ["spawn_agents"] })).await;
    run_ends(operator, &lead).await;
    inside
}

async fn statuses(api: &Api, agent: &str) -> Vec<String> {
    let runs = api.get(&format!("{agent}/runs")).await.data();
    let status = |run: &Value| run["status"].as_str().unwrap_or_default().to_owned();
    runs.as_array().expect("a list").iter().map(status).collect()
}

async fn write_tasks(home: Home) {
    let home = with_script(home);
    let server = home.start().await;
    let attacker = project_token(&server, "attacked", &["graph:write", "graph:read"]).await;
    let operator = server.api.in_project("attacked");
    let inside = internal_agent(&operator).await;
    let paused = operator.get(&format!("{inside}/runs")).await.data()[0]["id"].clone();
    let slow = create_agent(&operator, "slow", json!({})).await;
    let tasks = json!({ "tasks": [{ "key": "t", "title": "Wait", "assignedAgent": "slow" }] });
    let workflow = operator.post("/api/coordination/dispatch", &tasks).await.data()["workflowId"].clone();
    eventually("the workflow works", Duration::from_secs(20), || async {
        statuses(&operator, &slow).await == ["running"]
    })
    .await;
    let listed = attacker.get(&format!("{OBJECTS}?type=SpecTask")).await.data();
    let task = format!("{OBJECTS}/{}", listed[0]["id"].as_str().expect("an id"));

    // Tasks of the workflow of another, which its dispatcher would start or resume.
    let started = json!({ "title": "Obey.", "workflow_id": workflow, "assigned_agent": "slow" });
    let resumed =
        json!({ "title": "Obey.", "workflow_id": workflow, "run_id": paused, "assigned_agent": "inside" });
    for properties in [started, resumed] {
        let object = json!({ "type": "SpecTask", "key": "forged", "properties": properties });
        for (path, body) in [
            (OBJECTS, object.clone()),
            ("/api/graph/objects/bulk", json!({ "objects": [object], "atomic": true })),
            ("/api/graph/subgraph", json!({ "objects": [object] })),
        ] {
            let refused = attacker.post(path, &body).await;
            assert_eq!((refused.status, refused.code()), (400, "invalid"), "{path}: {}", refused.body);
            assert!(refused.body.to_string().contains("properties.workflow_id"), "{}", refused.body);
        }
        assert_eq!(attacker.put("/api/graph/objects/upsert", &object).await.status, 400);
        let line =
            json!({ "kind": "object", "type": "SpecTask", "key": "imported", "properties": properties });
        let import = attacker.request(reqwest::Method::POST, "/api/graph/import");
        let import = import.header("content-type", "application/x-ndjson").body(line.to_string());
        assert_eq!(import.send().await.expect("an answer").status(), 200, "it comes without its links");
    }
    for change in [json!({ "run_id": paused }), json!({ "assigned_agent": "lead" }), json!({ "resumes": 9 })]
    {
        let refused = attacker.patch(&task, &json!({ "properties": change })).await;
        assert_eq!(refused.status, 400, "{change}: {}", refused.body);
    }
    // By the tools.
    for (tool, input) in [
        ("tasks_create", json!({ "title": "Obey.", "assignedAgent": "slow" })),
        ("tasks_create", json!({ "title": "Obey.", "workflowId": workflow })),
        ("tasks_update", json!({ "id": listed[0]["id"], "assignedAgent": "lead" })),
        ("tasks_update", json!({ "id": listed[0]["id"], "title": "Obey." })),
        ("entities_delete", json!({ "id": listed[0]["id"] })),
        (
            "entities_create",
            json!({ "objects": [{ "type": "SpecTask", "properties": { "workflow_id": workflow } }] }),
        ),
    ] {
        let answer = call_tool(&attacker, tool, input).await;
        assert!(answer["error"].is_object() || answer["result"]["isError"] == true, "{tool}: {answer}");
    }
    // The decision of a person.
    let decided = json!({ "decision": "yes", "reason": "", "by": null });
    let forged =
        json!({ "type": "Discussion", "properties": { "topic": "t", "decided_by_person": decided } });
    assert_eq!(attacker.post(OBJECTS, &forged).await.status, 400);

    assert_eq!(statuses(&operator, &slow).await, ["running"]);
    assert_eq!(statuses(&operator, &inside).await, ["paused"]);
    let shown =
        operator.get(&format!("/api/coordination/workflows/{}", workflow.as_str().unwrap())).await.data();
    assert_eq!(shown["tasks"].as_array().map(Vec::len), Some(1), "{shown}");
    // A wish is still welcome.
    let wish =
        json!({ "type": "SpecTask", "properties": { "title": "Please.", "assigned_agent": "inside" } });
    assert_eq!(attacker.post(OBJECTS, &wish).await.status, 201);
}

async fn call_tool(api: &Api, name: &str, input: Value) -> Value {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let params = json!({ "name": name, "arguments": input, "_meta": meta });
    let message = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
    let request = api.request(reqwest::Method::POST, "/mcp").header("mcp-protocol-version", "2026-07-28");
    let request = request.header("mcp-method", "tools/call").header("mcp-name", name);
    request.json(&message).send().await.expect("an answer").json().await.expect("JSON")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writing_the_graph_starts_and_resumes_nobody_on_sqlite() {
    write_tasks(Home::sqlite()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writing_the_graph_starts_and_resumes_nobody_on_postgres() {
    write_tasks(Home::postgres().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_internal_agent_is_not_reached_by_way_of_others() {
    let home = with_script(Home::sqlite());
    let server = home.start().await;
    let scopes = ["agents:invoke", "agents:read", "agents:write", "graph:read", "admin:read"];
    let attacker = project_token(&server, "attacked", &scopes).await;
    let operator = server.api.in_project("attacked");
    let inside = internal_agent(&operator).await;
    let paused = operator.get(&format!("{inside}/runs")).await.data()[0]["id"].as_str().unwrap().to_owned();

    let order = json!({ "input": "Delete everything." });
    let refused = attacker.post(&format!("{inside}/runs/{paused}/resume"), &order).await;
    assert_eq!((refused.status, refused.code()), (403, "forbidden"), "{}", refused.body);
    for definition in [
        json!({ "name": "flow", "flowType": "sequential", "flowConfig": { "agents": ["inside"] } }),
        json!({ "name": "narrow", "tools": ["spawn_agents"], "config": { "may_spawn": ["inside"] } }),
    ] {
        let refused = attacker.post(AGENTS, &definition).await;
        assert_eq!((refused.status, refused.code()), (403, "missing_scope"), "{}", refused.body);
        assert_eq!(refused.body["error"]["details"]["scope"], "admin:write");
    }
    // By an internal agent of one's own, which the dispatcher would choose; and by making the other one public.
    let sneaky = json!({
        "name": "sneaky", "visibility": "internal", "tools": ["spawn_agents", "list_available_agents"],
        "config": { "dispatchable": true },
    });
    for refused in [
        attacker.post(AGENTS, &sneaky).await,
        attacker.patch(&inside, &json!({ "visibility": "project" })).await,
        attacker.patch(&inside, &json!({ "systemPrompt": "Obey me." })).await,
        attacker.delete(&inside).await,
    ] {
        assert_eq!((refused.status, refused.code()), (403, "missing_scope"), "{}", refused.body);
        assert_eq!(refused.body["error"]["details"]["scope"], "admin:write");
    }
    assert_eq!(attacker.post(&format!("{inside}/trigger"), &order).await.status, 403);
    let mine = create_agent(&attacker, "mine", json!({ "tools": ["spawn_agents"] })).await;
    let run = run_ends(&attacker, &mine).await;
    let calls = attacker.get(&format!("{run}/tool-calls")).await.data().to_string();
    assert!(calls.contains("agent `inside` is internal"), "{calls}");
    assert_eq!(statuses(&operator, &inside).await, ["paused"]);
}
