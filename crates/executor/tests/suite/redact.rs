//! The executor records the output of a tool as the model gets it, so that a recovered run shows the model the same.
//! The tools of external servers remove the secrets that their server was sent (see the tests of `tools`).

use crate::support;

use emergent_domain::{object::NewObject, run::RunStatus};
use emergent_testkit::{
    both_engines,
    scripted::{ScriptedModel, calls, says},
};
use serde_json::json;
use support::{
    Harness, HarnessOptions, assert_ended,
    tools::{EXTERNAL, Probe},
    with_tools,
};

both_engines! {
    async fn the_record_holds_what_the_model_got_from_an_external_tool(db: TestDb) {
        let answer = json!({ "env": { "KEY": "[secret KEY]" }, "guess": "hunter22", "number": 12_345_678 });
        let whoami = Probe::new("whoami", EXTERNAL).answers(answer.clone()).build();
        let harness = Harness::with(&db, HarnessOptions::new(ScriptedModel::default()).tool(whoami)).await;
        harness.model.add("", [calls("whoami", json!({})), says("Done.")]);
        let agent = harness.agent(with_tools("spy", &["whoami"])).await;
        let run = harness.run(&agent, "Go.").await;
        assert_ended(&run, RunStatus::Completed, None);
        assert_eq!(harness.answers(run.id).await, [answer]);
        let seen: String = harness.model.requests().iter().map(|request| format!("{:?}", request.turns)).collect();
        assert!(seen.contains("hunter22") && seen.contains("[secret KEY]"), "{seen}");
        harness.close().await;
    }

    async fn what_the_graph_holds_is_read_as_it_is(db: TestDb) {
        let harness = Harness::with(&db, HarnessOptions::new(ScriptedModel::default())).await;
        let properties = json!({ "stage": "production", "number": 12_345_678 });
        let note = NewObject {
            type_: "Note".into(),
            properties: properties.as_object().cloned().unwrap_or_default(),
            ..NewObject::default()
        };
        let note = harness.executor.graph().create_object(harness.actor(), note).await.unwrap();
        harness.model.add("", [calls("entities_get", json!({ "id": note.id })), says("Done.")]);
        let agent = harness.agent(with_tools("reader", &["entities_get"])).await;
        let run = harness.run(&agent, "Go.").await;
        let [read] = harness.answers(run.id).await.try_into().unwrap();
        assert!(read.to_string().contains(r#""stage":"production""#), "{read}");
        harness.close().await;
    }
}
