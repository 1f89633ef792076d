//! A rule holds for a call however its input is written, and deciding about one project's calls does not keep the others
//! waiting.

use std::time::{Duration, Instant};

use emergent_testkit::{
    both_engines,
    scripted::{ScriptedModel, calls, says},
};
use serde_json::{Value, json};

use crate::{
    approval_candidates::statuses_of,
    approval_names::call_statuses,
    common::{Client, Server},
};

/// A rule that denies a tool by one condition.
fn denied(tool: &str, path: &str, op: &str, value: &str) -> Value {
    json!([{ "tools": [tool], "when": [{ "path": path, "op": op, "value": value }], "action": "deny" }])
}

/// Runs an agent with these rules in a task of a workflow, with these calls one after the other.
async fn statuses_in_task(
    (client, model): (&Client, &ScriptedModel),
    (agent, task): (&str, &str),
    rules: Value,
    lines: impl IntoIterator<Item = (&'static str, Value)>,
) -> Vec<String> {
    let tools = ["tasks_*", "create_subtasks", "discussions_*"];
    client.agent(agent, json!({ "tools": tools, "approvals": rules })).await;
    let lines = lines.into_iter().map(|(tool, input)| calls(tool, input));
    model.add(agent, lines.chain([says("Done.")]));
    let task = json!({ "key": task, "title": "Task", "assignedAgent": agent });
    client.start(json!({ "tasks": [task] })).await;
    for _ in 0..1_000 {
        let runs = client.get(&format!("/api/admin/runs?agent={agent}")).await.is(200).clone();
        if let Some(run) = runs.as_array().unwrap().first() {
            let run = run["id"].as_str().unwrap();
            client.ended(run).await;
            return call_statuses(client, agent, run).await;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("the task of {agent} did not start");
}

both_engines! {
    async fn a_rule_that_allows_a_key_does_not_match_what_had_no_key_before(db: TestDb) {
        let model = ScriptedModel::default();
        let server = Server::with_models(&db, 1_024, model.models()).await;
        let _runner = server.drive();
        let client = server.admin();
        let tools = ["entities_create", "entities_update", "entities_delete", "entities_restore"];
        for (agent, rule) in [
            ("eq", json!({ "op": "eq", "value": "Note/draft" })),
            ("in", json!({ "op": "in", "value": ["Note/draft"] })),
            ("ne", json!({ "op": "ne", "value": "Note/draft" })),
        ] {
            let made = client.post("/api/graph/objects", json!({ "type": "Note", "properties": {} })).await;
            let kept = made.is(201)["id"].as_str().unwrap().to_owned();
            let condition = json!({ "path": "id", "op": rule["op"], "value": rule["value"] });
            let first = if agent == "ne" { "deny" } else { "allow" };
            let last = if agent == "ne" { "allow" } else { "deny" };
            let rules = json!([
                { "tools": ["entities_delete"], "when": [condition], "action": first },
                { "tools": ["entities_delete"], "action": last },
            ]);
            client.agent(agent, json!({ "tools": tools, "approvals": rules })).await;
            let delete = |id: &str| ("entities_delete", json!({ "id": id }));
            let statuses = statuses_of((&client, &model), agent, [
                delete(&kept),
                ("entities_update", json!({ "id": kept, "key": "draft" })),
                delete("Note/draft"),
                ("entities_update", json!({ "id": kept, "key": null })),
                delete(&kept),
            ]).await;
            assert_eq!(statuses, ["error", "completed", "error", "completed", "error"], "{agent}");
            client.get(&format!("/api/graph/objects/{kept}")).await.is(200);

            // What was created with the key is what the rule means, also in the same answer, and after it was deleted.
            client.object("Note", "draft", json!({})).await;
            let create = ("entities_create", json!({ "type": "Note", "key": "draft", "properties": {} }));
            let restore = ("entities_restore", json!({ "id": "Note/draft" }));
            let statuses = statuses_of((&client, &model), agent, [
                ("entities_update", json!({ "id": "Note/draft", "properties": { "text": "new" } })),
                delete("Note/draft"),
                restore,
                delete("Note/draft"),
            ]).await;
            assert_eq!(statuses, ["completed"; 4], "{agent}");
            let answer = calls(create.0, create.1).and(calls("entities_delete", json!({ "id": "Note/draft" })));
            model.add(agent, [answer, says("Done.")]);
            let run = client.run_to_end(agent, "go").await;
            let statuses = call_statuses(&client, agent, run["id"].as_str().unwrap()).await;
            assert_eq!(statuses, ["completed"; 2], "{agent}");
        }
    }

    async fn a_rule_holds_for_the_short_and_the_nested_form_of_an_item(db: TestDb) {
        let model = ScriptedModel::default();
        let server = Server::with_models(&db, 1_024, model.models()).await;
        let _dispatcher = server.dispatch();
        let client = server.admin();
        for agent in ["good", "evil"] {
            client.agent(agent, json!({})).await;
        }
        let synthesis = |more: Value| {
            let mut last = json!({ "title": "All" });
            last.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            ("create_subtasks", json!({ "tasks": [{ "title": "One", "assignedAgent": "good" }], "synthesis": last }))
        };
        let of_agent = statuses_in_task((&client, &model), ("splits", "a"), denied("create_subtasks", "assignedAgent", "eq", "evil"), [
            synthesis(json!({ "assignedAgent": "evil" })),
        ]).await;
        assert_eq!(of_agent, ["error"]);
        let blocked = statuses_in_task((&client, &model), ("blocks", "zz"), denied("create_subtasks", "blockedBy", "contains", "zz"), [
            synthesis(json!({ "blockedBy": ["zz"] })),
        ]).await;
        assert_eq!(blocked, ["error"]);
        let start = |participants: Value| ("discussions_start", json!({ "topic": "Which?", "participants": participants }));
        for (agent, path) in [("by-path", "participants.agent"), ("by-item", "agent")] {
            let statuses = statuses_in_task((&client, &model), (agent, "b"), denied("discussions_start", path, "eq", "evil"), [
                start(json!([{ "agent": "evil" }, { "agent": "good" }])),
                start(json!(["evil", "good"])),
            ]).await;
            assert_eq!(statuses, ["error"; 2], "{agent}");
        }
    }

    async fn a_rule_holds_for_what_is_left_out_because_it_is_the_agents_own(db: TestDb) {
        let model = ScriptedModel::default();
        let server = Server::with_models(&db, 1_024, model.models()).await;
        let _dispatcher = server.dispatch();
        let client = server.admin();
        for agent in ["good", "other"] {
            client.agent(agent, json!({})).await;
        }
        let read = [("tasks_dependencies", json!({ "id": "zz" })), ("tasks_dependencies", json!({})), ("tasks_list", json!({}))];
        let statuses = statuses_in_task((&client, &model), ("reads", "zz"), denied("tasks_dependencies", "id", "eq", "zz"), read.clone()).await;
        assert_eq!(statuses, ["error", "error", "completed"]);
        let statuses = statuses_in_task((&client, &model), ("free", "zz"), denied("tasks_dependencies", "id", "eq", "yy"), read).await;
        assert_eq!(statuses, ["completed"; 3]);
        let start = json!({ "topic": "Which?", "participants": ["good", "other"] });
        let statuses = statuses_in_task((&client, &model), ("starts", "zz"), denied("discussions_start", "task", "eq", "zz"), [
            ("discussions_start", start.clone()),
            ("discussions_get", json!({})),
        ]).await;
        assert_eq!(statuses, ["error"; 2], "no discussion was started");
    }

    async fn a_rule_about_a_template_pack_holds_for_each_of_its_names(db: TestDb) {
        let model = ScriptedModel::default();
        let server = Server::with_models(&db, 1_024, model.models()).await;
        let _runner = server.drive();
        let client = server.admin();
        let pack = json!({ "name": "evil", "version": "1.0.0", "objectTypeSchemas": { "Zed": { "type": "object" } } });
        let id = client.post("/api/template-packs", pack).await.is(201)["id"].as_str().unwrap().to_owned();
        let names = ["evil@1.0.0".to_owned(), "evil".to_owned(), id.clone(), id.to_uppercase()];
        let assign = |name: &String| ("schema_pack_assign", json!({ "id": name }));
        for (agent, named) in [("by-version", &names[0]), ("by-name", &names[1]), ("by-id", &names[2])] {
            let rules = denied("schema_pack_assign", "id", "eq", named);
            client.agent(agent, json!({ "tools": ["schema_pack_assign"], "approvals": rules })).await;
            assert_eq!(statuses_of((&client, &model), agent, names.iter().map(assign)).await, ["error"; 4], "{agent}");
        }
        let rules = json!([
            { "tools": ["schema_pack_assign"], "when": [{ "path": "id", "op": "eq", "value": "evil@1.0.0" }], "action": "allow" },
            { "tools": ["schema_pack_assign"], "action": "deny" },
        ]);
        client.agent("allowed", json!({ "tools": ["schema_pack_*"], "approvals": rules })).await;
        let newer = json!({ "name": "evil", "version": "2.0.0", "objectTypeSchemas": { "Zed": { "type": "object" } } });
        let tries = names.iter().map(assign).chain([("schema_pack_create", newer), assign(&names[1]), assign(&names[0])]);
        let statuses = statuses_of((&client, &model), "allowed", tries).await;
        assert_eq!(statuses[..5], ["completed"; 5]);
        assert_eq!(statuses[5..], ["error", "completed"], "the name stands for the newer version");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deciding_about_the_calls_of_one_project_does_not_keep_the_others_waiting() {
    let db = emergent_testkit::TestDb::sqlite().await;
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
        let call = || calls("entities_get", json!({ "ids": ids, "fields": ["type"] }));
        model.add(agent, [call().and(call()).and(call()).and(call()), says("Done.")]);
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
