//! What a workflow that waits for a person, or that had a budget, holds back cannot be had by cancelling it, by adding to
//! it, or by another name for the same decision; and each such decision is in the audit log.

use emergent_domain::{
    author::Author,
    ids::{RunId, WorkflowId},
    task::NewTask,
    token::Scope,
};
use emergent_graph::Actor;
use emergent_testkit::{both_engines, scripted::hangs};
use serde_json::{Value, json};

use crate::{
    common::{Answer, Client, Server},
    coordination::server,
    mcp::peer::Peer,
    webhooks::{disagreeing, escalated},
};

const DISPATCH: &str = "/api/coordination/dispatch";
const TASKS: &str = "/api/coordination/tasks";

/// A client with every scope but the one that decides.
async fn undecided(server: &Server) -> Client {
    let others: Vec<_> = Scope::ALL.iter().copied().filter(|one| *one != Scope::ApprovalsDecide).collect();
    server.client(Some(&server.token(&others, Some(server.default_project)).await))
}

fn task(key: &str, agent: &str, blocked_by: &[&str]) -> Value {
    json!({ "key": key, "title": key, "assignedAgent": agent, "blockedBy": blocked_by, "maxRetries": 0 })
}

/// A workflow that waits because a task failed, with one that waits for the task.
fn failing() -> Value {
    json!({ "tasks": [task("bad", "broken", &[]), task("next", "writer", &["bad"])] })
}

fn task_id(workflow: &Value, key: &str) -> String {
    let tasks = workflow["tasks"].as_array().unwrap();
    tasks.iter().find(|task| task["key"] == key).unwrap()["id"].as_str().unwrap().to_owned()
}

#[track_caller]
fn assert_needs_decider(answer: &Answer) {
    assert_eq!(
        answer.refused(403, "missing_scope")["details"]["scope"],
        "approvals:decide",
        "{}",
        answer.text
    );
}

async fn audited(admin: &Client, action: &str) -> Vec<Value> {
    admin.get(&format!("/api/admin/audit?action={action}")).await.is(200).as_array().unwrap().clone()
}

/// Tries to take a task over in each way there is.
async fn assert_cannot_take(client: &Client, id: &str) {
    for body in [
        json!({ "taskIds": [id] }),
        json!({ "rootTaskId": id }),
        json!({ "taskIds": [id], "dryRun": true }),
        json!({ "taskIds": [id], "budgetTokens": 1, "budgetUsd": 0.001 }),
    ] {
        assert_needs_decider(&client.post(DISPATCH, body).await);
    }
}

both_engines! {
    async fn what_a_workflow_that_waited_has_left_is_taken_by_whoever_decides(db: TestDb) {
        let server = server(&db).await;
        let _stop = server.dispatch();
        let (admin, attacker) = (server.admin(), undecided(&server).await);
        let spent = json!({ "tasks": [task("bad", "writer", &[]), task("next", "writer", &["bad"])], "budgetTokens": 2 });
        for new in [failing(), spent] {
            let id = admin.start(new).await;
            let next = task_id(&admin.reaches(&id, "escalated").await, "next");
            let path = format!("/api/coordination/workflows/{id}");
            assert_needs_decider(&attacker.post(&format!("{path}/resume"), json!({})).await);
            attacker.post(&format!("{path}/cancel"), json!({})).await.is(200);
            assert_cannot_take(&attacker, &next).await;
            // Neither with a task that is joined with it.
            let own = admin.object("SpecTask", &format!("own-{id}"), json!({ "title": "own" })).await;
            admin.edge("blocks", &next, &own).await;
            assert_cannot_take(&attacker, &own).await;
            let left = admin.get(&format!("{TASKS}/{next}")).await.is(200).clone();
            assert_eq!((&left["workflowId"], &left["status"]), (&json!(id), &json!("skipped")), "{left}");
            assert_eq!(admin.get(&format!("/api/approvals/{id}")).await.is(200)["status"], "withdrawn");
            assert_eq!(audited(&admin, "workflow.take_over").await.iter().filter(|entry| entry["target"]["id"] == id).count(), 0);
            let cancelled = audited(&admin, "workflow.cancel").await;
            assert_eq!((&cancelled[0]["target"]["id"], cancelled[0]["token"].is_object()), (&json!(id), true), "{cancelled:?}");

            admin.post(DISPATCH, json!({ "taskIds": [next] })).await.is(202);
            let taken = audited(&admin, "workflow.take_over").await;
            assert_eq!((&taken[0]["target"]["id"], &taken[0]["details"]["tasks"]), (&json!(id), &json!(2)), "{taken:?}");
        }
    }

    async fn a_denial_and_a_budget_outlive_their_workflow(db: TestDb) {
        let server = server(&db).await;
        let _stop = server.dispatch();
        let (admin, attacker) = (server.admin(), undecided(&server).await);
        // A person denied that it goes on.
        let denied = admin.start(failing()).await;
        let next = task_id(&admin.reaches(&denied, "escalated").await, "next");
        admin.post(&format!("/api/approvals/{denied}/decide"), json!({ "decision": "deny" })).await.is(200);
        admin.reaches(&denied, "cancelled").await;
        assert_cannot_take(&attacker, &next).await;

        let slow = || json!([task("slow", "slow", &[]), task("next", "writer", &["slow"])]);
        let limited = admin.start(json!({ "tasks": slow(), "budgetUsd": 1 })).await;
        let next = task_id(&admin.reaches(&limited, "running").await, "next");
        attacker.post(&format!("/api/coordination/workflows/{limited}/cancel"), json!({})).await.is(200);
        assert_cannot_take(&attacker, &next).await;

        // A workflow that nobody had to decide about is taken over as before, also one that was resumed.
        let free = admin.start(json!({ "tasks": slow() })).await;
        let next = task_id(&admin.reaches(&free, "running").await, "next");
        attacker.post(&format!("/api/coordination/workflows/{free}/cancel"), json!({})).await.is(200);
        attacker.post(DISPATCH, json!({ "taskIds": [next] })).await.is(202);
        let resumed = admin.start(json!({ "tasks": [task("bad", "broken", &[]), task("slow", "slow", &["bad"])] })).await;
        let shown = admin.reaches(&resumed, "escalated").await;
        let (bad, slow) = (task_id(&shown, "bad"), task_id(&shown, "slow"));
        admin.post(&format!("{TASKS}/{bad}/reassign"), json!({ "agent": "writer" })).await.is(200);
        admin.reaches(&resumed, "running").await;
        attacker.post(&format!("/api/coordination/workflows/{resumed}/cancel"), json!({})).await.is(200);
        attacker.post(DISPATCH, json!({ "taskIds": [slow] })).await.is(202);
        assert_eq!(audited(&admin, "workflow.take_over").await.len(), 0);
        assert_eq!(audited(&admin, "workflow.cancel").await.len(), 0, "a workflow that is at work asks nobody");
    }

    async fn what_waited_for_a_discussion_is_taken_by_whoever_decides(db: TestDb) {
        let server = Server::with_models(&db, 1_024, disagreeing().models()).await;
        let _working = server.dispatch();
        let admin = server.admin();
        admin.agent("writer", json!({})).await;
        admin.agent("researcher", json!({})).await;
        let (workflow, _) = escalated(&server).await;
        let path = format!("/api/coordination/workflows/{workflow}");
        let id = admin.get(&path).await.is(200)["tasks"][0]["id"].as_str().unwrap().to_owned();
        let attacker = undecided(&server).await;
        attacker.post(&format!("{path}/cancel"), json!({})).await.is(200);
        assert_cannot_take(&attacker, &id).await;
    }

    async fn a_discussion_that_waits_while_its_workflow_goes_on_is_not_passed_by_cancelling(db: TestDb) {
        let model = disagreeing().agent("slow", [hangs()]);
        let server = Server::with_models(&db, 1_024, model.models()).await;
        let _working = server.dispatch();
        let (admin, attacker) = (server.admin(), undecided(&server).await);
        for name in ["writer", "researcher", "slow"] {
            admin.agent(name, json!({})).await;
        }
        let design = json!({ "key": "design", "title": "design", "assignedAgent": "writer",
            "requiresCollaboration": true, "collaborators": ["researcher"] });
        let id = admin.start(json!({ "tasks": [design, task("slow", "slow", &[])] })).await;
        let mut waits = 0;
        for _ in 0..1_000 {
            waits = admin.get("/api/approvals?status=pending&kind=discussion").await.is(200).as_array().unwrap().len();
            if waits > 0 {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        assert_eq!(waits, 1, "the discussion waits");
        let shown = admin.reaches(&id, "running").await;
        let (design, slow) = (task_id(&shown, "design"), task_id(&shown, "slow"));
        attacker.post(&format!("/api/coordination/workflows/{id}/cancel"), json!({})).await.is(200);
        assert_cannot_take(&attacker, &design).await;
        assert_cannot_take(&attacker, &slow).await;
        let cancelled = audited(&admin, "workflow.cancel").await;
        assert_eq!((cancelled.len(), &cancelled[0]["target"]["id"]), (1, &json!(id)), "{cancelled:?}");
        admin.post(DISPATCH, json!({ "taskIds": [design] })).await.is(202);
        assert_eq!(audited(&admin, "workflow.take_over").await.len(), 1);
    }

    async fn a_task_is_not_freed_by_being_something_else_for_a_while(db: TestDb) {
        let server = server(&db).await;
        let _stop = server.dispatch();
        let (admin, attacker) = (server.admin(), undecided(&server).await);
        let id = admin.start(failing()).await;
        let next = task_id(&admin.reaches(&id, "escalated").await, "next");
        let object = format!("/api/graph/objects/{next}");
        let answer = attacker.patch(&object, json!({ "type": "Tmp" })).await;
        assert_eq!(answer.refused(400, "invalid")["details"][0]["field"], "type", "{}", answer.text);
        let peer = Peer::modern(undecided(&server).await);
        let answer = peer.call("entities_update", json!({ "id": next, "type": "Tmp" })).await;
        assert_eq!(answer["isError"], true, "{answer}");
        let task = admin.get(&object).await.is(200).clone();
        assert_eq!((&task["type"], &task["properties"]["workflow_id"]), (&json!("SpecTask"), &json!(id)), "{task}");
    }

    async fn tasks_are_added_to_a_workflow_that_waits_by_whoever_decides(db: TestDb) {
        let server = server(&db).await;
        let _stop = server.dispatch();
        let (admin, attacker) = (server.admin(), undecided(&server).await);
        let id = admin.start(failing()).await;
        let before = admin.reaches(&id, "escalated").await;
        let more = json!({ "workflowId": id, "key": "more", "title": "more", "assignedAgent": "writer" });
        assert_needs_decider(&attacker.post(TASKS, more.clone()).await);
        let peer = Peer::modern(undecided(&server).await);
        let answer = peer.call("tasks_create", json!({ "workflowId": id, "title": "more" })).await;
        assert!(answer["isError"] == true && answer.to_string().contains("approvals:decide"), "{answer}");
        // Neither by a run that does not work for it, whoever started that.
        let author = Author::Run { run_id: RunId::new(), tool_call_id: None };
        let run = Actor { project: server.default_project, author };
        let new = NewTask { key: "more".to_owned(), title: "more".to_owned(), ..NewTask::default() };
        let workflow = WorkflowId(id.parse().unwrap());
        let error = server.app.dispatcher.add_task(run, Some(workflow), new).await.err().unwrap();
        assert!(error.to_string().contains("approvals:decide"), "{error}");
        assert_eq!(admin.reaches(&id, "escalated").await, before, "nothing was written");
        admin.post(TASKS, more).await.is(201);
        assert_eq!(admin.reaches(&id, "escalated").await["tasks"].as_array().unwrap().len(), 3);
    }

    async fn what_is_decided_about_a_workflow_that_waits_is_in_the_audit_log(db: TestDb) {
        let server = server(&db).await;
        let _stop = server.dispatch();
        let admin = server.admin();
        let id = admin.start(failing()).await;
        let bad = task_id(&admin.reaches(&id, "escalated").await, "bad");
        let post = async |path: &str, body: Value, status: u16| {
            admin.post(path, body).await.is(status);
            admin.reaches(&id, "escalated").await;
        };
        post(&format!("{TASKS}/{bad}/retry"), json!({}), 200).await;
        post(&format!("{TASKS}/{bad}/reassign"), json!({ "agent": "broken" }), 200).await;
        let workflow = format!("/api/coordination/workflows/{id}");
        post(&format!("{workflow}/resume"), json!({ "budgetTokens": 900_000 }), 202).await;
        post(&format!("{workflow}/resume"), json!({ "budgetTokens": 900_000 }), 202).await;
        // A decision in the inbox is recorded there.
        post(&format!("/api/approvals/{id}/decide"), json!({ "decision": "approve" }), 200).await;
        admin.post(&format!("{TASKS}/{bad}/skip"), json!({})).await.is(200);
        for (action, target, count) in [
            ("task.retry", &bad, 1), ("task.reassign", &bad, 1), ("task.skip", &bad, 1), ("workflow.resume", &id, 2),
            ("workflow.set_budget", &id, 1), ("approval.decide", &id, 1),
        ] {
            let entries = audited(&admin, action).await;
            assert_eq!(entries.len(), count, "{action}: {entries:?}");
            assert_eq!((&entries[0]["target"]["id"], &entries[0]["token"]["name"]), (&json!(target), &json!("admin")), "{action}");
        }
        assert_eq!(audited(&admin, "task.retry").await[0]["details"]["workflow"], json!(id));
        let budget = audited(&admin, "workflow.set_budget").await[0]["details"].clone();
        assert_eq!((&budget["tokensBefore"], &budget["tokens"]), (&Value::Null, &json!(900_000)));

        // The budget of one that has failed is changed when it is resumed.
        let failed = admin.start(json!({ "tasks": [task("bad", "broken", &[])], "onFailure": "skip", "budgetTokens": 9_000 })).await;
        admin.reaches(&failed, "failed").await;
        admin.post(&format!("/api/coordination/workflows/{failed}/resume"), json!({ "budgetTokens": 9_500 })).await.is(202);
        assert_eq!(audited(&admin, "workflow.set_budget").await[0]["target"]["id"], json!(failed));
        assert_eq!(audited(&admin, "workflow.resume").await.len(), 2, "nobody was asked about it");
    }
}
