//! What waits in the inbox is decided with the scope of decisions only, whichever route takes the decision.

use axum::http::Method;
use emergent_domain::{
    author::Author,
    ids::{ObjectId, RunId},
    token::Scope,
};
use emergent_graph::Actor;
use emergent_testkit::both_engines;
use serde_json::json;

use crate::{
    authorisation::operations,
    common::{Client, Server},
    webhooks::{disagreeing, escalated},
};

/// The routes that change a workflow without deciding about it: cancelling it withdraws what waits, as it does for a run.
/// What it has left is then for whoever decides (`escalated_workflows`).
const NO_DECISIONS: [&str; 2] = ["/cancel", "/dispatch"];

async fn pending(admin: &Client) -> usize {
    admin.get("/api/approvals?status=pending").await.is(200).as_array().unwrap().len()
}

both_engines! {
    async fn every_route_that_decides_what_the_inbox_lists_needs_the_scope_of_decisions(db: TestDb) {
        let server = Server::with_models(&db, 1_024, disagreeing().models()).await;
        let _working = server.dispatch();
        let admin = server.admin();
        admin.agent("writer", json!({})).await;
        admin.agent("researcher", json!({})).await;
        let (workflow, discussion) = escalated(&server).await;
        let path = format!("/api/coordination/workflows/{workflow}");
        let shown = admin.get(&path).await.is(200).clone();
        let task = shown["tasks"][0]["id"].as_str().unwrap().to_owned();
        let others: Vec<_> = Scope::ALL.iter().copied().filter(|one| *one != Scope::ApprovalsDecide).collect();
        let attacker = server.client(Some(&server.token(&others, Some(server.default_project)).await));

        let mut refused = Vec::new();
        for operation in operations() {
            let is_of_workflows = operation.path.starts_with("/api/coordination/") && operation.method == Method::POST;
            if !is_of_workflows || NO_DECISIONS.iter().any(|end| operation.path.ends_with(end)) {
                continue;
            }
            let filled = operation.path_with(|name| match name {
                "workflowId" => workflow.to_string(),
                "taskId" => task.clone(),
                "discussionId" => discussion.clone(),
                name => panic!("{name} is new: say here what it is"),
            });
            let body = match filled.rsplit('/').next() {
                Some("reassign") => json!({ "agent": "researcher" }),
                Some("tasks") => json!({ "workflowId": workflow.to_string(), "key": "more", "title": "more" }),
                Some("decide") => json!({ "decision": "approve" }),
                _ => json!({}),
            };
            let answer = operation.call_at(&attacker, &filled, &body.to_string()).await;
            // A task that waits for its discussion cannot be retried, skipped or given to another agent at all.
            if answer.status != 409 {
                assert_eq!(answer.refused(403, "missing_scope")["details"]["scope"], "approvals:decide", "{}", operation.name());
                refused.push(operation.name());
            }
            assert_eq!(admin.get(&path).await.is(200)["status"], "escalated", "{}", operation.name());
        }
        assert!(refused.len() >= 2, "{refused:?}");
        assert_eq!(pending(&admin).await, 1, "nothing was decided");

        // Even a run of the server cannot, whatever tool it would come by.
        let author = Author::Run { run_id: RunId::new(), tool_call_id: None };
        let run = Actor { project: server.default_project, author };
        let dispatcher = &server.app.dispatcher;
        for error in [
            dispatcher.resume(run, workflow, None, None).await.err().unwrap(),
            dispatcher.decide(run, ObjectId(discussion.parse().unwrap()), json!("yes"), None).await.err().unwrap(),
        ] {
            assert!(error.to_string().contains("approvals:decide"), "{error}");
        }
        assert_eq!(pending(&admin).await, 1);

        // Whoever decides needs no other scope.
        let decider = server.client(Some(&server.token(&[Scope::ApprovalsDecide], Some(server.default_project)).await));
        let decide = format!("/api/coordination/discussions/{discussion}/decide");
        decider.post(&decide, json!({ "decision": "approve" })).await.is(200);
    }

    async fn a_failed_task_of_a_workflow_that_waits_is_changed_by_whoever_decides(db: TestDb) {
        let server = crate::coordination::server(&db).await;
        let _stop = server.dispatch();
        let admin = server.admin();
        let tasks = json!({ "tasks": [{ "key": "t", "title": "t", "assignedAgent": "broken", "maxRetries": 0 }] });
        let id = admin.start(tasks).await;
        let path = format!("/api/coordination/workflows/{id}");
        let shown = admin.reaches(&id, "escalated").await;
        let task = format!("/api/coordination/tasks/{}", shown["tasks"][0]["id"].as_str().unwrap());
        let invoker = server.client(Some(&server.token(&[Scope::AgentsInvoke, Scope::AgentsRead], Some(server.default_project)).await));
        for (path, body) in [
            (format!("{task}/retry"), json!({})),
            (format!("{task}/skip"), json!({})),
            (format!("{task}/reassign"), json!({ "agent": "writer" })),
            (format!("{path}/resume"), json!({ "budgetUsd": 9.0 })),
        ] {
            let refused = invoker.post(&path, body).await;
            let error = refused.refused(403, "missing_scope");
            assert_eq!(error["details"]["scope"], "approvals:decide", "{path}");
            assert!(error["message"].as_str().unwrap().contains("emergent inbox"), "{error}");
        }
        assert_eq!(admin.get(&path).await.is(200), &shown, "nothing was written");
        let both = [Scope::AgentsInvoke, Scope::AgentsRead, Scope::ApprovalsDecide];
        let decider = server.client(Some(&server.token(&both, Some(server.default_project)).await));
        decider.post(&format!("{task}/retry"), json!({})).await.is(200);
        admin.reaches(&id, "escalated").await;
        // Giving the workflow up is no decision about it: what waited is withdrawn, as with a run.
        invoker.post(&format!("{path}/cancel"), json!({})).await.is(200);
        let item = admin.get(&format!("/api/approvals/{id}")).await.is(200).clone();
        assert_eq!((&item["status"], &item["decision"]), (&json!("withdrawn"), &json!(null)), "{item}");
    }
}
