//! A rule about an object holds for every name of the object.

use emergent_testkit::{
    both_engines,
    scripted::{ScriptedModel, calls, says},
};
use serde_json::json;

use crate::{approvals::next_request, common::Server};

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
}
