//! A rule about an object holds for every name of the object.

use emergent_testkit::{
    both_engines,
    scripted::{ScriptedModel, calls, says},
};
use serde_json::json;

use crate::{
    approval_candidates::statuses_of,
    approvals::next_request,
    common::{Client, Server},
};

/// The statuses of the calls of a run, in their order.
pub(crate) async fn call_statuses(client: &Client, agent: &str, run: &str) -> Vec<String> {
    let calls = client.get(&format!("/api/admin/agents/{agent}/runs/{run}/tool-calls")).await.is(200).clone();
    calls.as_array().unwrap().iter().map(|call| call["status"].as_str().unwrap().to_owned()).collect()
}

both_engines! {
    async fn a_rule_about_an_object_holds_for_each_of_its_names(db: TestDb) {
        let model = ScriptedModel::default();
        let server = Server::with_models(&db, 1_024, model.models()).await;
        let _runner = server.drive();
        let client = server.admin();
        let keep = client.object("Note", "keep", json!({})).await;
        let other = client.object("Note", "other", json!({})).await;
        client.object("Note", "old", json!({})).await;
        let names = [keep.clone(), keep.to_uppercase(), format!("Note/{keep}"), "Note/keep".to_owned()];
        // The rule names it by its key, and by its id.
        for (agent, named) in [("by-key", "Note/keep"), ("by-id", keep.as_str())] {
            let rules = json!([
                { "tools": ["entities_delete"], "when": [{ "path": "id", "op": "eq", "value": named }], "action": "deny" },
                { "tools": ["entities_delete"], "action": "ask" },
            ]);
            client.agent(agent, json!({ "tools": ["entities_delete"], "approvals": rules })).await;
            // The model cannot delete it.
            let tries = names.iter().map(|name| calls("entities_delete", json!({ "id": name })));
            model.add(agent, tries.chain([says("Done.")]));
            assert_eq!(client.run_to_end(agent, "go").await["status"], "completed");
            client.get(&format!("/api/graph/objects/{keep}")).await.is(200);
            // Nobody can approve that it does.
            model.add(agent, [calls("entities_delete", json!({ "id": "Note/old" })), says("Done.")]);
            let run = client.trigger(agent, "go").await;
            let decide = format!("/api/approvals/{}/decide", next_request(&client).await);
            for name in &names {
                let edited = json!({ "decision": "approve", "editedInput": { "id": name } });
                let refused = client.post(&decide, edited).await;
                assert_eq!(refused.refused(400, "invalid")["details"][0]["field"], "editedInput", "{name}: {}", refused.text);
            }
            // Another object is not meant, nor one that does not exist.
            let edited = json!({ "decision": "approve", "editedInput": { "id": format!("Note/{other}") } });
            client.post(&decide, edited).await.is(200);
            assert_eq!(client.ended(&run).await["status"], "completed");
            client.get(&format!("/api/graph/objects/{keep}")).await.is(200);
            client.get(&format!("/api/graph/objects/{other}")).await.refused(404, "not_found");
            client.post(&format!("/api/graph/objects/{other}/restore"), json!({})).await.is(200);
        }
    }

    async fn a_rule_about_an_object_holds_after_an_earlier_call_has_renamed_it(db: TestDb) {
        let model = ScriptedModel::default();
        let server = Server::with_models(&db, 1_024, model.models()).await;
        let _runner = server.drive();
        let client = server.admin();
        for (agent, action) in [("denies", "deny"), ("asks", "ask")] {
            for (by, in_one_answer) in [("id", true), ("key", true), ("key", false)] {
                let (agent, key) = (format!("{agent}-{by}-{in_one_answer}"), format!("{agent}-{by}-{in_one_answer}"));
                let keep = client.object("Note", &key, json!({})).await;
                let name = if by == "id" { keep.clone() } else { format!("Note/{key}") };
                let condition = json!({ "path": "id", "op": "eq", "value": name });
                let rules = json!([
                    { "tools": ["entities_delete", "entities_get"], "when": [condition], "action": action },
                ]);
                let tools = ["entities_update", "entities_delete", "entities_get"];
                client.agent(&agent, json!({ "tools": tools, "approvals": rules })).await;
                let renamed = json!({ "id": format!("Note/tmp-{agent}") });
                let rename = calls("entities_update", json!({ "id": keep, "key": format!("tmp-{agent}") }));
                let (get, delete) = (calls("entities_get", renamed.clone()), calls("entities_delete", renamed));
                if in_one_answer {
                    model.add(&agent, [rename.and(get).and(delete), says("Done.")]);
                    let run = client.run_to_end(&agent, "go").await;
                    assert_eq!(run["status"], "completed", "{run}");
                    let path = format!("/api/admin/agents/{agent}/runs/{}/tool-calls", run["id"].as_str().unwrap());
                    let calls = client.get(&path).await.is(200).clone();
                    let statuses: Vec<&str> = calls.as_array().unwrap().iter().map(|call| call["status"].as_str().unwrap()).collect();
                    assert_eq!(statuses, ["completed", "error", "error"], "{calls:#}");
                } else {
                    model.add(&agent, [rename, delete, says("Done.")]);
                    if action == "deny" {
                        assert_eq!(client.run_to_end(&agent, "go").await["status"], "completed");
                    } else {
                        let run = client.trigger(&agent, "go").await;
                        let decide = format!("/api/approvals/{}/decide", next_request(&client).await);
                        client.post(&decide, json!({ "decision": "deny" })).await.is(200);
                        client.ended(&run).await;
                    }
                }
                client.get(&format!("/api/graph/objects/{keep}")).await.is(200);
            }
        }
    }

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

    async fn a_rule_that_allows_all_but_an_object_does_not_allow_it_by_another_name(db: TestDb) {
        let model = ScriptedModel::default();
        let server = Server::with_models(&db, 1_024, model.models()).await;
        let _runner = server.drive();
        let client = server.admin();
        let keep = client.object("Note", "keep", json!({})).await;
        let rules = json!([
            { "tools": ["entities_delete"], "when": [{ "path": "id", "op": "ne", "value": "Note/keep" }], "action": "allow" },
            { "tools": ["entities_delete"], "action": "deny" },
        ]);
        client.agent("cleaner", json!({ "tools": ["entities_delete"], "approvals": rules })).await;
        model.add("cleaner", [calls("entities_delete", json!({ "id": keep })), says("Done.")]);
        client.run_to_end("cleaner", "go").await;
        client.get(&format!("/api/graph/objects/{keep}")).await.is(200);
    }

    async fn an_approval_counts_for_the_object_that_the_call_named(db: TestDb) {
        let model = ScriptedModel::default();
        let server = Server::with_models(&db, 1_024, model.models()).await;
        let _runner = server.drive();
        let client = server.admin();
        let rules = json!([{ "tools": ["entities_delete"], "action": "ask" }]);
        client.agent("cleaner", json!({ "tools": ["entities_update", "entities_delete"], "approvals": rules })).await;
        let rename = |id: &str, key: &str| calls("entities_update", json!({ "id": id, "key": key }));
        let delete = |name: &str| calls("entities_delete", json!({ "id": name }));

        // Two calls of the same answer give the name to another object; or only one of them, if the name is free.
        for (case, is_taken) in [("taken", true), ("free", false)] {
            let tmp = format!("tmp-{case}");
            let shown = client.object("Note", if is_taken { &tmp } else { "other" }, json!({})).await;
            let other = client.object("Note", &format!("keep-{case}"), json!({})).await;
            let answer = rename(&shown, &format!("old-{case}")).and(rename(&other, &tmp)).and(delete(&format!("Note/{tmp}")));
            model.add("cleaner", [answer, says("Done.")]);
            let run = client.trigger("cleaner", "go").await;
            let decide = format!("/api/approvals/{}/decide", next_request(&client).await);
            client.post(&decide, json!({ "decision": "approve" })).await.is(200);
            assert_eq!(client.ended(&run).await["status"], "completed");
            assert_eq!(call_statuses(&client, "cleaner", &run).await, ["completed", "completed", "error"], "{case}");
            for kept in [&shown, &other] {
                client.get(&format!("/api/graph/objects/{kept}")).await.is(200);
            }
        }

        // Somebody else does it while the request waits. Whoever decides is told, and may send another input.
        let shown = client.object("Note", "shown", json!({})).await;
        let other = client.object("Note", "hidden", json!({})).await;
        model.add("cleaner", [delete("Note/shown"), says("Done.")]);
        let run = client.trigger("cleaner", "go").await;
        let request = next_request(&client).await;
        for (id, key) in [(&shown, "before"), (&other, "shown")] {
            client.patch(&format!("/api/graph/objects/{id}"), json!({ "key": key })).await.is(200);
        }
        let decide = format!("/api/approvals/{request}/decide");
        let refused = client.post(&decide, json!({ "decision": "approve" })).await;
        assert!(refused.refused(409, "conflict")["message"].as_str().unwrap().contains("another object"), "{}", refused.text);
        let edited = json!({ "decision": "approve", "editedInput": { "id": "Note/before" } });
        client.post(&decide, edited).await.is(200);
        assert_eq!(client.ended(&run).await["status"], "completed");
        client.get(&format!("/api/graph/objects/{shown}")).await.refused(404, "not_found");
        client.get(&format!("/api/graph/objects/{other}")).await.is(200);
    }

    async fn an_edited_input_counts_for_the_object_that_it_named(db: TestDb) {
        let model = ScriptedModel::default();
        let server = Server::with_models(&db, 1_024, model.models()).await;
        let _runner = server.drive();
        let client = server.admin();
        let rules = json!([{ "tools": ["entities_delete"], "action": "ask" }]);
        client.agent("cleaner", json!({ "tools": ["entities_update", "entities_delete"], "approvals": rules })).await;
        let meant = client.object("Note", "meant", json!({})).await;
        let keep = client.object("Note", "keep", json!({})).await;
        let rename = |id: &str, key: &str| calls("entities_update", json!({ "id": id, "key": key }));
        let answer = rename(&meant, "before").and(rename(&keep, "meant"));
        model.add("cleaner", [answer.and(calls("entities_delete", json!({ "id": "Note/any" }))), says("Done.")]);
        let run = client.trigger("cleaner", "go").await;
        let decide = format!("/api/approvals/{}/decide", next_request(&client).await);
        let edited = json!({ "decision": "approve", "editedInput": { "id": "Note/meant" } });
        client.post(&decide, edited).await.is(200);
        client.ended(&run).await;
        assert_eq!(call_statuses(&client, "cleaner", &run).await, ["completed", "completed", "error"]);
        client.get(&format!("/api/graph/objects/{keep}")).await.is(200);
    }

    async fn a_call_about_an_object_that_an_earlier_call_creates_is_made_when_it_was_approved(db: TestDb) {
        let model = ScriptedModel::default();
        let server = Server::with_models(&db, 1_024, model.models()).await;
        let _runner = server.drive();
        let client = server.admin();
        client.object("Note", "old", json!({})).await;
        // The key named something that is deleted when the person is asked.
        let gone = client.object("Note", "new", json!({})).await;
        client.delete(&format!("/api/graph/objects/{gone}")).await.is(200);
        let rules = json!([{ "tools": ["relationships_create"], "action": "ask" }]);
        client.agent("linker", json!({ "tools": ["entities_create", "relationships_create"], "approvals": rules })).await;
        let create = calls("entities_create", json!({ "type": "Note", "key": "new", "properties": {} }));
        let link = calls("relationships_create", json!({ "type": "knows", "fromId": "Note/new", "toId": "Note/old" }));
        model.add("linker", [create.and(link), says("Done.")]);
        let run = client.trigger("linker", "go").await;
        let decide = format!("/api/approvals/{}/decide", next_request(&client).await);
        client.post(&decide, json!({ "decision": "approve" })).await.is(200);
        client.ended(&run).await;
        assert_eq!(call_statuses(&client, "linker", &run).await, ["completed", "completed"]);
    }

    async fn a_request_of_an_earlier_version_counts_for_what_was_named_when_it_was_approved(db: TestDb) {
        let model = ScriptedModel::default();
        let server = Server::with_models(&db, 1_024, model.models()).await;
        let _runner = server.drive();
        let client = server.admin();
        let rules = json!([{ "tools": ["entities_delete"], "action": "ask" }]);
        client.agent("cleaner", json!({ "tools": ["entities_update", "entities_delete"], "approvals": rules })).await;
        for is_renamed in [false, true] {
            let shown = client.object("Note", "tmp", json!({})).await;
            let keep = client.object("Note", "keep", json!({})).await;
            let renames = if is_renamed { [("before", &shown), ("tmp", &keep)] } else { [("tmp", &shown), ("keep", &keep)] };
            let [first, second] = renames.map(|(key, id)| calls("entities_update", json!({ "id": id, "key": key })));
            let answer = first.and(second).and(calls("entities_delete", json!({ "id": "Note/tmp" })));
            model.add("cleaner", [answer, says("Done.")]);
            let run = client.trigger("cleaner", "go").await;
            let request = next_request(&client).await;
            let id: uuid::Uuid = request.parse().unwrap();
            // Such a digest is that of the call alone.
            let sql = "UPDATE approvals SET digest = substr(digest, 1, 64) WHERE id = $1";
            let write = move |tx: &mut emergent_store::Tx<'_>| tx.execute(sql, &[id.into()]);
            assert_eq!(server.graph.db().write::<_, emergent_store::Error, _>(write).await.unwrap(), 1);
            client.post(&format!("/api/approvals/{request}/decide"), json!({ "decision": "approve" })).await.is(200);
            client.ended(&run).await;
            let last = if is_renamed { "error" } else { "completed" };
            assert_eq!(call_statuses(&client, "cleaner", &run).await, ["completed", "completed", last]);
            client.get(&format!("/api/graph/objects/{keep}")).await.is(200);
            if !is_renamed {
                client.delete(&format!("/api/graph/objects/{keep}")).await.is(200);
            }
        }
    }

    async fn an_approval_counts_for_the_task_and_the_entity_that_a_key_named(db: TestDb) {
        let model = ScriptedModel::default();
        let server = Server::with_models(&db, 1_024, model.models()).await;
        let _runner = server.drive();
        let client = server.admin();
        let rules = json!([{ "tools": ["tasks_update", "entities_create"], "action": "ask" }]);
        let tools = json!(["entities_update", "tasks_update", "entities_create"]);
        client.agent("worker", json!({ "tools": tools, "approvals": rules })).await;
        let rename = |id: &str, key: &str| calls("entities_update", json!({ "id": id, "key": key }));
        let completed = json!({ "type": "Note", "key": "build", "merge": true, "properties": { "text": "new" } });
        for (type_, tool, input) in [
            ("SpecTask", "tasks_update", json!({ "id": "build", "title": "new" })),
            ("Note", "entities_create", completed),
        ] {
            let shown = client.object(type_, "build", json!({ "title": "Build" })).await;
            let other = client.object(type_, "deploy", json!({ "title": "Deploy" })).await;
            for (renames, last) in [
                ([rename(&shown, "build"), rename(&other, "deploy")], "completed"),
                ([rename(&shown, "before"), rename(&other, "build")], "error"),
            ] {
                let [first, second] = renames;
                model.add("worker", [first.and(second).and(calls(tool, input.clone())), says("Done.")]);
                let run = client.trigger("worker", "go").await;
                let decide = format!("/api/approvals/{}/decide", next_request(&client).await);
                client.post(&decide, json!({ "decision": "approve" })).await.is(200);
                client.ended(&run).await;
                let statuses = call_statuses(&client, "worker", &run).await;
                assert_eq!(statuses, ["completed", "completed", last], "{type_}");
            }
            let kept = client.get(&format!("/api/graph/objects/{other}")).await.is(200).clone();
            assert_eq!((&kept["properties"]["title"], &kept["properties"]["text"]), (&json!("Deploy"), &json!(null)));
        }
    }

    async fn a_rule_with_two_conditions_holds_after_both_objects_were_renamed(db: TestDb) {
        let model = ScriptedModel::default();
        let server = Server::with_models(&db, 1_024, model.models()).await;
        let _runner = server.drive();
        let client = server.admin();
        let keep = client.object("Note", "keep", json!({})).await;
        let other = client.object("Note", "other", json!({})).await;
        let edge = client.edge("knows", &keep, &other).await;
        let rules = json!([{
            "tools": ["relationships_delete"],
            "when": [
                { "path": "fromId", "op": "eq", "value": "Note/keep" },
                { "path": "toId", "op": "eq", "value": "Note/other" },
            ],
            "action": "deny",
        }]);
        client.agent("linker", json!({ "tools": ["entities_update", "relationships_delete"], "approvals": rules })).await;
        let rename = |id: &str, key: &str| calls("entities_update", json!({ "id": id, "key": key }));
        let delete = |from: &str, to: &str| calls("relationships_delete", json!({ "type": "knows", "fromId": from, "toId": to }));
        model.add("linker", [
            rename(&keep, "tmp"),
            delete(&keep, &other),
            rename(&other, "tmp2").and(rename(&other, "tmp3")),
            delete(&keep, &other),
            delete("Note/tmp", "Note/tmp3"),
            says("Done."),
        ]);
        assert_eq!(client.run_to_end("linker", "go").await["status"], "completed");
        client.get(&format!("/api/graph/relationships/{edge}")).await.is(200);
    }
}
