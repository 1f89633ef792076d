//! The inbox over HTTP: what waits for a person is listed, shown and decided.

use crate::common;

use std::time::{Duration, Instant};

use common::{Client, Server};
use emergent_domain::token::Scope;
use emergent_testkit::{
    both_engines,
    scripted::{ScriptedModel, ScriptedReply, calls, says},
};
use serde_json::{Value, json};

fn delete(id: &str) -> ScriptedReply {
    calls("entities_delete", json!({ "id": id }))
}

/// Waits until something is pending, and returns the id of the newest request.
pub async fn next_request(client: &Client) -> String {
    for _ in 0..1_000 {
        let inbox = client.get("/api/approvals?status=pending").await.is(200).clone();
        if let Some(id) = inbox[0]["id"].as_str() {
            return id.to_owned();
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("nothing waits for a person");
}

async fn run_status(client: &Client, run: &Value, status: &str) {
    for _ in 0..1_000 {
        let shown = client.get(&format!("/api/admin/runs/{}", run.as_str().unwrap())).await.is(200).clone();
        if shown["status"] == status {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the run does not become {status}");
}

/// An agent that deletes an object, which has to be approved, and its run, which waits.
async fn waiting_run(server: &Server, model: &ScriptedModel) -> (Client, String, Value, String) {
    let client = server.admin();
    let object = client.object("Note", "n", json!({})).await;
    model.add("cleaner", [delete(&object), says("Done.")]);
    let rules = json!([{ "tools": ["entities_delete"], "action": "ask", "expiresIn": 3600 }]);
    let agent = client.agent("cleaner", json!({ "tools": ["entities_delete"], "approvals": rules })).await;
    let started = client.post(&format!("/api/admin/agents/{agent}/trigger"), json!({ "input": "go" })).await;
    let run = started.is(202)["runId"].clone();
    let request = next_request(&client).await;
    (client, object, run, request)
}

both_engines! {
    async fn a_call_is_listed_shown_and_approved_by_the_first_who_decides(db: TestDb) {
        let model = ScriptedModel::default();
        let server = Server::with_models(&db, 1_024, model.models()).await;
        let _runner = server.drive();
        let (client, object, run, request) = waiting_run(&server, &model).await;
        run_status(&client, &run, "waiting").await;
        let listed = client.get("/api/admin/runs?status=waiting").await.is(200).clone();
        assert_eq!((&listed[0]["id"], &listed[0]["waitingFor"]), (&run, &json!("approval")));
        let inbox = client.get("/api/approvals?kind=approval").await.is(200)[0].clone();
        assert_eq!((&inbox["id"], &inbox["kind"], &inbox["runId"]), (&json!(request), &json!("approval"), &run));
        assert_eq!((&inbox["toolName"], &inbox["agentName"]), (&json!("entities_delete"), &json!("cleaner")));
        assert_eq!(inbox["title"], format!("entities_delete {object}"), "two calls of one tool can be told apart");
        assert_eq!(client.get("/api/approvals?kind=question").await.is(200), &json!([]));
        assert_eq!(client.get("/api/approvals?status=decided").await.is(200), &json!([]));

        let path = format!("/api/approvals/{request}");
        let shown = client.get(&path).await.is(200).clone();
        assert_eq!((&shown["input"], &shown["decision"]), (&json!({ "id": object }), &Value::Null));
        assert!(shown["expiresAt"].is_string() && shown["digest"].as_str().is_some_and(|digest| digest.len() == 64));
        client.get(&format!("/api/graph/objects/{object}")).await.is(200);

        let decide = format!("{path}/decide");
        for (body, field) in [
            (json!({ "decision": "answer", "answer": "yes" }), "decision"),
            (json!({ "decision": "deny", "editedInput": {} }), "editedInput"),
            (json!({ "decision": "approve", "editedInput": { "identifier": 1 } }), "editedInput"),
            (json!({ "decision": "deny", "reason": "x".repeat(4_001) }), "reason"),
        ] {
            let refused = client.post(&decide, body.clone()).await;
            assert_eq!(refused.refused(400, "invalid")["details"][0]["field"], field, "{body}");
        }
        // Who decides is known from the token.
        let forged = json!({ "decision": "approve", "decidedBy": "the boss" });
        assert_eq!(client.post(&decide, forged).await.status, 400);
        let stale = json!({ "decision": "approve", "digest": "0".repeat(64) });
        client.post(&decide, stale).await.refused(409, "conflict");

        let body = json!({ "decision": "approve", "reason": "fine", "digest": shown["digest"] });
        let decided = client.post(&decide, body).await.is(200).clone();
        assert_eq!((&decided["status"], &decided["decision"]["decision"]), (&json!("decided"), &json!("approve")));
        assert!(decided["decision"]["tokenId"].is_string());
        let second = client.post(&decide, json!({ "decision": "deny" })).await;
        assert_eq!(second.refused(409, "already_decided")["details"]["decision"]["decision"], "approve");
        run_status(&client, &run, "completed").await;
        client.get(&format!("/api/graph/objects/{object}")).await.refused(404, "not_found");
        let audit = client.get("/api/admin/audit?action=approval.decide").await.is(200)[0].clone();
        assert_eq!((&audit["target"]["id"], &audit["details"]["decision"]), (&json!(request), &json!("approve")));
    }

    async fn an_edited_input_makes_no_call_that_a_rule_denies(db: TestDb) {
        let model = ScriptedModel::default();
        let server = Server::with_models(&db, 1_024, model.models()).await;
        let _runner = server.drive();
        let client = server.admin();
        let keep = client.object("Note", "keep", json!({})).await;
        let old = client.object("Note", "old", json!({})).await;
        let other = client.object("Note", "other", json!({})).await;
        model.add("cleaner", [delete("Note/old"), says("Done.")]);
        let rules = json!([
            { "tools": ["entities_delete"], "when": [{ "path": "id", "op": "eq", "value": "Note/keep" }], "action": "deny" },
            { "tools": ["entities_delete"], "action": "ask" },
        ]);
        let agent = client.agent("cleaner", json!({ "tools": ["entities_delete"], "approvals": rules })).await;
        let started = client.post(&format!("/api/admin/agents/{agent}/trigger"), json!({ "input": "go" })).await;
        let run = started.is(202)["runId"].clone();
        let path = format!("/api/approvals/{}", next_request(&client).await);
        let decide = format!("{path}/decide");
        let refused = client.post(&decide, json!({ "decision": "approve", "editedInput": { "id": "Note/keep" } })).await;
        let problem = refused.refused(400, "invalid")["details"][0].clone();
        assert_eq!(problem["field"], "editedInput");
        assert!(problem.to_string().contains("rule 1"), "{problem}");
        assert_eq!(client.get(&path).await.is(200)["status"], "pending", "nothing was written");
        client.post(&decide, json!({ "decision": "approve", "editedInput": { "id": "Note/other" } })).await.is(200);
        run_status(&client, &run, "completed").await;
        for (object, status) in [(keep, 200), (old, 200), (other, 404)] {
            assert_eq!(client.get(&format!("/api/graph/objects/{object}")).await.status, status);
        }
    }

    async fn the_neighbour_of_a_held_call_is_not_shown_as_running(db: TestDb) {
        let model = ScriptedModel::default();
        let server = Server::with_models(&db, 1_024, model.models()).await;
        let _runner = server.drive();
        let client = server.admin();
        let object = client.object("Note", "n", json!({})).await;
        model.add("cleaner", [delete(&object).and(calls("project_info", json!({}))), says("Done.")]);
        let rules = json!([{ "tools": ["entities_delete"], "action": "ask" }]);
        let tools = json!(["entities_delete", "project_info"]);
        let agent = client.agent("cleaner", json!({ "tools": tools, "approvals": rules })).await;
        let run = client.trigger(&agent, "go").await;
        let request = next_request(&client).await;
        let path = format!("/api/admin/agents/{agent}/runs/{run}/tool-calls");
        let listed = client.get(&path).await.is(200).clone();
        let statuses: Vec<_> = listed.as_array().unwrap().iter().map(|call| call["status"].clone()).collect();
        assert_eq!(statuses, ["held", "held"], "{listed}");
        let neighbour = listed[1]["id"].as_str().unwrap();
        assert_eq!(client.get(&format!("{path}/{neighbour}")).await.is(200)["status"], "held");
        assert_eq!(client.get(&format!("{path}?status=running")).await.is(200), &json!([]));
        assert_eq!(client.get(&format!("{path}?status=held")).await.is(200).as_array().unwrap().len(), 2);
        tokio::time::sleep(Duration::from_millis(600)).await;
        let decided = Instant::now();
        client.post(&format!("/api/approvals/{request}/decide"), json!({ "decision": "approve" })).await.is(200);
        run_status(&client, &json!(run), "completed").await;
        let since_decision = i64::try_from(decided.elapsed().as_millis()).unwrap();
        let ended = client.get(&path).await.is(200).clone();
        for call in ended.as_array().unwrap() {
            assert_eq!(call["status"], "completed");
            let duration = call["durationMs"].as_i64().unwrap();
            assert!(duration <= since_decision, "the time of waiting is none of the call: {call}");
        }
    }

    async fn only_a_token_with_the_scope_may_look_into_the_inbox_and_decide(db: TestDb) {
        let model = ScriptedModel::default();
        let server = Server::with_models(&db, 1_024, model.models()).await;
        let _runner = server.drive();
        let (client, object, run, request) = waiting_run(&server, &model).await;
        let others: Vec<Scope> =
            Scope::ALL.iter().copied().filter(|scope| *scope != Scope::ApprovalsDecide).collect();
        let stranger = server.client(Some(&server.token(&others, None).await));
        let decide = format!("/api/approvals/{request}/decide");
        stranger.post(&decide, json!({ "decision": "approve" })).await.refused(403, "missing_scope");
        stranger.get("/api/approvals").await.refused(403, "missing_scope");
        let decider = server.client(Some(&server.token(&[Scope::ApprovalsDecide], None).await));
        decider.post(&decide, json!({ "decision": "deny", "reason": "keep it" })).await.is(200);
        run_status(&client, &run, "completed").await;
        client.get(&format!("/api/graph/objects/{object}")).await.is(200);
    }

    async fn the_inbox_has_discussions_and_escalations_and_goes_on_page_by_page(db: TestDb) {
        let server = Server::start(&db).await;
        let client = server.admin();
        let mut expected = Vec::new();
        for number in 0..5 {
            let properties = json!({ "topic": format!("topic {number}"), "status": "escalated" });
            expected.insert(0, client.object("Discussion", &format!("d{number}"), properties).await);
        }
        client.object("Discussion", "resolved", json!({ "topic": "t", "status": "resolved" })).await;
        let (mut seen, mut cursor) = (Vec::new(), String::new());
        loop {
            let page = client.get(&format!("/api/approvals?limit=2{cursor}")).await;
            seen.extend(page.is(200).as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap().to_owned()));
            match page.headers.get("x-next-cursor") {
                Some(next) => cursor = format!("&cursor={}", next.to_str().unwrap()),
                None => break,
            }
        }
        assert_eq!(seen, expected);
        assert_eq!(client.get("/api/approvals?kind=escalation").await.is(200), &json!([]));
        let refused = client.get("/api/approvals?kind=complaint").await;
        assert_eq!(refused.refused(400, "invalid")["details"][0]["field"], "kind");
    }
}
