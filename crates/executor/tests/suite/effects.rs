//! A tool's writes and the record of its call are committed together, or not at all.

use crate::support;

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use emergent_domain::{
    object::NewObject,
    run::{RunStatus, ToolCallStatus},
};
use emergent_graph::objects::{self, ObjectDraft};
use emergent_store::Tx;
use emergent_testkit::{
    TestDb, both_engines,
    scripted::{ScriptedModel, calls, says},
};
use emergent_tools::GraphChange;
use serde_json::{Value, json};
use support::{
    Harness, HarnessOptions, assert_ended,
    server::content,
    tools::{Probe, WRITES},
    with_tools,
};

/// Creates one object, then does what the test asks for.
fn writes_then(
    after: impl Fn(&mut Tx<'_>) -> emergent_graph::Result<Value> + Clone + Send + Sync + 'static,
) -> Probe {
    Probe::new("note", WRITES).changes(move |_| {
        let after = after.clone();
        let change: GraphChange = Box::new(move |tx, writer| {
            let new = NewObject { type_: "Note".into(), ..NewObject::default() };
            objects::create(tx, writer, &ObjectDraft::new(new)?)?;
            after(tx)
        });
        change
    })
}

async fn notes(db: &TestDb) -> usize {
    content(db).await.iter().filter(|row| row.starts_with("graph_objects ")).count()
}

both_engines! {
    async fn a_write_and_the_record_of_its_call_commit_together(db: TestDb) {
        let tool = writes_then(|_| Ok(json!({ "noted": true }))).build();
        let harness = Harness::with(&db, HarnessOptions::new(ScriptedModel::new([calls("note", json!({})), says("Noted.")])).tool(tool)).await;
        let agent = harness.agent(with_tools("noter", &["note"])).await;
        let run = harness.run(&agent, "Go.").await;
        assert_ended(&run, RunStatus::Completed, None);
        assert_eq!((notes(&db).await, harness.answers(run.id).await), (1, vec![json!({ "noted": true })]));
        harness.close().await;
    }

    async fn a_change_that_fails_leaves_nothing_but_the_record_of_its_failure(db: TestDb) {
        let refusal = |_: &mut Tx<'_>| Err(emergent_graph::Error::Conflict { message: "not like this".into() });
        let tool = writes_then(refusal).build();
        let harness = Harness::with(&db, HarnessOptions::new(ScriptedModel::new([calls("note", json!({})), says("Refused.")])).tool(tool)).await;
        let agent = harness.agent(with_tools("noter", &["note"])).await;
        let run = harness.run(&agent, "Go.").await;
        assert_ended(&run, RunStatus::Completed, None);
        let call = harness.calls(run.id).await.remove(0);
        assert_eq!((call.status, call.output), (ToolCallStatus::Error, Some(json!({ "error": "not like this" }))));
        assert_eq!(notes(&db).await, 0);
        harness.close().await;
    }

    async fn a_change_that_panics_halfway_leaves_nothing(db: TestDb) {
        let tool = writes_then(|_| panic!("a defect")).build();
        let harness = Harness::with(&db, HarnessOptions::new(ScriptedModel::new([calls("note", json!({})), says("Crashed.")])).tool(tool)).await;
        let agent = harness.agent(with_tools("noter", &["note"])).await;
        let run = harness.run(&agent, "Go.").await;
        assert_ended(&run, RunStatus::Completed, None);
        assert_eq!(notes(&db).await, 0);
        harness.close().await;
    }

    async fn a_change_that_takes_too_long_is_told_to_the_model_and_not_repeated(db: TestDb) {
        let tries = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&tries);
        let too_slow = move |_: &mut Tx<'_>| {
            counted.fetch_add(1, Ordering::SeqCst);
            let limit = std::time::Duration::from_secs(2);
            Err(emergent_graph::Error::Store(emergent_store::Error::TooSlow { limit }))
        };
        let tool = writes_then(too_slow).build();
        let harness = Harness::with(&db, HarnessOptions::new(ScriptedModel::new([calls("note", json!({})), says("Smaller then.")])).tool(tool)).await;
        let agent = harness.agent(with_tools("noter", &["note"])).await;
        let run = harness.run(&agent, "Go.").await;
        assert_ended(&run, RunStatus::Completed, None);
        let call = harness.calls(run.id).await.remove(0);
        let output = call.output.expect("an output").to_string();
        assert_eq!(call.status, ToolCallStatus::Error);
        assert!(output.contains("longer than the limit of 2 seconds"), "{output}");
        assert_eq!((notes(&db).await, tries.load(Ordering::SeqCst)), (0, 1));
        harness.close().await;
    }

    async fn a_database_that_fails_once_costs_nothing_and_repeats_nothing(db: TestDb) {
        let tries = Arc::new(AtomicUsize::new(0));
        let failing = {
            let tries = Arc::clone(&tries);
            move |_: &mut Tx<'_>| match tries.fetch_add(1, Ordering::SeqCst) {
                0 => Err(emergent_graph::Error::Store(emergent_store::Error::Closed)),
                _ => Ok(json!({ "noted": true })),
            }
        };
        let tool = writes_then(failing).build();
        let harness = Harness::with(&db, HarnessOptions::new(ScriptedModel::new([calls("note", json!({})), says("Noted.")])).tool(tool)).await;
        let agent = harness.agent(with_tools("noter", &["note"])).await;
        let run = harness.run(&agent, "Go.").await;
        assert_ended(&run, RunStatus::Completed, None);
        assert_eq!((notes(&db).await, tries.load(Ordering::SeqCst)), (1, 2));
        assert_eq!(harness.model.requests().len(), 2, "the model is not asked again for what it said");
        assert!(harness.timeline(run.id).await.contains("started again"), "the run went on from its record");
        harness.close().await;
    }

    async fn a_record_that_cannot_be_written_takes_the_write_back_with_it(db: TestDb) {
        let tries = Arc::new(AtomicUsize::new(0));
        let hiding_the_record_once = {
            let tries = Arc::clone(&tries);
            move |tx: &mut Tx<'_>| {
                if tries.fetch_add(1, Ordering::SeqCst) == 0 {
                    tx.execute("ALTER TABLE agent_run_tool_calls RENAME TO hidden", &[])?;
                }
                Ok(json!({ "noted": true }))
            }
        };
        let tool = writes_then(hiding_the_record_once).build();
        let harness = Harness::with(&db, HarnessOptions::new(ScriptedModel::new([calls("note", json!({})), says("Noted.")])).tool(tool)).await;
        let agent = harness.agent(with_tools("noter", &["note"])).await;
        let run = harness.run(&agent, "Go.").await;
        assert_ended(&run, RunStatus::Completed, None);
        assert_eq!((notes(&db).await, tries.load(Ordering::SeqCst)), (1, 2));
        harness.close().await;
    }
}
