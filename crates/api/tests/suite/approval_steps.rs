//! Deciding about the calls of one project does not keep the others waiting, however long its rules take to compare.

use std::time::{Duration, Instant};

use emergent_testkit::{
    TestDb,
    scripted::{ScriptedModel, calls, says},
};
use serde_json::{Value, json};

use crate::{approval_names::call_statuses, common::Server};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deciding_about_the_calls_of_one_project_does_not_keep_the_others_waiting() {
    let db = TestDb::sqlite().await;
    let model = ScriptedModel::default();
    let server = Server::with_models(&db, 1_024, model.models()).await;
    let _runner = server.drive();
    let client = server.admin();
    let long = "a".repeat(500);
    let mut ids = Vec::new();
    for object in 0..8 {
        let id = client.object("Note", &format!("{long}{object}"), json!({})).await;
        for number in 10..59 {
            let renamed = json!({ "key": format!("{long}{object}{number}") });
            client.patch(&format!("/api/graph/objects/{id}"), renamed).await.is(200);
        }
        ids.push(id);
    }
    let condition = |number: usize| json!({ "path": "id", "op": "contains", "value": format!("{}b{number}", "a".repeat(470)) });
    let rule = |rule: usize| {
        let when: Vec<Value> = (0..20).map(|number| condition(rule * 20 + number)).collect();
        json!({ "tools": ["entities_get"], "when": when, "action": "deny" })
    };
    let different: Vec<Value> = (0..100).map(rule).collect();
    let same: Vec<Value> =
        vec![json!({ "tools": ["entities_get"], "when": vec![condition(0); 20], "action": "deny" }); 100];
    for (agent, rules, expected) in [("different", different, "error"), ("same", same, "completed")] {
        client.agent(agent, json!({ "tools": ["entities_get"], "approvals": rules })).await;
        // Each of them is another call, because a call that is repeated is answered by the loop guard.
        let call =
            |left_out: usize| calls("entities_get", json!({ "ids": ids[left_out..], "fields": ["type"] }));
        model.add(agent, [call(0).and(call(1)).and(call(2)).and(call(3)), says("Done.")]);
        let run = client.trigger(agent, "go").await;
        let mut slowest = Duration::ZERO;
        loop {
            let started = Instant::now();
            let found = client.get(&format!("/api/admin/runs/{run}")).await;
            slowest = slowest.max(started.elapsed());
            if !["queued", "running"].contains(&found.is(200)["status"].as_str().unwrap()) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert!(slowest < Duration::from_secs(1), "a request took {slowest:?}");
        assert_eq!(call_statuses(&client, agent, &run).await, [expected; 4], "{agent}");
        if expected == "error" {
            let path = format!("/api/admin/agents/{agent}/runs/{run}/tool-calls");
            let made = client.get(&path).await.is(200).clone();
            assert_eq!(made[0]["denied"], true, "{made:#}");
            assert!(made[0].to_string().contains("more than 2000000 steps"), "{made:#}");
        }
    }
}
