//! Workflows over HTTP: they are started, driven to their end by the real dispatcher, followed,
//! controlled, and refused with the name of the invalid field.

use crate::{common, mcp::peer::Peer};

use std::time::Duration;

use axum::{body::Body, http::Method};
use common::{Client, Server};
use emergent_domain::{ids::ProjectId, token::Scope};
use emergent_llm::{Models, Script};
use emergent_testkit::{TestDb, both_engines};
use futures_util::StreamExt;
use serde_json::{Value, json};

/// The replies of the agents: most do their task, one always fails.
const SCRIPT: &str = r#"
rules:
  - when: { agent: broken }
    fault: auth
  - when: { agent: slow }
    delay_ms: 60000
    answer: { text: Too late. }
  - when: { agent: critic }
    answer: { text: "This will not do: the second half is missing." }
  - when: { agent: fixer }
    answer: { text: Fixed it. }
  - when: { agent: counter }
    answer: { text: '{ "count": 3 }' }
  - when: { agent: researcher }
    answer: { text: Three patterns fit. }
  - answer: { text: Done. }
"#;

const DISPATCH: &str = "/api/coordination/dispatch";

pub async fn server(db: &TestDb) -> Server {
    let models = Models::default();
    models.add_script("work", Script::parse(SCRIPT).expect("a script"));
    let server = Server::with_models(db, 1_024, models).await;
    for name in ["researcher", "writer", "broken", "slow", "fixer", "critic"] {
        let model = json!({ "provider": "rehearsal", "name": "work" });
        server.admin().agent(name, json!({ "model": model, "description": format!("the {name}") })).await;
    }
    server
}

fn task(key: &str, agent: &str, blocked_by: &[&str]) -> Value {
    json!({ "key": key, "title": key, "description": format!("do {key}"), "assignedAgent": agent, "blockedBy": blocked_by, "maxRetries": 0 })
}

impl Client {
    pub async fn start(&self, body: Value) -> String {
        let started = self.post(DISPATCH, body).await;
        started.is(202)["workflowId"].as_str().expect("an id").to_owned()
    }

    async fn workflow(&self, id: &str) -> Value {
        self.get(&format!("/api/coordination/workflows/{id}")).await.is(200).clone()
    }

    /// Waits until a workflow has this status.
    pub async fn reaches(&self, id: &str, status: &str) -> Value {
        let mut last = Value::Null;
        for _ in 0..1_000 {
            last = self.workflow(id).await;
            if last["status"] == status {
                return last;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("workflow {id} is not {status}: {last:#}");
    }

    pub async fn events(&self, id: &str, last_seen: Option<&str>) -> Vec<(String, Value)> {
        let path = format!("/api/coordination/workflows/{id}/events");
        let mut request = self.request(Method::GET, &path);
        if let Some(seen) = last_seen {
            request = request.header("last-event-id", seen);
        }
        let response = self.open(request.body(Body::empty()).unwrap()).await;
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        let (mut stream, mut text) = (response.into_body().into_data_stream(), String::new());
        let all = async {
            while let Some(part) = stream.next().await {
                text.push_str(std::str::from_utf8(&part.unwrap()).unwrap());
            }
        };
        tokio::time::timeout(Duration::from_secs(20), all).await.expect("the stream ends with the workflow");
        let frame = |frame: &str| {
            let line = |name: &str| frame.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned);
            let event: Value = serde_json::from_str(&line("data: ")?).unwrap();
            Some((line("id: ").expect("every event has its place"), event))
        };
        text.split("\n\n").filter_map(frame).collect()
    }
}
fn kinds(events: &[(String, Value)]) -> Vec<&str> {
    events.iter().map(|(_, event)| event["type"].as_str().unwrap()).collect()
}

fn find<'a>(workflow: &'a Value, key: &str) -> &'a Value {
    workflow["tasks"].as_array().unwrap().iter().find(|task| task["key"] == key).expect("a task")
}

both_engines! {
    async fn tasks_are_walked_to_the_end_and_everything_is_told(db: TestDb) {
        let server = server(&db).await;
        let _stop = server.dispatch();
        let client = server.admin();
        let id = client.start(json!({ "tasks": [
            task("research", "researcher", &[]), task("write", "writer", &["research"]), task("check", "writer", &["write"]),
        ], "budgetTokens": 1_000_000, "maxConcurrent": 2, "threading": "llm" })).await;
        let done = client.reaches(&id, "completed").await;
        assert_eq!((&done["settings"]["threading"], &done["settings"]["selector"]), (&json!("llm"), &json!("hybrid")));
        for field in ["id", "status", "description", "tasks", "budget", "summary", "createdAt", "completedAt", "eventSeq", "settings"] {
            assert!(!done[field].is_null(), "`{field}` in {done:#}");
        }
        assert_eq!(done.get("escalation"), None);
        let research = find(&done, "research");
        for field in ["id", "key", "title", "kind", "status", "agent", "attempts", "runIds", "blockedBy"] {
            assert!(research.get(field).is_some(), "`{field}` in {research:#}");
        }
        assert_eq!((&research["status"], &research["agent"], &research["attempts"]), (&json!("completed"), &json!("researcher"), &json!(1)), "{done:#}");
        assert_eq!(find(&done, "check")["blockedBy"], json!(["write"]));
        assert_eq!(done["budget"]["limit"], json!({ "usd": null, "tokens": 1_000_000 }));
        assert!(done["budget"]["spent"]["tokens"].as_i64().unwrap() > 0, "{done:#}");
        assert_eq!(done["budget"]["byTask"].as_array().unwrap().len(), 3, "{done:#}");
        let sum: i64 = done["budget"]["byAgent"].as_array().unwrap().iter().map(|one| one["spent"]["tokens"].as_i64().unwrap()).sum();
        assert_eq!(done["budget"]["spent"]["tokens"], sum);

        // The run of the dependent task got the result of its blocker.
        let run = find(&done, "write")["runIds"][0].as_str().unwrap();
        let run = client.get(&format!("/api/admin/runs/{run}")).await.is(200).clone();
        assert_eq!(run["origin"], "dispatch");
        let messages = client.get(&format!("/api/admin/agents/{}/runs/{}/messages?role=user", run["agentId"].as_str().unwrap(), run["id"].as_str().unwrap())).await;
        assert!(messages.is(200)[0]["content"]["text"].as_str().unwrap().contains("Three patterns fit."), "{}", messages.text);

        let listed = client.get("/api/coordination/workflows?status=completed").await;
        assert_eq!(listed.is(200)[0]["id"], json!(id));
        assert_eq!(client.get("/api/coordination/workflows?status=failed").await.is(200), &json!([]));
        let tasks = client.get(&format!("/api/coordination/tasks?workflowId={id}&status=completed&limit=2")).await;
        assert_eq!(tasks.is(200).as_array().unwrap().len(), 2);
        let cursor = tasks.headers["x-next-cursor"].to_str().unwrap();
        let rest = client.get(&format!("/api/coordination/tasks?workflowId={id}&limit=2&cursor={cursor}")).await;
        assert_eq!(rest.is(200).as_array().unwrap().len(), 1);
    }

    async fn a_workflow_shows_what_its_tasks_hand_on(db: TestDb) {
        let server = server(&db).await;
        let _stop = server.dispatch();
        let client = server.admin();
        client.agent("counter", json!({ "model": { "provider": "rehearsal", "name": "work" } })).await;
        let mut count = task("count", "counter", &[]);
        count["outputSchema"] = json!({ "type": "object", "required": ["count"] });
        let id = client.start(json!({ "tasks": [count] })).await;
        let done = client.reaches(&id, "completed").await;
        assert_eq!(find(&done, "count")["output"], json!({ "count": 3 }), "{done:#}");
    }

    async fn events_go_on_after_the_last_that_was_seen(db: TestDb) {
        let server = server(&db).await;
        let client = server.admin();
        let id = client.start(json!({ "tasks": [task("a", "writer", &[]), task("b", "writer", &["a"])] })).await;
        // The follower starts before anything happens.
        let (follower, followed) = (client.clone(), id.clone());
        let live = tokio::spawn(async move { follower.events(&followed, None).await });
        let _stop = server.dispatch();
        client.reaches(&id, "completed").await;
        let all = live.await.unwrap();
        assert_eq!(all.first().map(|(_, event)| event["type"].clone()), Some(json!("workflow_started")));
        assert_eq!(all.last().map(|(_, event)| event["type"].clone()), Some(json!("workflow_ended")));
        assert_eq!(kinds(&all).iter().filter(|kind| **kind == "task_started").count(), 2, "{all:#?}");
        let places: Vec<i64> = all.iter().map(|(id, event)| { assert_eq!(id, &event["seq"].to_string()); event["seq"].as_i64().unwrap() }).collect();
        assert_eq!(places, (1..=all.len() as i64).collect::<Vec<_>>(), "none twice, none missing");
        for cut in 0..all.len() {
            let rest = client.events(&id, Some(&cut.to_string())).await;
            assert_eq!(rest, all[cut..], "after {cut}");
        }
        let path = format!("/api/coordination/workflows/{id}/events");
        assert_eq!(client.get(&format!("{path}?after=-1")).await.field(), "after");
        let strange = client.request(Method::GET, &path).header("last-event-id", "x").body(Body::empty()).unwrap();
        assert_eq!(client.send(strange).await.field(), "Last-Event-ID");
    }

    async fn tasks_of_the_graph_are_dispatched_by_id_root_or_query(db: TestDb) {
        let server = server(&db).await;
        let _stop = server.dispatch();
        let client = server.admin();
        let made = async |key: &str| {
            client.object("SpecTask", key, json!({ "title": key, "assigned_agent": "writer", "kind": key })).await
        };
        let (one, two, three) = (made("one").await, made("two").await, made("three").await);
        for (body, field) in [
            (json!({}), "description"),
            (json!({ "taskIds": [one], "rootTaskId": two }), "rootTaskId"),
            (json!({ "taskIds": [] }), "taskIds"),
            (json!({ "taskIds": ["01890000-0000-7000-8000-000000000000"] }), "taskIds[0]"),
            (json!({ "taskIds": ["SpecTask/one", "SpecTask/nobody"] }), "taskIds[1]"),
            (json!({ "rootTaskId": "SpecTask/nobody" }), "rootTaskId"),
            (json!({ "rootTaskId": one, "planner": "writer" }), "planner"),
            (json!({ "query": { "filters": [{ "path": "kind", "op": "eq", "value": "none" }] } }), "query"),
            (json!({ "rootTaskId": one, "maxConcurrent": 0 }), "maxConcurrent"),
        ] {
            let refused = client.post(DISPATCH, body.clone()).await;
            refused.refused(400, "invalid");
            assert_eq!(refused.field(), field, "{body}: {}", refused.text);
        }
        let checked = client.post(DISPATCH, json!({ "taskIds": [one], "dryRun": true })).await;
        assert_eq!(checked.is(200)["layers"][0][0]["agent"], "writer");
        let by_id = client.start(json!({ "taskIds": ["SpecTask/one"] })).await;
        let by_root = client.start(json!({ "rootTaskId": "SpecTask/two" })).await;
        let kind = json!([{ "path": "kind", "op": "eq", "value": "three" }]);
        let by_query = client.start(json!({ "query": { "filters": kind } })).await;
        for (id, task) in [(by_id, one), (by_root, two), (by_query, three)] {
            assert_eq!(client.reaches(&id, "completed").await["tasks"][0]["id"], json!(task));
        }
        assert!(client.get("/api/coordination/discussions?status=active").await.is(200).as_array().unwrap().is_empty());
        let of_task = client.get("/api/coordination/discussions?taskId=SpecTask%2Fone").await;
        assert!(of_task.is(200).as_array().unwrap().is_empty());
    }

    async fn a_task_outside_of_workflows_is_found_by_its_key_and_names_its_blockers(db: TestDb) {
        let server = server(&db).await;
        let _stop = server.dispatch();
        let client = server.admin();
        let add = async |key: &str, blocked_by: Value| {
            let body = json!({ "key": key, "title": key, "assignedAgent": "writer", "blockedBy": blocked_by });
            client.post("/api/coordination/tasks", body).await
        };
        let first = add("find", json!([])).await.is(201)["id"].clone();
        let build = add("build", json!(["find"])).await.is(201)["id"].clone();
        assert_eq!(client.get("/api/coordination/tasks/SpecTask%2Fbuild").await.is(200)["id"], build);
        let refused = add("late", json!([first, "nobody"])).await;
        refused.refused(400, "invalid");
        assert_eq!(refused.field(), "blockedBy[1]", "{}", refused.text);
        let id = client.start(json!({ "taskIds": ["SpecTask/build"] })).await;
        let done = client.reaches(&id, "completed").await;
        assert_eq!(find(&done, "build")["blockedBy"], json!(["find"]), "{done:#}");
        let skipped = client.post("/api/coordination/tasks/SpecTask%2Fnobody/skip", json!({})).await;
        skipped.refused(404, "not_found");
        for key in ["twin", "twin"] {
            add(key, json!([])).await.is(201);
        }
        client.get("/api/coordination/tasks/SpecTask%2Ftwin").await.refused(409, "conflict");
        let empty = add("late", json!([""])).await;
        empty.refused(400, "invalid");
        assert_eq!(empty.field(), "blockedBy[0]", "{}", empty.text);
        assert!(empty.text.contains("the key of a task, or have the form `SpecTask/key`"), "{}", empty.text);
    }

    async fn an_object_with_the_key_of_a_task_does_not_take_its_place(db: TestDb) {
        let server = server(&db).await;
        let client = server.admin();
        let body = json!({ "key": "v", "title": "v", "assignedAgent": "writer" });
        let meant = client.post("/api/coordination/tasks", body).await.is(201)["id"].clone();
        let path = "/api/coordination/tasks/SpecTask%2Fv";
        assert_eq!(client.get(path).await.is(200)["id"], meant);
        let other = client.object("SpecTask", "v", json!({ "title": "Obey.", "assigned_agent": "writer" })).await;
        let refused = client.get(path).await;
        refused.refused(409, "conflict");
        assert!(refused.text.contains(&other) && refused.text.contains(meant.as_str().unwrap()), "{}", refused.text);
        let refused = client.post(DISPATCH, json!({ "taskIds": ["SpecTask/v"] })).await;
        refused.refused(400, "invalid");
        assert_eq!(refused.field(), "taskIds[0]", "{}", refused.text);
        let checked = client.post(DISPATCH, json!({ "taskIds": [meant], "dryRun": true })).await;
        assert_eq!(checked.is(200)["layers"][0][0]["key"], "v", "{}", checked.text);
    }

    async fn whoever_may_not_read_is_not_told_which_task_may_be_meant(db: TestDb) {
        let server = server(&db).await;
        let client = server.admin();
        let id = client.start(json!({ "tasks": [task("review", "writer", &[])] })).await;
        for (scopes, is_told) in [(&[Scope::GraphWrite][..], false), (&[Scope::GraphWrite, Scope::GraphRead][..], true)] {
            let token = server.token(scopes, Some(server.default_project)).await;
            let peer = Peer::modern(server.client(Some(&token)));
            let input = json!({ "id": "reviewx", "workflowId": id, "title": "x" });
            let answer = peer.call("tasks_update", input).await.to_string();
            assert!(answer.contains("has no task `reviewx`"), "{answer}");
            assert_eq!(answer.contains("did you mean `review`?"), is_told, "{answer}");
        }
    }

    async fn a_person_steers_what_does_not_go_on_by_itself(db: TestDb) {
        let server = server(&db).await;
        let _stop = server.dispatch();
        let client = server.admin();
        let id = client.start(json!({ "tasks": [task("bad", "broken", &[]), task("after", "writer", &["bad"])] })).await;
        let waits = client.reaches(&id, "escalated").await;
        let bad = find(&waits, "bad")["id"].as_str().unwrap().to_owned();
        assert_eq!(waits["escalation"]["taskId"], json!(bad), "{waits:#}");
        let options: Vec<&str> = waits["escalation"]["options"].as_array().unwrap().iter().map(|one| one.as_str().unwrap()).collect();
        for option in ["retry", "reassign", "skip", "cancel"] {
            assert!(options.contains(&option), "{options:?}");
        }
        let reason = waits["escalation"]["reason"].as_str().unwrap();
        assert!(reason.starts_with("task `bad` failed: "), "it says why: {reason}");
        let retry = &waits["escalation"]["actions"][0];
        let projects = client.get("/api/projects").await;
        let project = projects.is(200)[0]["id"].as_str().unwrap();
        assert_eq!(retry["command"], json!(format!("emergent task retry {bad} --project {project}")));
        let offered: Vec<&Value> = waits["escalation"]["actions"].as_array().unwrap().iter().map(|one| &one["option"]).collect();
        assert_eq!(offered, ["retry", "reassign", "skip", "resume", "cancel"], "{waits:#}");
        assert_eq!(retry["request"], json!(format!("POST /api/coordination/tasks/{bad}/retry")));
        let after = find(&waits, "after")["id"].as_str().unwrap().to_owned();
        client.post(&format!("/api/coordination/tasks/{after}/retry"), json!({})).await.refused(409, "conflict");
        let unknown = client.post(&format!("/api/coordination/tasks/{bad}/reassign"), json!({ "agent": "nobody" })).await;
        unknown.refused(400, "invalid");
        assert_eq!(unknown.field(), "agent");
        assert!(unknown.text.contains("there is no agent `nobody`; there are "), "{}", unknown.text);
        let misspelt = client.post(&format!("/api/coordination/tasks/{bad}/reassign"), json!({ "agent": "fixr" })).await;
        misspelt.refused(400, "invalid");
        assert!(misspelt.text.contains("there is no agent `fixr`; did you mean `fixer`?"), "{}", misspelt.text);
        let added = client.post("/api/coordination/tasks", json!({ "workflowId": id, "key": "more", "title": "more", "assignedAgent": "writr" })).await;
        added.refused(400, "invalid");
        assert!(added.text.contains("did you mean `writer`?"), "{}", added.text);
        let given = client.post(&format!("/api/coordination/tasks/{bad}/reassign"), json!({ "agent": "fixer", "note": "mind the step" })).await;
        assert_eq!((&given.is(200)["agent"], &given.is(200)["status"]), (&json!("fixer"), &json!("pending")), "{}", given.text);
        let done = client.reaches(&id, "completed").await;
        assert_eq!(find(&done, "bad")["attempts"], 2, "{done:#}");
        client.post(&format!("/api/coordination/workflows/{id}/cancel"), json!({})).await.refused(409, "conflict");
        client.post(&format!("/api/coordination/workflows/{id}/resume"), json!({})).await.refused(409, "conflict");

        // One workflow ends by skipping its task, another by cancelling it.
        let id = client.start(json!({ "tasks": [task("bad", "broken", &[])] })).await;
        let waits = client.reaches(&id, "escalated").await;
        let bad = find(&waits, "bad")["id"].as_str().unwrap();
        assert_eq!(client.post(&format!("/api/coordination/tasks/{bad}/skip"), json!({ "reason": "not needed" })).await.is(200)["status"], "skipped");
        client.reaches(&id, "completed").await;
        let id = client.start(json!({ "tasks": [task("slow", "slow", &[])] })).await;
        for _ in 0..500 {
            if find(&client.workflow(&id).await, "slow")["status"] == "in_progress" { break }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let ended = client.post(&format!("/api/coordination/workflows/{id}/cancel"), json!({})).await;
        assert_eq!(ended.is(200)["status"], "cancelled");
        let run = find(&client.workflow(&id).await, "slow")["runIds"][0].as_str().unwrap().to_owned();
        assert_eq!(client.ended(&run).await["status"], "cancelled");
        assert_eq!(kinds(&client.events(&id, None).await).last(), Some(&"workflow_ended"));

        // The failed tasks are retried together, with a new budget.
        let id = client.start(json!({ "tasks": [task("bad", "broken", &[])], "onFailure": "skip" })).await;
        client.reaches(&id, "failed").await;
        let resumed = client.post(&format!("/api/coordination/workflows/{id}/resume"), json!({ "note": "again", "budgetUsd": 1.5 })).await;
        assert_eq!((&resumed.is(202)["status"], &resumed.is(202)["settings"]["budget"]["usd"]), (&json!("running"), &json!(1.5)));
        client.reaches(&id, "failed").await;
    }

    async fn a_task_taken_by_hand_says_so_and_can_be_taken_back(db: TestDb) {
        let server = server(&db).await;
        let client = server.admin();
        let id = client.start(json!({ "tasks": [task("write", "writer", &[])] })).await;
        let write = client.workflow(&id).await["tasks"][0]["id"].as_str().unwrap().to_owned();
        client.patch(&format!("/api/graph/objects/{write}"), json!({ "properties": { "status": "in_progress" } })).await.is(200);
        let _stop = server.dispatch();
        let mut told = Value::Null;
        for _ in 0..500 {
            let shown = client.workflow(&id).await;
            told = find(&shown, "write")["waiting"].clone();
            if shown["eventSeq"].as_i64() > Some(2) { break }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert!(told.as_str().unwrap().contains("by hand"), "{told}");
        client.post(&format!("/api/coordination/tasks/{write}/retry"), json!({})).await.is(200);
        let done = client.reaches(&id, "completed").await;
        assert_eq!(find(&done, "write").get("waiting"), None);
        let events = client.events(&id, None).await;
        assert_eq!(kinds(&events).into_iter().filter(|kind| *kind == "task_waiting").count(), 1, "{events:?}");
    }

    async fn a_dry_run_tells_what_would_be_done_and_does_nothing(db: TestDb) {
        let server = server(&db).await;
        let client = server.admin();
        let mut open = task("write", "writer", &["research", "survey"]);
        open.as_object_mut().unwrap().remove("assignedAgent");
        let told = client.post(DISPATCH, json!({ "dryRun": true, "maxConcurrent": 1, "tasks": [
            task("research", "researcher", &[]), task("survey", "researcher", &[]), open,
        ] })).await;
        let told = told.is(200);
        assert_eq!((&told["dryRun"], &told["planner"], &told["first"]), (&json!(true), &Value::Null, &json!(["research"])), "{told:#}");
        let keys: Vec<Vec<&str>> = told["layers"].as_array().unwrap().iter()
            .map(|layer| layer.as_array().unwrap().iter().map(|task| task["key"].as_str().unwrap()).collect()).collect();
        assert_eq!(keys, [vec!["research", "survey"], vec!["write"]]);
        assert_eq!(told["layers"][0][0]["agent"], "researcher");
        assert!(told["layers"][0][0]["reason"].as_str().unwrap().contains("names"), "{told:#}");
        let waits = &told["layers"][1][0]["blockedBy"];
        assert!(waits.as_array().unwrap().len() == 2 && told["layers"][1][0]["reason"].is_string(), "{told:#}");
        let planned = client.post(DISPATCH, json!({ "dryRun": true, "description": "Build it", "planner": "writer" })).await;
        assert_eq!((&planned.is(200)["planner"], &planned.is(200)["layers"]), (&json!("writer"), &json!([])));
        let circle = client.post(DISPATCH, json!({ "dryRun": true, "tasks": [task("a", "writer", &["b"]), task("b", "writer", &["a"])] })).await;
        circle.refused(400, "invalid");
        assert_eq!(client.get("/api/coordination/workflows").await.is(200), &json!([]));
        assert_eq!(client.get("/api/graph/objects?type=SpecTask").await.is(200), &json!([]));
    }

    async fn a_dispatch_names_a_bounded_number_of_blockers_and_is_told_a_bounded_number_of_problems(db: TestDb) {
        let server = server(&db).await;
        let client = server.admin();
        // Every task waits for so many before it, and there are as many others as may be named.
        let tasks = |count: usize, blockers: usize, prefix: &str| -> Value {
            let key = |n: usize| format!("{prefix}{n}");
            let all = (0..count).map(|n| {
                let before: Vec<String> = (n.saturating_sub(blockers)..n).map(key).collect();
                json!({ "key": format!("k{n}"), "title": "t", "assignedAgent": "writer", "blockedBy": before })
            });
            all.collect()
        };
        for dry_run in [true, false] {
            let refused = client.post(DISPATCH, json!({ "dryRun": dry_run, "tasks": tasks(1_000, 180, "k") })).await;
            let error = refused.refused(400, "invalid");
            assert_eq!(error["details"][0]["field"], "tasks");
            let reason = error["details"][0]["reason"].as_str().unwrap();
            assert!(reason.starts_with("names 163710 tasks") && reason.contains("the limit for one request is 10000"), "{reason}");
            let refused = client.post(DISPATCH, json!({ "dryRun": dry_run, "tasks": tasks(1_000, 9, "unknown") })).await;
            let error = refused.refused(400, "invalid");
            let problems = error["details"].as_array().unwrap();
            assert_eq!((problems.len(), &problems[99]["field"]), (100, &json!("tasks")));
            assert!(error.to_string().len() < 50_000);
        }
        assert_eq!(client.get("/api/graph/objects?type=SpecTask").await.is(200), &json!([]));
        let told = client.post(DISPATCH, json!({ "dryRun": true, "tasks": tasks(300, 30, "k") })).await;
        assert_eq!(told.is(200)["layers"].as_array().unwrap().len(), 300);
        assert_eq!(told.is(200)["layers"][299][0]["blockedBy"].as_array().unwrap().len(), 30);
        assert_eq!(client.get("/api/graph/objects?type=SpecTask").await.is(200), &json!([]), "nothing was written");
    }

    async fn what_makes_no_sense_is_refused_by_name_and_writes_nothing(db: TestDb) {
        let server = server(&db).await;
        let client = server.admin();
        let fine = || task("a", "writer", &[]);
        let with = |field: &str, value: Value| { let mut one = fine(); one[field] = value; json!({ "tasks": [one] }) };
        let also = |field: &str, value: Value| { let mut body = json!({ "tasks": [fine()] }); body[field] = value; body };
        let refused = [
            (json!({}), "description"),
            (json!({ "description": "x", "tasks": [fine()] }), "tasks"),
            (json!({ "description": "" }), "description"),
            (json!({ "description": 1 }), "description"),
            (json!({ "description": "x" }), "planner"),
            (json!({ "description": "x", "planner": "nobody" }), "planner"),
            (json!({ "tasks": [] }), "tasks"),
            (json!({ "tasks": {} }), "tasks"),
            (json!({ "tasks": [["a", "b"]] }), "tasks[0]"),
            (json!({ "tasks": [{}] }), "tasks[0].key"),
            (json!({ "tasks": [{ "key": "a" }] }), "tasks[0].title"),
            (with("key", json!("")), "tasks[0].key"),
            (with("key", json!("no good")), "tasks[0].key"),
            (with("title", json!("")), "tasks[0].title"),
            (with("priority", json!("urgent")), "tasks[0].priority"),
            (with("verdict", json!("maybe")), "tasks[0].verdict"),
            (with("maxRetries", json!(-1)), "tasks[0].maxRetries"),
            (with("complexity", json!(11)), "tasks[0].complexity"),
            (with("assignedAgent", json!("nobody")), "tasks[0].assignedAgent"),
            (with("collaborators", json!(["writer", "nobody"])), "tasks[0].collaborators[1]"),
            (with("blockedBy", json!(["zz"])), "tasks[0].blockedBy[0]"),
            (with("blockedBy", json!(["a"])), "tasks[0].blockedBy"),
            (with("verifies", json!(["zz"])), "tasks[0].verifies"),
            (with("surprise", json!(1)), "tasks[0].surprise"),
            (with("workflowId", json!("x")), "tasks[0].workflowId"),
            (json!({ "tasks": [fine(), fine()] }), "tasks[1].key"),
            (json!({ "tasks": [task("a", "writer", &["b"]), task("b", "writer", &["a"])] }), "tasks["),
            (also("maxConcurrent", json!(0)), "maxConcurrent"),
            (also("maxConcurrent", json!(-3)), "maxConcurrent"),
            (also("maxConcurrent", json!(1.5)), "maxConcurrent"),
            (also("budgetUsd", json!(0)), "budgetUsd"),
            (also("budgetUsd", json!(-1)), "budgetUsd"),
            (also("budgetUsd", json!(1e300)), "budgetUsd"),
            (also("budgetTokens", json!(0)), "budgetTokens"),
            (also("selector", json!("dice")), "selector"),
            (also("threading", json!("hybrid")), "threading"),
            (also("onFailure", json!("shrug")), "onFailure"),
            (also("planner", json!("nobody")), "planner"),
            (also("dryRun", json!("yes")), "dryRun"),
            (also("surprise", json!(1)), "surprise"),
        ];
        for (body, field) in refused {
            let answer = client.post(DISPATCH, body.clone()).await;
            answer.refused(400, "invalid");
            assert!(answer.field().starts_with(field), "{body} names `{}` instead of `{field}`: {}", answer.field(), answer.text);
        }
        // All errors are reported at once.
        let two = client.post(DISPATCH, json!({ "tasks": [task("a", "nobody", &["zz"])] })).await;
        assert_eq!(two.refused(400, "invalid")["details"].as_array().unwrap().len(), 2, "{}", two.text);
        for (path, field) in [
            ("workflows?status=odd", "status"), ("workflows?limit=0", "limit"), ("workflows?cursor=x", "cursor"), ("workflows?odd=1", "odd"),
            ("tasks?status=odd", "status"), ("tasks?available=perhaps", "available"), ("tasks?workflowId=x", "workflowId"),
            ("workflows/x", "workflowId"), ("discussions/x", "discussionId"),
        ] {
            let answer = client.get(&format!("/api/coordination/{path}")).await;
            answer.refused(400, "invalid");
            assert_eq!(answer.field(), field, "{path}");
        }
        for (body, field) in [
            (json!({ "usd": 0 }), "usd"), (json!({ "tokens": -1 }), "tokens"), (json!({ "agent": "nobody", "usd": 1 }), "agent"),
            (json!({ "agent": "", "usd": 1 }), "agent"), (json!({ "surprise": 1 }), "surprise"),
        ] {
            let answer = client.put("/api/coordination/budgets", body).await;
            answer.refused(400, "invalid");
            assert_eq!(answer.field(), field);
        }
        let nobody = "01890000-0000-7000-8000-000000000000";
        for path in [format!("workflows/{nobody}"), format!("workflows/{nobody}/events"), format!("discussions/{nobody}")] {
            client.get(&format!("/api/coordination/{path}")).await.refused(404, "not_found");
        }
        for path in [format!("workflows/{nobody}/cancel"), format!("workflows/{nobody}/resume"), format!("tasks/{nobody}/retry"), format!("tasks/{nobody}/skip")] {
            client.post(&format!("/api/coordination/{path}"), json!({})).await.refused(404, "not_found");
        }
        assert_eq!(client.get("/api/coordination/workflows").await.is(200), &json!([]));
        assert_eq!(client.get("/api/graph/objects").await.is(200), &json!([]));
        assert_eq!(client.get("/api/coordination/budgets").await.is(200)["project"], json!({ "limit": { "usd": null, "tokens": null }, "today": null }));
    }

    async fn tasks_are_added_to_a_workflow_or_to_none(db: TestDb) {
        let server = server(&db).await;
        let client = server.admin();
        let id = client.start(json!({ "tasks": [task("a", "writer", &[])] })).await;
        let add = async |body: Value| client.post("/api/coordination/tasks", body).await;
        let mut more = task("b", "writer", &["a"]);
        more["workflowId"] = json!(id);
        let made = add(more.clone()).await;
        assert_eq!((&made.is(201)["workflowId"], &made.is(201)["status"], &made.is(201)["agent"]), (&json!(id), &json!("pending"), &json!("writer")));
        assert_eq!(add(more).await.field(), "key", "a second task of that name");
        let mut lost = task("c", "writer", &["zz"]);
        lost["workflowId"] = json!(id);
        assert_eq!(add(lost).await.field(), "blockedBy[0]");
        // Only tasks without open blockers can start.
        let free = client.get(&format!("/api/coordination/tasks?available=true&workflowId={id}")).await;
        assert_eq!(free.is(200).as_array().unwrap().iter().map(|one| one["key"].clone()).collect::<Vec<_>>(), [json!("a")]);
        let alone = add(json!({ "key": "alone", "title": "For whoever takes it" })).await;
        assert_eq!(alone.is(201)["workflowId"], Value::Null);
        // Each of them is found by its id, whether it has a workflow or not.
        for task in [made.is(201), alone.is(201)] {
            let path = format!("/api/coordination/tasks/{}", task["id"].as_str().unwrap());
            let shown = client.get(&path).await;
            assert_eq!((&shown.is(200)["id"], &shown.is(200)["key"]), (&task["id"], &task["key"]));
        }
        let note = client.object("Note", "no-task", json!({})).await;
        client.get(&format!("/api/coordination/tasks/{note}")).await.refused(404, "not_found");
        for (body, field) in [
            (json!({ "key": "x", "title": "x", "blockedBy": ["a"] }), "blockedBy[0]"), (json!({ "key": "x", "title": "" }), "title"),
            (json!({ "key": "x", "title": "x", "assignedAgent": "nobody" }), "assignedAgent"), (json!({ "title": "x" }), "key"),
            (json!({ "key": "x", "title": "x", "surprise": 1 }), "surprise"),
        ] {
            assert_eq!(add(body).await.field(), field);
        }
        let _stop = server.dispatch();
        let done = client.reaches(&id, "completed").await;
        assert_eq!(done["tasks"].as_array().unwrap().len(), 2);
        add(json!({ "workflowId": id, "key": "late", "title": "late" })).await.refused(409, "conflict");
    }

    async fn a_discussion_without_an_end_waits_for_a_person_whose_decision_goes_on(db: TestDb) {
        let server = server(&db).await;
        let _stop = server.dispatch();
        let client = server.admin();
        let mut talked_over = task("draft", "writer", &[]);
        talked_over["requiresCollaboration"] = json!(true);
        talked_over["collaborators"] = json!(["critic"]);
        let id = client.start(json!({ "tasks": [talked_over, task("next", "writer", &["draft"])] })).await;
        let waits = client.reaches(&id, "escalated").await;
        let discussion = waits["escalation"]["discussionId"].as_str().expect("a discussion").to_owned();
        assert_eq!(waits["escalation"]["taskId"], find(&waits, "draft")["id"]);
        let shown = client.get(&format!("/api/coordination/discussions/{discussion}")).await.is(200).clone();
        assert_eq!((&shown["status"], &shown["kind"], &shown["taskId"]), (&json!("escalated"), &json!("review_loop"), &find(&waits, "draft")["id"]), "{shown:#}");
        let said: Vec<&str> = shown["entries"].as_array().unwrap().iter().map(|one| one["agent"].as_str().unwrap()).collect();
        assert!(said.starts_with(&["writer", "critic"]) && said.iter().filter(|one| **one == "writer").count() == 4, "{said:?}");
        assert!(shown["runs"].as_array().unwrap().len() + 1 >= said.len(), "{shown:#}");
        let body = json!({ "decision": "It will do as it is.", "reason": "there is no second half" });
        client.post(&format!("/api/coordination/discussions/{discussion}/decide"), body).await.is(200);
        let done = client.reaches(&id, "completed").await;
        let shown = client.get(&format!("/api/coordination/discussions/{discussion}")).await.is(200).clone();
        assert_eq!((&shown["status"], &shown["finalDecision"]["by"]), (&json!("resolved"), &json!("person")), "{shown:#}");
        let next = find(&done, "next")["runIds"][0].as_str().unwrap();
        let run = client.get(&format!("/api/admin/runs/{next}")).await.is(200).clone();
        let path = format!("/api/admin/agents/{}/runs/{next}/messages?role=user", run["agentId"].as_str().unwrap());
        let told = client.get(&path).await;
        assert!(told.text.contains("It will do as it is."), "{}", told.text);
    }

    async fn a_person_decides_only_what_is_escalated(db: TestDb) {
        let server = server(&db).await;
        let client = server.admin();
        let open = client.object("Discussion", "open", json!({ "topic": "t", "status": "active", "discussion_type": "consensus" })).await;
        let stuck = client.object("Discussion", "stuck", json!({ "topic": "Which way", "status": "escalated", "discussion_type": "debate", "participating_agents": ["writer", "fixer"] })).await;
        for (at, text) in ["left", "right"].iter().enumerate() {
            let entry = client.object("DiscussionEntry", text, json!({ "agent_name": "writer", "content": text, "entry_type": "argument" })).await;
            let edge = json!({ "type": "has_entry", "fromId": stuck, "toId": entry, "properties": { "sequence": 2 - at } });
            client.post("/api/graph/relationships", edge).await.is(201);
        }
        let path = |id: &str| format!("/api/coordination/discussions/{id}");
        let shown = client.get(&path(&stuck)).await;
        let said: Vec<_> = shown.is(200)["entries"].as_array().unwrap().iter().map(|one| one["content"].clone()).collect();
        assert_eq!((said, &shown.is(200)["participants"]), (vec![json!("right"), json!("left")], &json!(["writer", "fixer"])));
        let decide = async |id: &str, body: Value| client.post(&format!("{}/decide", path(id)), body).await;
        decide(&open, json!({ "decision": "x" })).await.refused(409, "conflict");
        for (body, field) in [(json!({}), "decision"), (json!({ "decision": "" }), "decision"), (json!({ "decision": null }), "decision"), (json!({ "decision": "x", "surprise": 1 }), "surprise")] {
            assert_eq!(decide(&stuck, body).await.field(), field);
        }
        let decided = decide(&stuck, json!({ "decision": "left", "reason": "it is shorter" })).await;
        assert_eq!((&decided.is(200)["decidedByPerson"]["decision"], &decided.is(200)["decidedByPerson"]["reason"]), (&json!("left"), &json!("it is shorter")), "{}", decided.text);
        decide(&stuck, json!({ "decision": "right" })).await.refused(409, "conflict");
        let task = client.object("Task", "t", json!({})).await;
        client.get(&path(&task)).await.refused(404, "not_found");
    }

    async fn budgets_of_a_day_are_set_shown_and_taken_away(db: TestDb) {
        let server = server(&db).await;
        let client = server.admin();
        let put = async |body: Value| client.put("/api/coordination/budgets", body).await.is(200).clone();
        put(json!({ "usd": 12.5 })).await;
        let both = put(json!({ "agent": "writer", "tokens": 1_000_000 })).await;
        assert_eq!(both["project"]["limit"], json!({ "usd": 12.5, "tokens": null }));
        assert_eq!((&both["agents"][0]["agent"], &both["agents"][0]["limit"]["tokens"]), (&json!("writer"), &json!(1_000_000)));
        let _stop = server.dispatch();
        let id = client.start(json!({ "tasks": [task("a", "writer", &[])] })).await;
        client.reaches(&id, "completed").await;
        let used = client.get("/api/coordination/budgets").await.is(200).clone();
        assert!(used["agents"][0]["today"]["spent"]["tokens"].as_i64().unwrap() > 0, "{used:#}");
        assert_eq!(used["agents"][0]["today"]["reserved"], json!({ "usd": 0.0, "tokens": 0 }));
        let other = server.project("other").await;
        assert_eq!(client.in_project(other).get("/api/coordination/budgets").await.is(200)["project"]["limit"]["usd"], Value::Null);
        let gone = put(json!({ "usd": null })).await;
        assert_eq!(gone["project"]["limit"]["usd"], Value::Null);
        // A token with read access may not set budgets.
        let reader = server.client(Some(&server.token(&[Scope::AgentsRead, Scope::AgentsInvoke], None::<ProjectId>).await));
        reader.get("/api/coordination/budgets").await.is(200);
        reader.put("/api/coordination/budgets", json!({ "usd": 1 })).await.refused(403, "missing_scope");
    }
}
