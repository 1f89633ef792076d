//! The budget of a workflow is replaced over HTTP: it is recorded with its reason and who did so, and refused for a
//! workflow that has ended.

use emergent_domain::token::Scope;
use emergent_testkit::both_engines;
use serde_json::{Value, json};

use crate::coordination::server;

fn task(key: &str, agent: &str) -> Value {
    json!({ "key": key, "title": key, "assignedAgent": agent, "maxRetries": 0 })
}

both_engines! {
    async fn the_budget_of_a_workflow_at_work_is_replaced_and_the_change_is_recorded(db: TestDb) {
        let server = server(&db).await;
        let _stop = server.dispatch();
        let client = server.admin();
        let id = client.start(json!({ "tasks": [task("wait", "slow")], "budgetTokens": 50_000 })).await;
        let path = format!("/api/coordination/workflows/{id}/budget");
        let more = json!({ "usd": 2.5, "tokens": 90_000, "reason": "the review takes longer" });
        let limit = json!({ "usd": 2.5, "tokens": 90_000 });
        assert_eq!(client.put(&path, more).await.is(200)["settings"]["budget"], limit);
        assert_eq!(client.reaches(&id, "running").await["budget"]["limit"], limit);

        for (body, field) in [
            (json!({ "usd": 0 }), "usd"), (json!({ "tokens": -1 }), "tokens"), (json!({ "budgetUsd": 1 }), "budgetUsd"),
            (json!({ "usd": 1, "reason": "x".repeat(20_001) }), "reason"),
        ] {
            let answer = client.put(&path, body).await;
            answer.refused(400, "invalid");
            assert_eq!(answer.field(), field);
        }
        let reader = server.token(&[Scope::AgentsRead], Some(server.default_project)).await;
        server.client(Some(&reader)).put(&path, json!({ "usd": 1 })).await.refused(403, "missing_scope");
        let nobody = "/api/coordination/workflows/01890000-0000-7000-8000-000000000000/budget";
        client.put(nobody, json!({ "usd": 1 })).await.refused(404, "not_found");
        assert_eq!(client.reaches(&id, "running").await["budget"]["limit"], limit, "nothing was changed");

        // What is left out has no limit.
        let unlimited = json!({ "usd": null, "tokens": null });
        assert_eq!(client.put(&path, json!({})).await.is(200)["settings"]["budget"], unlimited);

        client.post(&format!("/api/coordination/workflows/{id}/cancel"), json!({})).await.is(200);
        let ended = client.put(&path, json!({ "usd": 1 })).await;
        ended.refused(409, "conflict");
        assert!(ended.text.contains("it has ended"), "{}", ended.text);

        let events = client.events(&id, None).await;
        let changes: Vec<_> = events.iter().map(|(_, event)| event).filter(|event| event["type"] == "budget_changed").collect();
        assert_eq!(changes.len(), 2, "{events:?}");
        let reason = "from 50000 tokens to $2.50 and 90000 tokens: the review takes longer";
        assert_eq!(changes[0]["data"], json!({ "usd": 2.5, "tokens": 90_000, "reason": reason, "by": "person" }));
        assert_eq!(changes[1]["data"]["reason"], "from $2.50 and 90000 tokens to no limit");

        let audit = client.get("/api/admin/audit?action=workflow.set_budget").await.is(200).clone();
        assert_eq!(audit.as_array().unwrap().len(), 2, "{audit:#}");
        let first = &audit[1];
        assert_eq!((&first["token"]["name"], &first["target"]["id"]), (&json!("admin"), &json!(id)), "{first:#}");
        assert_eq!((&first["details"]["tokensBefore"], &first["details"]["tokens"]), (&json!(50_000), &json!(90_000)));
    }
    async fn raising_or_removing_the_budget_of_a_workflow_is_for_those_who_decide(db: TestDb) {
        let server = server(&db).await;
        let _stop = server.dispatch();
        let admin = server.admin();
        let id = admin.start(json!({ "tasks": [task("wait", "slow")], "budgetUsd": 2, "budgetTokens": 50_000 })).await;
        let path = format!("/api/coordination/workflows/{id}/budget");
        let every_other = Scope::ALL.iter().copied().filter(|scope| *scope != Scope::ApprovalsDecide);
        let every_other: Vec<Scope> = every_other.collect();
        let caller = server.token(&every_other, Some(server.default_project)).await;
        let caller = server.client(Some(&caller));
        for more in [
            json!({}), json!({ "usd": 2 }), json!({ "tokens": 50_000 }), json!({ "usd": 2.000001, "tokens": 50_000 }),
            json!({ "usd": 1, "tokens": 50_001 }),
        ] {
            let refused = caller.put(&path, more).await;
            refused.refused(403, "missing_scope");
            assert!(refused.text.contains("approvals:decide"), "{}", refused.text);
        }
        let limit = json!({ "usd": 2.0, "tokens": 50_000 });
        assert_eq!(admin.reaches(&id, "running").await["budget"]["limit"], limit, "nothing was changed");
        let less = json!({ "usd": 1.5, "tokens": 50_000 });
        assert_eq!(caller.put(&path, less.clone()).await.is(200)["settings"]["budget"], less);
        let decider = server.token(&[Scope::AgentsInvoke, Scope::AgentsRead, Scope::ApprovalsDecide], Some(server.default_project)).await;
        server.client(Some(&decider)).put(&path, json!({})).await.is(200);
        // From then on there is no limit that could be raised.
        caller.put(&path, json!({ "usd": 100 })).await.is(200);
    }

    async fn a_failed_workflow_is_resumed_with_a_larger_budget_by_those_who_decide(db: TestDb) {
        let server = server(&db).await;
        let _stop = server.dispatch();
        let admin = server.admin();
        let spec = json!({ "tasks": [task("write", "writer")], "budgetTokens": 2, "onFailure": "skip" });
        let id = admin.start(spec).await;
        admin.reaches(&id, "failed").await;
        let path = format!("/api/coordination/workflows/{id}/resume");
        let caller = server.token(&[Scope::AgentsInvoke], Some(server.default_project)).await;
        let caller = server.client(Some(&caller));
        caller.post(&path, json!({ "budgetTokens": 3 })).await.refused(403, "missing_scope");
        assert_eq!(admin.reaches(&id, "failed").await["budget"]["limit"]["tokens"], 2);
        caller.post(&path, json!({ "budgetTokens": 1 })).await.is(202);
        admin.reaches(&id, "failed").await;
        admin.post(&path, json!({ "budgetTokens": 1_000_000 })).await.is(202);
    }

    async fn the_budget_of_an_escalated_workflow_is_for_those_who_decide(db: TestDb) {
        let server = server(&db).await;
        let _stop = server.dispatch();
        let client = server.admin();
        let id = client.start(json!({ "tasks": [task("write", "writer")], "budgetTokens": 2 })).await;
        client.reaches(&id, "escalated").await;
        let path = format!("/api/coordination/workflows/{id}/budget");
        let caller = server.token(&[Scope::AgentsInvoke, Scope::AgentsRead], Some(server.default_project)).await;
        let refused = server.client(Some(&caller)).put(&path, json!({})).await;
        refused.refused(403, "missing_scope");
        assert!(refused.text.contains("approvals:decide"), "{}", refused.text);
        assert_eq!(client.reaches(&id, "escalated").await["budget"]["limit"]["tokens"], 2, "nothing was changed");
        let decider = server.token(&[Scope::AgentsInvoke, Scope::AgentsRead, Scope::ApprovalsDecide], Some(server.default_project)).await;
        server.client(Some(&decider)).put(&path, json!({ "tokens": 2 })).await.is(200);
        server.client(Some(&decider)).put(&path, json!({ "tokens": 9_000, "reason": " " })).await.refused(400, "invalid");
        server.client(Some(&decider)).put(&path, json!({ "tokens": 9_000 })).await.is(200);
        let audit = client.get("/api/admin/audit?action=workflow.set_budget").await.is(200).clone();
        assert_eq!(audit.as_array().unwrap().len(), 1, "the same budget is no change: {audit:#}");
    }
}
