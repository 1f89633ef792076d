//! Discussions without a decision and escalated workflows in the inbox: shown, decided and told like every other item.

use emergent_domain::token::Scope;
use emergent_testkit::{TestDb, both_engines, scripted::fails};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::{
    common::{Client, Server},
    streams::Frames,
    webhooks::{disagreeing, escalated},
};

/// A server with the agents of a workflow that ends in a discussion without a decision.
async fn dispatching(db: &TestDb) -> (Server, watch::Sender<bool>) {
    let failures = (0..8).map(|_| fails(emergent_llm::Error::Config("out of order".to_owned())));
    let models = disagreeing().agent("broken", failures).models();
    let server = Server::with_models(db, 1_024, models).await;
    let working = server.dispatch();
    server.admin().agent("writer", json!({})).await;
    server.admin().agent("researcher", json!({})).await;
    (server, working)
}

/// The ids of the items with a status, newest first.
async fn listed(client: &Client, query: &str) -> Vec<String> {
    let items = client.get(&format!("/api/approvals?{query}")).await.is(200).clone();
    items.as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap().to_owned()).collect()
}

/// The next event of the inbox: its id, kind and status.
async fn next_event(frames: &mut Frames) -> (String, String, String) {
    let (_, event) = frames.next().await.expect("the stream goes on");
    assert_eq!(event["type"], "approval");
    assert!(!event["title"].as_str().unwrap().is_empty() && event.get("runId").is_none(), "{event}");
    let text = |field: &str| event[field].as_str().unwrap().to_owned();
    (text("approvalId"), text("kind"), text("status"))
}

both_engines! {
    async fn a_discussion_is_decided_in_the_inbox_and_its_workflow_goes_on(db: TestDb) {
        let (server, _working) = dispatching(&db).await;
        let client = server.client(Some(&server.token(&[Scope::ApprovalsDecide], None).await));
        let mut frames = Frames::open(&client, "/api/events?types=approval&after=0-0.0-0", None).await;
        assert_eq!(frames.next().await.unwrap().1["type"], "ready");
        let (workflow, discussion) = escalated(&server).await;
        let event = |status: &str| (discussion.clone(), "discussion".to_owned(), status.to_owned());
        assert_eq!(next_event(&mut frames).await, event("pending"));

        let started = server.admin().get(&format!("/api/coordination/workflows/{workflow}")).await.is(200).clone();
        let shown = client.get(&format!("/api/approvals/{discussion}")).await.is(200).clone();
        assert_eq!((&shown["id"], &shown["kind"]), (&json!(discussion), &json!("discussion")));
        assert_eq!((&shown["status"], &shown["decision"]), (&json!("pending"), &Value::Null));
        assert!(!shown["options"].as_array().unwrap().is_empty(), "{shown}");
        assert!(shown["createdAt"].as_str() > started["createdAt"].as_str(), "when a person was needed: {shown}");
        // The workflow waits for the discussion, so the inbox asks once.
        assert_eq!(started["escalation"]["discussionId"], json!(discussion));
        assert_eq!(listed(&client, "status=pending").await, std::slice::from_ref(&discussion));
        client.get(&format!("/api/approvals/{workflow}")).await.refused(404, "not_found");

        let decide = format!("/api/approvals/{discussion}/decide");
        for (body, field) in [(json!({ "decision": "answer" }), "answer"),
            (json!({ "decision": "approve", "editedInput": {} }), "editedInput")] {
            let refused = client.post(&decide, body).await;
            refused.refused(400, "invalid");
            assert_eq!(refused.field(), field);
        }
        let body = json!({ "decision": "answer", "answer": "Take the second proposal.", "reason": "It is short." });
        let decided = client.post(&decide, body.clone()).await.is(200).clone();
        assert_eq!((&decided["status"], &decided["decision"]["decision"]), (&json!("decided"), &json!("answer")));
        assert_eq!(decided["decision"]["reason"], "It is short.");
        assert!(decided["decision"]["tokenId"].is_string());
        let again = client.post(&decide, body).await;
        let first = again.refused(409, "already_decided");
        assert_eq!(first["details"]["decision"]["answer"], "Take the second proposal.");
        assert_eq!(next_event(&mut frames).await, event("decided"), "nothing else was told of meanwhile");
        assert!(listed(&client, "status=pending").await.is_empty());
        assert_eq!(listed(&client, "").await, std::slice::from_ref(&discussion));
        let outcome = server.admin().get("/api/coordination/discussions").await.is(200)[0].clone();
        assert!(outcome["topic"].is_string(), "{outcome}");
    }

    async fn a_workflow_is_cancelled_or_resumed_in_the_inbox(db: TestDb) {
        let (server, _working) = dispatching(&db).await;
        let admin = server.admin();
        let client = server.client(Some(&server.token(&[Scope::ApprovalsDecide], None).await));
        let (workflow, discussion) = escalated(&server).await;
        // Whoever denies the discussion that a workflow waits for gives the workflow up.
        let decide = format!("/api/approvals/{discussion}/decide");
        let body = json!({ "decision": "deny", "reason": "Not needed." });
        let denied = client.post(&decide, body).await.is(200).clone();
        assert_eq!((&denied["status"], &denied["decision"]["decision"]), (&json!("decided"), &json!("deny")));
        assert_eq!(denied["decision"]["reason"], "Not needed.");
        let shown = admin.get(&format!("/api/coordination/workflows/{workflow}")).await.is(200).clone();
        assert_eq!(shown["status"], "cancelled");
        assert_eq!(listed(&client, "").await, [discussion], "it is all that was asked");
        client.post(&decide, json!({ "decision": "approve" })).await.refused(409, "already_decided");

        // The next workflow waits because its task failed.
        admin.agent("broken", json!({})).await;
        let task = json!({ "key": "a", "title": "A", "assignedAgent": "broken", "maxRetries": 0 });
        let started = admin.post("/api/coordination/dispatch", json!({ "tasks": [task] })).await.is(202).clone();
        let workflow = started["workflowId"].as_str().unwrap().to_owned();
        for _ in 0..1_000 {
            if listed(&client, "status=pending&kind=escalation").await == [workflow.clone()] {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        let waiting = admin.get(&format!("/api/coordination/workflows/{workflow}")).await.is(200).clone();
        let shown = client.get(&format!("/api/approvals/{workflow}")).await.is(200).clone();
        assert_eq!((&shown["kind"], &shown["status"]), (&json!("escalation"), &json!("pending")));
        assert_eq!(shown["createdAt"], waiting["escalation"]["at"], "when a person was needed");
        assert!(!shown["options"].as_array().unwrap().is_empty(), "{shown}");
        let decide = format!("/api/approvals/{workflow}/decide");
        let refused = client.post(&decide, json!({ "decision": "answer", "answer": "x" })).await;
        refused.refused(400, "invalid");
        assert_eq!(refused.field(), "decision");
        let resumed = client.post(&decide, json!({ "decision": "approve" })).await.is(200).clone();
        assert_eq!(resumed["decision"]["decision"], "approve", "{resumed}");
    }

    async fn a_workflow_is_not_resumed_before_its_discussion_is_decided(db: TestDb) {
        let (server, _working) = dispatching(&db).await;
        let admin = server.admin();
        let (workflow, discussion) = escalated(&server).await;
        let approve = json!({ "decision": "approve" });
        let item = format!("/api/approvals/{workflow}/decide");
        admin.post(&item, approve.clone()).await.refused(404, "not_found");
        let refused = admin.post(&format!("/api/coordination/workflows/{workflow}/resume"), json!({})).await;
        let message = refused.refused(409, "conflict")["message"].as_str().unwrap().to_owned();
        assert!(message.contains(&format!("emergent discussion decide {discussion}")), "{message}");
        let shown = admin.get(&format!("/api/coordination/workflows/{workflow}")).await.is(200).clone();
        assert_eq!(shown["status"], "escalated");
        assert_eq!(listed(&admin, "status=pending").await, std::slice::from_ref(&discussion), "nothing was decided");
        admin.post(&format!("/api/approvals/{discussion}/decide"), approve).await.is(200);
        let shown = admin.get(&format!("/api/coordination/workflows/{workflow}")).await.is(200).clone();
        assert_ne!(shown["status"], "escalated", "the decision resumes the workflow as well");
    }

    async fn a_long_title_is_cut_in_lists_and_whole_in_the_item(db: TestDb) {
        let server = Server::start(&db).await;
        let client = server.admin();
        let topic = format!("{}end", "ü".repeat(600));
        let discussion = client.object("Discussion", "d", json!({ "topic": topic, "status": "escalated" })).await;
        let item = client.get("/api/approvals").await.is(200)[0].clone();
        assert_eq!(item["title"], format!("{}…", "ü".repeat(499)));
        assert_eq!(client.get(&format!("/api/approvals/{discussion}")).await.is(200)["title"], topic);
    }

    async fn a_discussion_that_no_workflow_conducts_is_in_the_inbox_as_long_as_it_is_escalated(db: TestDb) {
        let server = Server::start(&db).await;
        let client = server.admin();
        let properties = json!({ "topic": "lunch", "status": "active" });
        let discussion = client.object("Discussion", "d", properties.clone()).await;
        client.get(&format!("/api/approvals/{discussion}")).await.refused(404, "not_found");
        let object = format!("/api/graph/objects/{discussion}");
        client.patch(&object, json!({ "properties": { "status": "escalated" } })).await.is(200);
        assert_eq!(client.get(&format!("/api/approvals/{discussion}")).await.is(200)["title"], "lunch");
        let decide = format!("/api/approvals/{discussion}/decide");
        let denied = client.post(&decide, json!({ "decision": "deny" })).await;
        denied.refused(400, "invalid");
        assert_eq!(denied.field(), "decision", "there is no workflow to cancel");
        let decided = client.post(&decide, json!({ "decision": "approve" })).await.is(200).clone();
        assert_eq!((&decided["status"], &decided["decision"]["decision"]), (&json!("decided"), &json!("approve")));
        let other = client.object("Discussion", "e", json!({ "topic": "dinner", "status": "escalated" })).await;
        assert_eq!(listed(&client, "status=pending").await, std::slice::from_ref(&other));
        client.delete(&format!("/api/graph/objects/{other}")).await.is(200);
        assert_eq!(listed(&client, "status=pending").await, [] as [String; 0]);
        assert_eq!(listed(&client, "status=withdrawn").await, [other]);
    }
}
