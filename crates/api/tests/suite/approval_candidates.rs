//! A rule about an object holds for each object that a call may find by what its input says.

use emergent_testkit::{
    both_engines,
    scripted::{ScriptedModel, calls, says},
};
use serde_json::{Value, json};

use crate::{
    approval_names::call_statuses,
    approvals::next_request,
    common::{Client, Server},
};

/// One rule for each of these fields that denies these tools for an object.
fn denied(tools: &Value, fields: &[(&str, &str)], object: &str) -> Value {
    let rule = |(path, op): &(&str, &str)| json!({ "tools": tools, "when": [{ "path": path, "op": op, "value": object }], "action": "deny" });
    fields.iter().map(rule).collect()
}

/// The tools that an agent reads with, and the fields by which they name objects.
const READ_TOOLS: [&str; 3] = ["entities_get", "entities_history", "graph_*"];
const READ_FIELDS: [(&str, &str); 4] =
    [("id", "eq"), ("startIds", "contains"), ("fromId", "eq"), ("toId", "eq")];

/// Runs an agent whose model makes these calls one after the other, and returns their statuses.
pub(crate) async fn statuses_of(
    (client, model): (&Client, &ScriptedModel),
    agent: &str,
    lines: impl IntoIterator<Item = (&'static str, Value)>,
) -> Vec<String> {
    let lines = lines.into_iter().map(|(tool, input)| calls(tool, input));
    model.add(agent, lines.chain([says("Done.")]));
    let run = client.run_to_end(agent, "go").await;
    assert_eq!(run["status"], "completed", "{run}");
    call_statuses(client, agent, run["id"].as_str().unwrap()).await
}

both_engines! {
    async fn a_deleted_object_with_the_id_of_another_one_as_its_key_hides_nothing(db: TestDb) {
        let model = ScriptedModel::default();
        let server = Server::with_models(&db, 1_024, model.models()).await;
        let _runner = server.drive();
        let client = server.admin();
        let keep = client.object("Secret", "keep", json!({})).await;
        let rules = denied(&json!(READ_TOOLS), &READ_FIELDS, "Secret/keep");
        client.agent("reader", json!({ "tools": ["entities_*", "graph_*"], "approvals": rules })).await;
        let named = json!({ "id": format!("Secret/{keep}") });
        let statuses = statuses_of((&client, &model), "reader", [
            ("entities_create", json!({ "type": "Secret", "key": keep, "properties": {} })),
            // While the decoy is there as well.
            ("entities_get", named.clone()),
            ("entities_delete", named.clone()),
            ("entities_get", named.clone()),
            ("entities_get", json!({ "ids": [named["id"]] })),
            ("entities_history", named.clone()),
            ("graph_neighbors", named.clone()),
            ("graph_traverse", json!({ "startIds": [named["id"]] })),
        ]).await;
        assert_eq!(statuses, ["completed", "error", "completed", "error", "error", "error", "error", "error"]);
        client.get(&format!("/api/graph/objects/{keep}")).await.is(200);
    }

    async fn a_rule_holds_for_what_had_the_key_at_the_time_of_a_read(db: TestDb) {
        let model = ScriptedModel::default();
        let server = Server::with_models(&db, 1_024, model.models()).await;
        let _runner = server.drive();
        let client = server.admin();
        let keep = client.object("Secret", "keep", json!({})).await;
        let rename = async |id: &str, key: &str| {
            let renamed = client.patch(&format!("/api/graph/objects/{id}"), json!({ "key": key })).await;
            renamed.is(200)["updatedAt"].as_str().unwrap().to_owned()
        };
        let then = rename(&keep, "tmp").await;
        rename(&keep, "keep").await;
        let other = client.object("Secret", "tmp", json!({})).await;
        let rules = denied(&json!(READ_TOOLS), &READ_FIELDS, "Secret/keep");
        client.agent("reader", json!({ "tools": ["entities_*", "graph_*"], "approvals": rules })).await;
        let statuses = statuses_of((&client, &model), "reader", [
            ("entities_get", json!({ "id": "Secret/tmp" })),
            ("entities_get", json!({ "id": "Secret/tmp", "asOf": then })),
            ("graph_neighbors", json!({ "id": "Secret/tmp", "asOf": then })),
            ("graph_traverse", json!({ "startIds": ["Secret/tmp"], "asOf": then })),
            ("graph_path", json!({ "fromId": "Secret/tmp", "toId": other, "asOf": then })),
            ("entities_get", json!({ "id": "Secret/tmp", "asOf": "then" })),
        ]).await;
        assert_eq!(statuses, ["completed", "error", "error", "error", "error", "error"]);

        // Without a rule about it, what had the key is read: it was one of those that were decided about.
        let rules = denied(&json!(READ_TOOLS), &READ_FIELDS, "Secret/unknown");
        client.agent("free", json!({ "tools": ["entities_*", "graph_*"], "approvals": rules })).await;
        let statuses = statuses_of((&client, &model), "free", [
            ("entities_get", json!({ "id": "Secret/tmp", "asOf": then })),
            ("graph_neighbors", json!({ "id": "Secret/tmp", "asOf": then })),
            ("graph_traverse", json!({ "startIds": ["Secret/tmp", other] })),
            ("entities_history", json!({ "id": "Secret/tmp" })),
            ("entities_get", json!({ "ids": ["Secret/tmp", keep, "Secret/none"] })),
        ]).await;
        assert_eq!(statuses, ["completed"; 5]);
    }

    async fn a_rule_holds_for_an_object_without_a_key_after_its_type_was_changed(db: TestDb) {
        let model = ScriptedModel::default();
        let server = Server::with_models(&db, 1_024, model.models()).await;
        let _runner = server.drive();
        let client = server.admin();
        for (agent, op) in [("by-id", "eq"), ("by-id-in-upper-case", "eq"), ("by-type", "contains")] {
            let made = client.post("/api/graph/objects", json!({ "type": "Vault", "properties": {} })).await;
            let bare = made.is(201)["id"].as_str().unwrap().to_owned();
            let named = match agent {
                "by-id" => format!("Vault/{bare}"),
                "by-id-in-upper-case" => format!("Vault/{}", bare.to_uppercase()),
                _ => "Vault/".to_owned(),
            };
            let rules = denied(&json!(["entities_delete"]), &[("id", op)], &named);
            client.agent(agent, json!({ "tools": ["entities_*"], "approvals": rules })).await;
            let statuses = statuses_of((&client, &model), agent, [
                ("entities_delete", json!({ "id": bare })),
                ("entities_update", json!({ "id": bare, "type": "Junk" })),
                ("entities_delete", json!({ "id": bare })),
                ("entities_delete", json!({ "id": format!("Junk/{bare}") })),
            ]).await;
            assert_eq!(statuses, ["error", "completed", "error", "error"], "{agent}");
            client.get(&format!("/api/graph/objects/{bare}")).await.is(200);
        }
    }

    async fn a_rule_about_a_task_holds_for_its_key_alone(db: TestDb) {
        let model = ScriptedModel::default();
        let server = Server::with_models(&db, 1_024, model.models()).await;
        let _runner = server.drive();
        let client = server.admin();
        for key in ["plain", "area/one"] {
            let task = client.object("SpecTask", key, json!({ "title": "Kept" })).await;
            for (by, named) in [("id", task.clone()), ("name", format!("SpecTask/{key}")), ("key", key.to_owned())] {
                let agent = format!("{}-by-{by}", key.replace('/', "-"));
                let rules = denied(&json!(["tasks_update"]), &[("id", "eq")], &named);
                client.agent(&agent, json!({ "tools": ["tasks_update"], "approvals": rules })).await;
                let names = [key.to_owned(), format!("SpecTask/{key}"), task.clone()];
                let tries = names.iter().map(|name| ("tasks_update", json!({ "id": name, "title": "Changed" })));
                assert_eq!(statuses_of((&client, &model), &agent, tries).await, ["error"; 3], "{agent}");
            }
            let kept = client.get(&format!("/api/graph/objects/{task}")).await.is(200).clone();
            assert_eq!(kept["properties"]["title"], "Kept", "{key}");
        }
    }

    async fn a_rule_about_tasks_holds_for_the_key_that_one_has_in_the_workflow(db: TestDb) {
        let model = ScriptedModel::default();
        let server = Server::with_models(&db, 1_024, model.models()).await;
        let _runner = server.drive();
        let client = server.admin();
        client.agent("worker", json!({})).await;
        model.add("worker", [says("Done.")]);
        let rules = denied(&json!(["tasks_update"]), &[("id", "contains")], "SpecTask/");
        client.agent("planner", json!({ "tools": ["tasks_create", "tasks_update"], "approvals": rules })).await;
        let create = json!({ "key": "build", "title": "Build", "assignedAgent": "worker" });
        let update = json!({ "id": "build", "title": "Changed" });
        model.add("planner", [calls("tasks_create", create), calls("tasks_update", update), says("Done.")]);
        let run = client.run_to_end("planner", "go").await;
        let path = format!("/api/admin/agents/planner/runs/{}/tool-calls", run["id"].as_str().unwrap());
        let made = client.get(&path).await.is(200).clone();
        assert_eq!((&made[0]["status"], &made[1]["denied"]), (&json!("completed"), &json!(true)), "{made:#}");
    }

    async fn a_rule_with_the_key_of_a_task_in_its_workflow_holds_for_its_other_names(db: TestDb) {
        let model = ScriptedModel::default();
        let server = Server::with_models(&db, 1_024, model.models()).await;
        let _runner = server.drive();
        let client = server.admin();
        client.agent("worker", json!({})).await;
        let task = |key: &str| json!({ "key": key, "title": key, "assignedAgent": "worker" });
        let workflow = client.start(json!({ "tasks": [task("review"), task("build")] })).await;
        let tasks = client.get(&format!("/api/coordination/tasks?workflowId={workflow}")).await.is(200).clone();
        let review = tasks.as_array().unwrap().iter().find(|task| task["key"] == "review").unwrap();
        let id = review["id"].as_str().unwrap();
        let names = ["review".to_owned(), id.to_owned(), format!("SpecTask/{workflow}/review"), format!("{workflow}/review")];
        let tries = || names.iter().map(|name| {
            ("tasks_update", json!({ "id": name, "workflowId": workflow, "title": "Changed" }))
        });
        let title = async || client.get(&format!("/api/graph/objects/{id}")).await.is(200)["properties"]["title"].clone();
        let tools = json!(["tasks_update", "entities_update"]);

        let rules = denied(&json!(["tasks_update"]), &[("id", "eq")], "review");
        client.agent("denied", json!({ "tools": tools, "approvals": rules })).await;
        assert_eq!(statuses_of((&client, &model), "denied", tries()).await, ["error"; 4]);
        // Nor does it get another key.
        for (agent, key) in [("renames", "other"), ("hides", "SpecTask/zz")] {
            client.agent(agent, json!({ "tools": tools, "approvals": rules })).await;
            let statuses = statuses_of((&client, &model), agent, [
                ("entities_update", json!({ "id": id, "properties": { "key": key } })),
                ("tasks_update", json!({ "id": key, "workflowId": workflow, "title": "Changed" })),
            ]).await;
            assert_eq!(statuses, ["error"; 2], "{agent}");
        }
        assert_eq!(title().await, "review");

        let allow = json!({ "tools": ["tasks_update"], "when": [{ "path": "id", "op": "eq", "value": "review" }], "action": "allow" });
        let rules = json!([allow, { "tools": ["tasks_update"], "action": "deny" }]);
        client.agent("allowed", json!({ "tools": tools, "approvals": rules })).await;
        assert_eq!(statuses_of((&client, &model), "allowed", tries()).await, ["completed"; 4]);
        assert_eq!(title().await, "Changed");
        client.agent("elsewhere", json!({ "tools": tools, "approvals": rules })).await;
        let other = ("tasks_update", json!({ "id": "build", "workflowId": workflow, "title": "Changed" }));
        assert_eq!(statuses_of((&client, &model), "elsewhere", [other]).await, ["error"]);
    }

    async fn a_rule_about_a_workflow_holds_for_its_id_in_upper_case(db: TestDb) {
        let model = ScriptedModel::default();
        let server = Server::with_models(&db, 1_024, model.models()).await;
        let _runner = server.drive();
        let client = server.admin();
        client.agent("worker", json!({})).await;
        let task = json!({ "key": "build", "title": "Build", "assignedAgent": "worker" });
        let kept = client.start(json!({ "tasks": [task] })).await;
        let other = client.start(json!({ "tasks": [task] })).await;
        let rules = denied(&json!(["tasks_list"]), &[("workflowId", "eq")], &kept);
        client.agent("reader", json!({ "tools": ["tasks_list"], "approvals": rules })).await;
        let tries = [kept.clone(), kept.to_uppercase(), kept.replace('-', ""), other];
        let tries = tries.map(|id| ("tasks_list", json!({ "workflowId": id })));
        let statuses = statuses_of((&client, &model), "reader", tries).await;
        assert_eq!(statuses, ["error", "error", "error", "completed"]);
    }

    async fn a_rule_that_allows_one_object_does_not_let_in_others_that_are_named_with_it(db: TestDb) {
        let model = ScriptedModel::default();
        let server = Server::with_models(&db, 1_024, model.models()).await;
        let _runner = server.drive();
        let client = server.admin();
        let draft = client.object("Note", "draft", json!({})).await;
        client.object("Note", "keep", json!({})).await;
        let allow = json!({ "tools": ["entities_get"], "when": [{ "path": "ids", "op": "contains", "value": "Note/draft" }], "action": "allow" });
        let rules = json!([allow, { "tools": ["entities_get"], "action": "deny" }]);
        client.agent("reader", json!({ "tools": ["entities_get"], "approvals": rules })).await;
        let statuses = statuses_of((&client, &model), "reader", [
            ("entities_get", json!({ "ids": ["Note/draft"] })),
            ("entities_get", json!({ "ids": ["Note/draft", draft] })),
            ("entities_get", json!({ "ids": ["Note/draft", "Note/keep"] })),
            ("entities_get", json!({ "ids": ["Note/keep"] })),
        ]).await;
        assert_eq!(statuses, ["completed", "completed", "error", "error"]);
    }

    async fn an_approved_call_about_a_task_whose_key_has_a_slash_is_made(db: TestDb) {
        let model = ScriptedModel::default();
        let server = Server::with_models(&db, 1_024, model.models()).await;
        let _runner = server.drive();
        let client = server.admin();
        let task = client.object("SpecTask", "area/one", json!({ "title": "One" })).await;
        // What the key would name if it were read as `Type/key`.
        let other = client.object("area", "one", json!({})).await;
        let rules = json!([{ "tools": ["tasks_update"], "action": "ask" }]);
        client.agent("worker", json!({ "tools": ["tasks_update", "entities_update"], "approvals": rules })).await;
        for (title, moved, last) in [("New", &other, "completed"), ("Newer", &task, "error")] {
            let rename = match last {
                "completed" => json!({ "id": moved, "properties": { "seen": true } }),
                _ => json!({ "id": moved, "key": "area/two" }),
            };
            let update = calls("tasks_update", json!({ "id": "area/one", "title": title }));
            model.add("worker", [calls("entities_update", rename).and(update), says("Done.")]);
            let run = client.trigger("worker", "go").await;
            let decide = format!("/api/approvals/{}/decide", next_request(&client).await);
            client.post(&decide, json!({ "decision": "approve" })).await.is(200);
            client.ended(&run).await;
            assert_eq!(call_statuses(&client, "worker", &run).await, ["completed", last]);
        }
        let kept = client.get(&format!("/api/graph/objects/{task}")).await.is(200).clone();
        assert_eq!(kept["properties"]["title"], "New");
    }

    async fn a_rule_about_a_property_that_is_given_holds_for_null_which_removes_it(db: TestDb) {
        let model = ScriptedModel::default();
        let server = Server::with_models(&db, 1_024, model.models()).await;
        let _runner = server.drive();
        let client = server.admin();
        let locked = client.object("Note", "locked", json!({ "locked": true })).await;
        let exists = |action: &str, expected: bool| {
            let condition = json!({ "path": "properties.locked", "op": "exists", "value": expected });
            json!({ "tools": ["entities_update"], "when": [condition], "action": action })
        };
        let deny_all = json!({ "tools": ["entities_update"], "action": "deny" });
        let update = |properties: Value| ("entities_update", json!({ "id": "Note/locked", "properties": properties }));
        for (agent, rules) in [
            ("denies", json!([exists("deny", true)])),
            ("allows", json!([exists("allow", false), deny_all])),
        ] {
            client.agent(agent, json!({ "tools": ["entities_update"], "approvals": rules })).await;
            let tries = [json!({ "locked": false }), json!({ "locked": null }), json!({ "text": agent })].map(update);
            let statuses = statuses_of((&client, &model), agent, tries).await;
            assert_eq!(statuses, ["error", "error", "completed"], "{agent}");
        }
        let kept = client.get(&format!("/api/graph/objects/{locked}")).await.is(200).clone();
        assert_eq!(kept["properties"]["locked"], true);
    }

    async fn a_rule_about_one_object_holds_for_several_that_are_named_together(db: TestDb) {
        let model = ScriptedModel::default();
        let server = Server::with_models(&db, 1_024, model.models()).await;
        let _runner = server.drive();
        let client = server.admin();
        let keep = client.object("Secret", "keep", json!({})).await;
        client.object("Secret", "other", json!({})).await;
        for (agent, path, op) in [("one", "id", "eq"), ("several", "ids", "contains")] {
            let rules = denied(&json!(["entities_get"]), &[(path, op)], "Secret/keep");
            client.agent(agent, json!({ "tools": ["entities_get"], "approvals": rules })).await;
            let statuses = statuses_of((&client, &model), agent, [
                ("entities_get", json!({ "ids": ["Secret/other", keep] })),
                ("entities_get", json!({ "id": keep })),
                ("entities_get", json!({ "ids": ["Secret/other"] })),
                ("entities_get", json!({ "id": "Secret/other" })),
            ]).await;
            assert_eq!(statuses, ["error", "error", "completed", "completed"], "{agent}");
        }
    }
}
