//! Lists of runs with filters, counts of runs, and requests that cancel or resume many of them.

use crate::common;

use std::time::Duration;

use common::{Client, Server};
use emergent_domain::token::Scope;
use emergent_testkit::{
    TestDb, both_engines,
    scripted::{ScriptedModel, calls, says},
};
use serde_json::{Value, json};

fn ids(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|run| run["id"].as_str().unwrap()).collect()
}

/// A run that ended at its step limit.
async fn paused_run(server: &Server, model: &ScriptedModel, client: &Client, name: &str) -> (String, String) {
    model.add(name, [calls("project_info", json!({})), says("Half done.")]);
    let agent = client.agent(name, json!({ "tools": ["project_info"], "maxSteps": 1 })).await;
    let runner = server.drive();
    let run = client.trigger(&agent, "work").await;
    for _ in 0..2_000 {
        if client.get(&format!("/api/admin/runs/{run}")).await.is(200)["status"] == "paused" {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    drop(runner);
    (agent, run)
}

/// A server with two agents: `digger` has three queued runs, `sorter` one.
async fn server_with_queued_runs(db: &TestDb) -> (Server, Client, Vec<String>) {
    let server = Server::with_models(db, 1_024, ScriptedModel::default().models()).await;
    let client = server.admin();
    let digger = client.agent("digger", json!({})).await;
    let sorter = client.agent("sorter", json!({})).await;
    let mut runs = Vec::new();
    for (agent, input) in [
        (&digger, "dig for gold"),
        (&sorter, "sort the gold"),
        (&digger, "dig deeper"),
        (&digger, "rest, ohne Ärger"),
    ] {
        runs.push(client.trigger(agent, input).await);
    }
    (server, client, runs)
}

both_engines! {
    async fn lists_filter_by_agent_origin_time_root_and_text(db: TestDb) {
        let (_server, client, runs) = server_with_queued_runs(&db).await;
        let list = async |query: &str| client.get(&format!("/api/admin/runs?{query}")).await.is(200).clone();
        let all = list("").await;
        assert_eq!(ids(&list("agent=digger").await), [&runs[3], &runs[2], &runs[0]]);
        let by_id = format!("agent={}", all[2]["agentId"].as_str().unwrap());
        assert_eq!(ids(&list(&by_id).await), [&runs[1]]);
        assert_eq!(ids(&list("q=GOLD").await), [&runs[1], &runs[0]]);
        assert_eq!(ids(&list("q=%C3%84RGER").await), [&runs[3]], "letters beyond A to Z too");
        assert_eq!(ids(&list("q=gold&agent=digger&status=queued&origin=trigger&root=true").await), [&runs[0]]);
        assert!(ids(&list("reason=timeout").await).is_empty() && ids(&list("origin=schedule").await).is_empty());
        let time = all[1]["createdAt"].as_str().unwrap();
        assert_eq!(ids(&list(&format!("since={time}")).await), [&runs[3], &runs[2]]);
        assert_eq!(ids(&list(&format!("until={time}")).await), [&runs[1], &runs[0]]);
        let first = client.get("/api/admin/runs?agent=digger&limit=2").await;
        let cursor = first.headers["x-next-cursor"].to_str().unwrap().to_owned();
        assert_eq!(ids(&list(&format!("agent=digger&limit=2&cursor={cursor}")).await), [&runs[0]]);
        assert_eq!(ids(&list("status=running,queued&agent=sorter").await), [&runs[1]]);
        assert!(ids(&list("status=running,success").await).is_empty());
        for (query, field) in [
            ("status=dreaming", "status"), ("status=queued,", "status"), ("status=queued,dreaming", "status"),
            ("q=", "q"), (&format!("q={}", "x".repeat(201)), "q"), ("reason=boredom", "reason"), ("origin=space", "origin"),
            ("since=yesterday", "since"), (&format!("since={time}&until={time}"), "until"), ("root=perhaps", "root"),
        ] {
            let refused = client.get(&format!("/api/admin/runs?{query}")).await;
            refused.refused(400, "invalid");
            assert_eq!(refused.field(), field, "{query}");
        }
        client.get("/api/admin/runs?agent=nobody").await.refused(404, "not_found");
        let of_agent = format!("/api/admin/agents/{}/runs", all[0]["agentId"].as_str().unwrap());
        assert_eq!(ids(client.get(&format!("{of_agent}?q=gold")).await.is(200)), [&runs[0]]);
        assert_eq!(client.get(&format!("{of_agent}?agent=sorter")).await.field(), "agent");
    }

    async fn lists_details_and_trees_have_the_beginning_of_the_input(db: TestDb) {
        let (_server, client, runs) = server_with_queued_runs(&db).await;
        let all = client.get("/api/admin/runs").await.is(200).clone();
        let previews: Vec<_> = all.as_array().unwrap().iter().map(|run| run["inputPreview"].as_str().unwrap()).collect();
        assert_eq!(previews, ["rest, ohne Ärger", "dig deeper", "sort the gold", "dig for gold"]);
        let agent = all[0]["agentId"].as_str().unwrap();
        assert_eq!(client.get(&format!("/api/admin/agents/{agent}/runs")).await.is(200)[1]["inputPreview"], "dig deeper");
        let run = &runs[0];
        assert_eq!(client.get(&format!("/api/admin/runs/{run}")).await.is(200)["inputPreview"], "dig for gold");
        let tree = client.get(&format!("/api/admin/agents/{agent}/runs/{run}/tree")).await.is(200).clone();
        assert_eq!(tree["inputPreview"], "dig for gold");
    }

    async fn runs_are_counted_by_status_agent_and_hour(db: TestDb) {
        let (server, client, runs) = server_with_queued_runs(&db).await;
        client.post("/api/admin/runs/bulk", json!({ "action": "cancel", "ids": [runs[0]] })).await.is(200);
        let stats = client.get("/api/admin/runs/stats").await.is(200).clone();
        assert_eq!((&stats["total"], &stats["byStatus"]), (&json!(4), &json!({ "cancelled": 1, "queued": 3 })));
        assert_eq!((&stats["byAgent"][0]["agentName"], &stats["byAgent"][0]["total"]), (&json!("digger"), &json!(3)));
        assert_eq!(stats["byAgent"][1]["byStatus"], json!({ "queued": 1 }));
        assert_eq!(stats["active"], json!({ "queued": 3 }));
        let hours = stats["byHour"].as_array().unwrap();
        assert_eq!(hours.iter().map(|hour| hour["total"].as_i64().unwrap()).sum::<i64>(), 4);
        assert!(hours[0]["hour"].as_str().unwrap().contains(":00:00"));
        let earlier = client.get("/api/admin/runs/stats?until=2020-01-01T00:00:00Z").await.is(200).clone();
        assert_eq!((&earlier["total"], &earlier["byHour"]), (&json!(0), &json!([])));
        assert_eq!(earlier["active"], json!({ "queued": 3 }), "whenever they were created");
        for query in ["since=2020-01-01T00:00:00Z", "since=2020-01-02T00:00:00Z&until=2020-01-01T00:00:00Z"] {
            assert_eq!(client.get(&format!("/api/admin/runs/stats?{query}")).await.field(), "since");
        }
        let elsewhere = server.project("elsewhere").await;
        assert_eq!(client.in_project(elsewhere).get("/api/admin/runs/stats").await.is(200)["total"], 0);
    }

    async fn runs_that_match_a_filter_are_cancelled_and_a_dry_run_changes_nothing(db: TestDb) {
        let (server, client, runs) = server_with_queued_runs(&db).await;
        let body = |dry_run: bool| json!({ "action": "cancel", "filter": { "agent": "digger" }, "dryRun": dry_run });
        let planned = client.post("/api/admin/runs/bulk", body(true)).await.is(200).clone();
        assert_eq!((planned["runs"].as_array().unwrap().len(), &planned["dryRun"]), (3, &json!(true)));
        assert!(planned["runs"].as_array().unwrap().iter().all(|run| run["outcome"] == "possible" && run["status"] == "queued"));
        assert_eq!(client.get("/api/admin/runs?status=queued").await.is(200).as_array().unwrap().len(), 4);
        let several = json!({ "action": "cancel", "filter": { "status": "queued,running", "agent": "sorter" }, "dryRun": true });
        assert_eq!(client.post("/api/admin/runs/bulk", several).await.is(200)["runs"][0]["runId"], json!(runs[1]));
        let done = client.post("/api/admin/runs/bulk", body(false)).await.is(200).clone();
        assert!(done["runs"].as_array().unwrap().iter().all(|run| run["outcome"] == "cancelled"));
        assert_eq!(done["hasMore"], false);
        assert_eq!(ids(client.get("/api/admin/runs?status=queued").await.is(200)), [&runs[1]]);
        assert_eq!(client.post("/api/admin/runs/bulk", body(false)).await.is(200)["runs"], json!([]), "none is left");
        let audit = client.get("/api/admin/audit?action=run.bulk_cancel").await.is(200)[0].clone();
        assert_eq!((&audit["details"]["runs"], &audit["details"]["byFilter"]), (&json!(3), &json!(true)));

        // Each id is answered, whatever it is.
        let stranger = "01890000-0000-7000-8000-000000000000";
        let body = json!({ "action": "cancel", "ids": [runs[0], runs[1], stranger, runs[1]] });
        let mixed = client.post("/api/admin/runs/bulk", body).await.is(200)["runs"].clone();
        let outcomes: Vec<_> = mixed.as_array().unwrap().iter().map(|run| run["outcome"].as_str().unwrap()).collect();
        assert_eq!(outcomes, ["skipped", "cancelled", "not_found"]);
        assert!(mixed[0]["message"].as_str().unwrap().contains("already ended"));

        for (body, field) in [
            (json!({ "action": "cancel" }), "filter"),
            (json!({ "action": "cancel", "filter": {} }), "filter"),
            (json!({ "action": "cancel", "filter": { "status": "completed" } }), "filter.status"),
            (json!({ "action": "cancel", "filter": { "status": "queued,completed" } }), "filter.status"),
            (json!({ "action": "cancel", "filter": { "status": "dreaming" } }), "filter.status"),
            (json!({ "action": "resume", "filter": { "status": "running" } }), "filter.status"),
            (json!({ "action": "cancel", "filter": { "q": "" } }), "filter.q"),
            (json!({ "action": "cancel", "ids": [] }), "ids"),
            (json!({ "action": "cancel", "ids": vec![stranger; 1_001] }), "ids"),
            (json!({ "action": "cancel", "ids": [stranger], "filter": { "root": true } }), "ids"),
        ] {
            let refused = client.post("/api/admin/runs/bulk", body.clone()).await;
            assert_eq!(refused.status, 400, "{body}");
            assert_eq!(refused.field(), field, "{body}");
        }
        // Runs of another project are not there.
        let elsewhere = client.in_project(server.project("elsewhere").await);
        let body = json!({ "action": "cancel", "ids": [runs[1]] });
        assert_eq!(elsewhere.post("/api/admin/runs/bulk", body.clone()).await.is(200)["runs"][0]["outcome"], "not_found");
        let reader = server.client(Some(&server.token(&[Scope::AdminRead], None).await));
        reader.post("/api/admin/runs/bulk", body).await.refused(403, "missing_scope");
    }

    async fn who_may_not_read_runs_learns_nothing_about_them_by_changing_many(db: TestDb) {
        let (server, client, runs) = server_with_queued_runs(&db).await;
        let starter = server.client(Some(&server.token(&[Scope::AgentsInvoke], None).await));
        for filter in [json!({ "q": "gold" }), json!({ "agent": "digger" }), json!({ "agent": "nobody" })] {
            for dry_run in [true, false] {
                let body = json!({ "action": "cancel", "filter": filter, "dryRun": dry_run });
                let refused = starter.post("/api/admin/runs/bulk", body).await;
                assert_eq!(refused.refused(403, "missing_scope")["details"]["scope"], "admin:read");
            }
        }
        let others = json!({ "action": "cancel", "ids": [runs[0]] });
        let found = starter.post("/api/admin/runs/bulk", others).await.is(200)["runs"].clone();
        assert_eq!(found, json!([{ "runId": runs[0], "outcome": "not_found" }]));
        assert_eq!(client.get("/api/admin/runs?status=queued").await.is(200).as_array().unwrap().len(), 4);
        let own = starter.trigger("digger", "dig here").await;
        let body = |dry_run: bool| json!({ "action": "cancel", "ids": [own], "dryRun": dry_run });
        let planned = starter.post("/api/admin/runs/bulk", body(true)).await.is(200)["runs"].clone();
        assert_eq!(planned, json!([{ "runId": own, "outcome": "possible" }]));
        let done = starter.post("/api/admin/runs/bulk", body(false)).await.is(200)["runs"].clone();
        assert_eq!(done, json!([{ "runId": own, "outcome": "cancelled" }]));
        let planned = starter.post("/api/admin/runs/bulk", body(true)).await.is(200)["runs"].clone();
        assert_eq!(planned, json!([{ "runId": own, "outcome": "skipped" }]));
        let both = server.client(Some(&server.token(&[Scope::AgentsInvoke, Scope::AdminRead], None).await));
        let body = json!({ "action": "cancel", "filter": { "q": "gold" }, "dryRun": true });
        let planned = both.post("/api/admin/runs/bulk", body).await.is(200)["runs"].clone();
        assert_eq!((&planned[0]["runId"], &planned[0]["agentName"]), (&json!(runs[1]), &json!("sorter")));
    }

    async fn paused_runs_are_resumed_once(db: TestDb) {
        let model = ScriptedModel::default();
        let server = Server::with_models(&db, 1_024, model.models()).await;
        let client = server.admin();
        let (_, one) = paused_run(&server, &model, &client, "one").await;
        let (_, two) = paused_run(&server, &model, &client, "two").await;
        let body = json!({ "action": "resume", "filter": { "reason": "step_limit" } });
        let resumed = client.post("/api/admin/runs/bulk", body.clone()).await.is(200)["runs"].clone();
        let mut from: Vec<_> = resumed.as_array().unwrap().iter().map(|run| run["runId"].as_str().unwrap()).collect();
        from.sort_unstable();
        assert_eq!(from, [one.as_str(), two.as_str()]);
        for run in resumed.as_array().unwrap() {
            assert_eq!(run["outcome"], "resumed");
            let new = client.get(&format!("/api/admin/runs/{}", run["newRunId"].as_str().unwrap())).await.is(200).clone();
            assert_eq!(new["resumedFrom"], run["runId"]);
        }
        assert_eq!(client.post("/api/admin/runs/bulk", body).await.is(200)["runs"], json!([]), "they were resumed");
        let again = json!({ "action": "resume", "ids": [one] });
        let skipped = client.post("/api/admin/runs/bulk", again).await.is(200)["runs"][0].clone();
        assert_eq!(skipped["outcome"], "skipped");
        assert!(skipped["message"].as_str().unwrap().contains("already resumed"));
    }
}
