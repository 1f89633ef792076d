//! Whoever may start and stop work, and nothing more, reads none of what is there: neither by the answers nor by the errors
//! nor by what a query finds.

use axum::{
    body::Body,
    http::{Method, header},
};
use emergent_domain::token::Scope;
use emergent_testkit::both_engines;
use serde_json::{Value, json};

use crate::{
    common::{Answer, Client, Server},
    coordination::server,
    mcp::peer::Peer,
};

const DISPATCH: &str = "/api/coordination/dispatch";
const TASKS: &str = "/api/coordination/tasks";

async fn token(server: &Server, scopes: &[Scope]) -> Client {
    server.client(Some(&server.token(scopes, Some(server.default_project)).await))
}

/// The answer names the scope to read with, and nothing of what is there.
#[track_caller]
fn assert_told_nothing(answer: &Answer) {
    assert_eq!(answer.refused(403, "missing_scope")["details"]["scope"], "agents:read", "{}", answer.text);
    for secret in ["Acme", "buy", "writer", "pending"] {
        assert!(!answer.text.contains(secret), "{secret}: {}", answer.text);
    }
}

#[track_caller]
fn assert_brief(answer: &Answer, status: u16, expected: &str) {
    let workflow = answer.is(status);
    let fields: Vec<&str> = workflow.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(fields, ["id", "status", "updatedAt"], "{workflow}");
    assert_eq!(workflow["status"], expected);
}

async fn resume(client: &Client, workflow: &str, key: &str) -> Answer {
    let path = format!("/api/coordination/workflows/{workflow}/resume");
    let request = client.request(Method::POST, &path).header(header::CONTENT_TYPE, "application/json");
    client.send(request.header("idempotency-key", key).body(Body::from("{}")).unwrap()).await
}

both_engines! {
    async fn tasks_that_are_there_are_for_whoever_reads_them(db: TestDb) {
        let server = server(&db).await;
        let admin = server.admin();
        let new = json!({ "key": "buy-acme", "title": "Buy Acme", "kind": "deal", "assignedAgent": "writer" });
        let task = admin.post(TASKS, new).await.is(201)["id"].as_str().unwrap().to_owned();
        let starter = token(&server, &[Scope::AgentsInvoke]).await;
        let guess = |kind: &str| json!({ "query": { "filters": [{ "path": "kind", "op": "eq", "value": kind }] } });
        for body in [
            json!({ "query": {} }), guess("deal"), guess("none"),
            json!({ "taskIds": [task] }), json!({ "taskIds": ["SpecTask/buy-acme"] }), json!({ "rootTaskId": task }),
            json!({ "taskIds": ["01890000-0000-7000-8000-000000000000"] }),
        ] {
            for dry_run in [true, false] {
                let mut body = body.clone();
                body["dryRun"] = json!(dry_run);
                assert_told_nothing(&starter.post(DISPATCH, body).await);
            }
        }
        let path = format!("{TASKS}/{task}");
        for (path, body) in [
            (format!("{path}/retry"), json!({})),
            (format!("{path}/skip"), json!({})),
            (format!("{path}/reassign"), json!({ "agent": "writer" })),
            (TASKS.to_owned(), json!({ "key": "b", "title": "B" })),
        ] {
            assert_told_nothing(&starter.post(&path, body).await);
        }
        let shown = admin.get(&path).await.is(200).clone();
        assert_eq!((&shown["status"], &shown["workflowId"]), (&json!("pending"), &Value::Null), "nothing was written");
        let both = token(&server, &[Scope::AgentsInvoke, Scope::AgentsRead]).await;
        assert_eq!(both.post(&format!("{path}/skip"), json!({})).await.is(200)["title"], "Buy Acme");
        assert!(both.post(DISPATCH, json!({ "query": {}, "dryRun": true })).await.text.contains("finds no pending task"));
    }

    async fn a_workflow_is_stopped_and_resumed_without_being_read(db: TestDb) {
        let server = server(&db).await;
        let _stop = server.dispatch();
        let admin = server.admin();
        let starter = token(&server, &[Scope::AgentsInvoke]).await;
        let bad = json!({ "key": "bad", "title": "Buy Acme", "assignedAgent": "broken", "maxRetries": 0 });
        let id = admin.start(json!({ "tasks": [bad], "onFailure": "skip" })).await;
        let failed = admin.reaches(&id, "failed").await;
        let budget = format!("/api/coordination/workflows/{id}/budget");
        assert_told_nothing(&starter.put(&budget, json!({ "tokens": 5 })).await);
        assert_brief(&resume(&starter, &id, "one").await, 202, "running");
        assert_brief(&resume(&starter, &id, "one").await, 202, "running");
        admin.reaches(&id, "failed").await;
        let whole = resume(&token(&server, &[Scope::AgentsInvoke, Scope::AgentsRead]).await, &id, "one").await;
        assert_eq!(whole.is(202)["description"], failed["description"]);
        admin.reaches(&id, "failed").await;

        let slow = json!({ "key": "slow", "title": "Buy Acme", "assignedAgent": "slow" });
        let id = starter.start(json!({ "tasks": [slow] })).await;
        let path = format!("/api/coordination/workflows/{id}");
        starter.get(&path).await.refused(403, "missing_scope");
        assert_brief(&starter.post(&format!("{path}/cancel"), json!({})).await, 200, "cancelled");
        let again = starter.post(&format!("{path}/cancel"), json!({})).await;
        assert!(!again.refused(409, "conflict").to_string().contains("Acme"), "{}", again.text);
    }

    async fn tools_add_to_what_is_there_for_whoever_reads_it(db: TestDb) {
        let server = server(&db).await;
        let admin = server.admin();
        let first = json!({ "key": "buy-acme", "title": "Buy Acme", "assignedAgent": "writer" });
        let id = admin.start(json!({ "tasks": [first] })).await;
        let shown = admin.get(&format!("/api/coordination/workflows/{id}")).await.is(200).clone();
        let task = shown["tasks"][0]["id"].clone();
        let starter = Peer::modern(token(&server, &[Scope::AgentsInvoke]).await);
        let more = json!({ "title": "More", "blockedBy": ["buy-acm"], "workflowId": id });
        for (tool, input) in [
            ("tasks_create", more.clone()),
            ("discussions_start", json!({ "topic": "Which?", "task": task, "participants": ["writer", "critic"] })),
        ] {
            let answer = starter.call(tool, input).await;
            assert_eq!(answer["isError"], true, "{answer}");
            let text = answer.to_string();
            assert!(text.contains("`graph:read` or `agents:read`") && !text.contains("buy-acme"), "{text}");
        }
        // New work is not there yet.
        let started = starter.call("tasks_create", json!({ "title": "New", "assignedAgent": "writer" })).await;
        assert_ne!(started["isError"], true, "{started}");
        for reads in [Scope::GraphRead, Scope::AgentsRead] {
            let both = Peer::modern(token(&server, &[Scope::AgentsInvoke, reads]).await);
            let answer = both.call("tasks_create", json!({ "title": "More", "blockedBy": ["buy-acme"], "workflowId": id })).await;
            assert_ne!(answer["isError"], true, "{answer}");
        }
    }
}
