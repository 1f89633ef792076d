//! A rule holds for a call however its input is written.

use std::time::Duration;

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
