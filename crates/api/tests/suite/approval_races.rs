//! A call that a rule lets through changes the object that the rule was asked about, whoever renames something meanwhile.

use std::time::Duration;

use emergent_domain::{author::Author, object::ObjectPatch};
use emergent_graph::{Actor, objects};
use emergent_testkit::{
    both_engines,
    scripted::{ScriptedModel, calls, says},
};
use serde_json::json;

use crate::common::Server;

both_engines! {
    async fn a_name_that_is_given_away_while_the_change_waits_is_refused(db: TestDb) {
        let model = ScriptedModel::default();
        let server = Server::with_models(&db, 1_024, model.models()).await;
        let _runner = server.drive();
        let client = server.admin();
        let keep = client.object("Note", "keep", json!({})).await;
        let rules = json!([
            { "tools": ["entities_*"], "when": [{ "path": "id", "op": "eq", "value": keep }], "action": "deny" },
        ]);
        client.agent("cleaner", json!({ "tools": ["entities_delete"], "approvals": rules })).await;
        model.add("cleaner", [calls("entities_delete", json!({ "id": "Note/tmp" })).with_delay(Duration::from_millis(400)), says("Done.")]);
        let run = client.trigger("cleaner", "go").await;
        while model.requests_of("cleaner").is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }

        // The transaction that renames is open when the model answers: the rules are asked before it ends, and the embedded
        // database makes the change of the call after it.
        let (graph, id) = (server.graph.clone(), keep.parse().unwrap());
        let actor = Actor { project: server.default_project, author: Author::System };
        let renamed = server.graph.db().write(move |tx| {
            let ctx = graph.write_context(tx, actor)?;
            let patch = ObjectPatch { key: Some(Some("tmp".to_owned())), ..ObjectPatch::default() };
            let patch = patch.check().map_err(emergent_graph::Error::from)?;
            std::thread::sleep(Duration::from_millis(1_200));
            objects::update(tx, &ctx, id, &patch)?;
            Ok::<_, emergent_graph::Error>(())
        });
        renamed.await.unwrap();
        assert_eq!(client.ended(&run).await["status"], "completed");
        client.get(&format!("/api/graph/objects/{keep}")).await.is(200);
    }
}
