//! The output of external tools is recorded without the project's secrets. The model gets what the tool returns,
//! which its server's secrets were removed from (see the tests of `tools`). Values in the graph belong to the
//! user and are not redacted.

use crate::support;

use emergent_domain::{object::NewObject, redact::Redactor, run::RunStatus};
use emergent_store::Db;
use emergent_testkit::{
    both_engines,
    scripted::{ScriptedModel, calls, says},
};
use serde_json::{Value, json};
use support::{
    Harness, HarnessOptions, assert_ended,
    tools::{EXTERNAL, Probe},
    with_tools,
};

const SECRET: &str = "S3cr3t-\"of the run\"";

/// Opens a harness with an external tool `whoami` that returns `answer`.
async fn open(db: &Db, answer: Value) -> (Harness, Redactor) {
    let plan = HarnessOptions::new(ScriptedModel::default())
        .tool(Probe::new("whoami", EXTERNAL).answers(answer).build());
    let redactor = plan.settings.redactor.clone();
    (Harness::with(db, plan).await, redactor)
}

both_engines! {
    async fn a_secret_from_outside_is_not_recorded_and_no_placeholder_tells_the_model(db: TestDb) {
        let leak = json!({ "env": { "API_KEY": SECRET }, SECRET: [format!("Bearer {SECRET}")] });
        let (harness, redactor) = open(&db, leak).await;
        redactor.add_secret(harness.project, "API_KEY", SECRET);
        harness.model.add("", [calls("whoami", json!({})), says("Done.")]);
        let agent = harness.agent(with_tools("spy", &["whoami"])).await;
        let run = harness.run(&agent, "Go.").await;
        assert_ended(&run, RunStatus::Completed, None);

        let outputs = harness.answers(run.id).await;
        let name = "[secret API_KEY]";
        assert_eq!(outputs[0], json!({ "env": { "API_KEY": name }, name: [format!("Bearer {name}")] }));
        let record = harness.timeline(run.id).await;
        assert!(record.matches(name).count() >= 3 && !record.contains("of the run"), "{record}");
        let seen: String = harness.model.requests().iter().map(|request| format!("{:?}", request.turns)).collect();
        assert!(!seen.contains(name), "the model would repeat it to the server: {seen}");
        harness.close().await;
    }

    async fn a_guess_comes_back_as_it_was_sent(db: TestDb) {
        let (harness, redactor) = open(&db, json!({ "you": "said hunter22", "and": "Basic eHg6aHVudGVyMjI=" })).await;
        redactor.add_secret(harness.project, "API_KEY", "hunter22");
        let (guess, other) = (json!({ "text": "is it hunter22?" }), json!({ "text": "is it hunter23?" }));
        harness.model.add("", [calls("whoami", guess).and(calls("whoami", other)), says("Done.")]);
        let agent = harness.agent(with_tools("spy", &["whoami"])).await;
        let run = harness.run(&agent, "Go.").await;
        let [guessed, wrong] = harness.answers(run.id).await.try_into().unwrap();
        assert_eq!(guessed["you"], "said hunter22", "the caller knows it, and does not learn that it is right");
        assert!(!guessed.to_string().contains("[secret"), "{guessed}");
        assert_eq!(wrong["you"], "said [secret API_KEY]", "what a server adds of its own is hidden");
        harness.close().await;
    }

    async fn what_the_graph_holds_is_read_as_it_is(db: TestDb) {
        let (harness, redactor) = open(&db, json!("in production")).await;
        redactor.add_secret(harness.project, "ENV", "production");
        let properties = json!({ "stage": "production", "number": 12_345_678 });
        let note = NewObject {
            type_: "Note".into(),
            properties: properties.as_object().cloned().unwrap_or_default(),
            ..NewObject::default()
        };
        let note = harness.executor.graph().create_object(harness.actor(), note).await.unwrap();
        let id = json!({ "id": note.id });
        let gone = json!({ "id": "production" });
        harness.model.add("", [
            calls("entities_get", id).and(calls("entities_get", gone)).and(calls("whoami", json!({}))),
            says("Done."),
        ]);
        let agent = harness.agent(with_tools("reader", &["entities_get", "whoami"])).await;
        let run = harness.run(&agent, "Go.").await;

        let [read, refused, outside] = harness.answers(run.id).await.try_into().unwrap();
        assert!(read.to_string().contains(r#""stage":"production""#), "{read}");
        assert!(!refused.to_string().contains("[secret"), "{refused}");
        assert_eq!(outside, json!("in [secret ENV]"));
        harness.close().await;
    }

    async fn the_secrets_of_another_project_touch_nothing_here(db: TestDb) {
        let answer = json!({ "production": ["in production", 12_345_678] });
        let (harness, redactor) = open(&db, answer.clone()).await;
        let other = harness.executor.graph().create_project("other", false).await.unwrap().id;
        redactor.add_secret(other, "ENV", "production");
        redactor.add_secret(other, "CODE", "12345678");
        harness.model.add("", [calls("whoami", json!({})), says("Done.")]);
        let agent = harness.agent(with_tools("caller", &["whoami"])).await;
        let run = harness.run(&agent, "Go.").await;
        assert_eq!(harness.answers(run.id).await, [answer]);
        harness.close().await;
    }
}
