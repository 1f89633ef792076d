//! The tools of an agent in a run: which it has, how failures are reported, and which calls run
//! concurrently.

use crate::support;

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use emergent_domain::run::{RunStatus, ToolCallStatus};
use emergent_executor::Error;
use emergent_testkit::{
    both_engines,
    scripted::{ScriptedModel, ScriptedReply, calls, says},
};
use emergent_tools::Effect;
use serde_json::{Value, json};
use support::{
    Harness, HarnessOptions, agent, assert_ended,
    tools::{EXTERNAL, Probe, WRITES},
    with_tools,
};

fn error(output: &Value) -> &str {
    output["error"].as_str().unwrap_or_default()
}

fn both_of(one: &str, other: &str) -> ScriptedReply {
    calls(one, json!({ "n": 1 })).and(calls(other, json!({ "n": 2 })))
}

both_engines! {
    async fn an_empty_list_is_no_tools(db: TestDb) {
        let model = ScriptedModel::new([calls("entities_query", json!({ "type": "T" })), says("I have none.")]);
        let harness = Harness::open(&db, model).await;
        let bare = harness.agent(agent("bare")).await;
        let run = harness.run(&bare, "Go.").await;
        assert_ended(&run, RunStatus::Completed, None);
        assert!(harness.model.requests().iter().all(|asked| asked.tools.is_empty()));
        let outputs = harness.answers(run.id).await;
        assert!(error(&outputs[0]).starts_with("tool not found"), "{outputs:?}");
        harness.close().await;
    }

    async fn a_tool_that_was_not_granted_is_not_found_and_the_model_reads_what_it_has(db: TestDb) {
        let model = ScriptedModel::new([calls("entities_delete", json!({ "id": "T/x" })), says("I cannot.")]);
        let harness = Harness::open(&db, model).await;
        let reader = harness.agent(with_tools("reader", &["entities_query", "entities_get"])).await;
        let run = harness.run(&reader, "Go.").await;
        let call = harness.calls(run.id).await.remove(0);
        assert_eq!(call.status, ToolCallStatus::Error);
        assert_eq!(
            error(&call.output.unwrap()),
            "tool not found: there is no tool `entities_delete`; your tools are entities_get, entities_query"
        );
        harness.close().await;
    }

    async fn a_name_the_pool_does_not_have_is_refused_with_the_nearest_when_it_is_saved(db: TestDb) {
        let harness = Harness::build(&db, HarnessOptions::new(ScriptedModel::new([]))).await;
        let wrong = with_tools("typist", &["entities_qury"]);
        let refused = harness.executor.create_agent(harness.actor(), wrong).await.unwrap_err();
        assert!(matches!(&refused, Error::Invalid(_)), "{refused}");
        assert!(refused.to_string().contains("entities_query"), "{refused}");
    }

    async fn globs_are_resolved_when_the_run_starts(db: TestDb) {
        let harness = Harness::open(&db, ScriptedModel::new([says("Done.")])).await;
        let agent = harness.agent(with_tools("globber", &["search_*", "entities_get"])).await;
        harness.run(&agent, "Go.").await;
        let tools = harness.model.requests().remove(0).tools;
        let expected = ["entities_get", "search_fts", "search_hybrid", "search_linked", "search_semantic", "search_similar"];
        assert_eq!(tools, expected);
        harness.close().await;
    }

    async fn an_alias_is_recorded_by_the_tools_own_name(db: TestDb) {
        let model = ScriptedModel::new([calls("query_entities", json!({ "type": "T" })), says("None.")]);
        let harness = Harness::open(&db, model).await;
        // The alias grants the tool as well.
        let agent = harness.agent(with_tools("looker", &["list_objects"])).await;
        let run = harness.run(&agent, "Go.").await;
        let call = harness.calls(run.id).await.remove(0);
        assert_eq!((call.tool.as_str(), call.status), ("entities_query", ToolCallStatus::Completed));
        let asked = serde_json::to_string(&harness.model.requests()[1].turns).unwrap();
        assert!(!asked.contains("query_entities"), "the model's view agrees with the record: {asked}");
        harness.close().await;
    }

    async fn a_bad_input_goes_back_and_the_model_mends_it(db: TestDb) {
        let schema = json!({
            "type": "object", "properties": { "count": { "type": "integer" } },
            "required": ["count"], "additionalProperties": false,
        });
        let tool = Probe::new("count", Effect::Reads).schema(schema).build();
        let model = ScriptedModel::new([
            calls("count", json!({ "cuont": 1 })),
            calls("count", json!("not an object")),
            calls("count", json!({ "count": 1 })),
            says("Counted."),
        ]);
        let harness = Harness::with(&db, HarnessOptions::new(model).tool(tool.clone())).await;
        let agent = harness.agent(with_tools("counter", &["count"])).await;
        let run = harness.run(&agent, "Go.").await;
        assert_ended(&run, RunStatus::Completed, None);
        let statuses: Vec<ToolCallStatus> = harness.calls(run.id).await.iter().map(|call| call.status).collect();
        assert_eq!(statuses, [ToolCallStatus::Error, ToolCallStatus::Error, ToolCallStatus::Completed]);
        assert!(error(&harness.answers(run.id).await[0]).contains("count"), "it says what is missing");
        assert_eq!(tool.called(), 1, "a bad input does not reach the tool");
        harness.close().await;
    }

    async fn reads_of_one_message_run_beside_each_other(db: TestDb) {
        let tool = Probe::new("look", Effect::Reads).taking(Duration::from_millis(150)).build();
        let look = |n: usize| calls("look", json!({ "n": n }));
        let model = ScriptedModel::new([(1..8).map(look).fold(look(0), ScriptedReply::and), says("Seen.")]);
        let harness = Harness::with(&db, HarnessOptions::new(model).tool(tool.clone())).await;
        let agent = harness.agent(with_tools("looker", &["look"])).await;
        let run = harness.run(&agent, "Go.").await;
        assert_ended(&run, RunStatus::Completed, None);
        assert_eq!(tool.most_at_work(), 8);
        let order: Vec<i64> = harness.answers(run.id).await.iter().map(|outputs| outputs["got"]["n"].as_i64().unwrap()).collect();
        assert_eq!(order, [0, 1, 2, 3, 4, 5, 6, 7], "the model reads the results in the order of its calls");
        harness.close().await;
    }

    async fn what_changes_something_runs_in_the_order_of_the_message(db: TestDb) {
        let log = Arc::new(Mutex::new(Vec::new()));
        let slow = Duration::from_millis(50);
        let write = |name: &str| Probe::new(name, WRITES).taking(slow).logging(&log).build();
        let outside = Probe::new("outside", EXTERNAL).taking(slow).logging(&log).build();
        let read = Probe::new("read", Effect::Reads).taking(slow).logging(&log).build();
        let message = both_of("first", "outside").and(both_of("read", "second"));
        let plan = HarnessOptions::new(ScriptedModel::new([message, says("Done.")]))
            .tool(write("first")).tool(write("second")).tool(outside).tool(read);
        let harness = Harness::with(&db, plan).await;
        let agent = harness.agent(with_tools("writer", &["first", "second", "outside", "read"])).await;
        harness.run(&agent, "Go.").await;
        let order = ["first", "/first", "outside", "/outside", "read", "/read", "second", "/second"];
        assert_eq!(*log.lock().unwrap(), order);
        harness.close().await;
    }

    async fn a_tool_that_gives_no_answer_in_time_is_an_error_of_its_call(db: TestDb) {
        let tool = Probe::new("endless", Effect::Reads).never_answers().build();
        let mut plan = HarnessOptions::new(ScriptedModel::new([calls("endless", json!({})), says("I went on.")])).tool(tool);
        plan.settings.guard.timeout = Duration::from_millis(100);
        let harness = Harness::with(&db, plan).await;
        let agent = harness.agent(with_tools("waiter", &["endless"])).await;
        let run = harness.run(&agent, "Go.").await;
        assert_ended(&run, RunStatus::Completed, None);
        let outputs = harness.answers(run.id).await;
        assert!(error(&outputs[0]).contains("no answer within"), "{outputs:?}");
        harness.close().await;
    }

    async fn a_big_answer_is_cut_for_the_model_and_says_so(db: TestDb) {
        let tool = Probe::new("talk", Effect::Reads).answers(json!({ "text": "word ".repeat(100_000) })).build();
        let mut plan = HarnessOptions::new(ScriptedModel::new([calls("talk", json!({})), says("A lot.")])).tool(tool);
        plan.settings.guard.max_output_bytes = 4_000;
        let harness = Harness::with(&db, plan).await;
        let agent = harness.agent(with_tools("listener", &["talk"])).await;
        let run = harness.run(&agent, "Go.").await;
        assert_ended(&run, RunStatus::Completed, None);
        let outputs = harness.answers(run.id).await.remove(0).to_string();
        assert!(outputs.len() < 6_000, "{}", outputs.len());
        assert_ne!(outputs, json!({ "text": "word ".repeat(100_000) }).to_string());
        harness.close().await;
    }

    async fn a_tool_that_panics_is_an_error_of_its_call(db: TestDb) {
        let tool = Probe::new("broken", EXTERNAL).panics().build();
        let harness = Harness::with(&db, HarnessOptions::new(ScriptedModel::new([calls("broken", json!({})), says("Oh.")])).tool(tool)).await;
        let agent = harness.agent(with_tools("careful", &["broken"])).await;
        let run = harness.run(&agent, "Go.").await;
        assert_ended(&run, RunStatus::Completed, None);
        assert!(error(&harness.answers(run.id).await[0]).contains("crashed"));
        harness.close().await;
    }

    async fn a_tool_that_panics_in_its_transaction_is_an_error_of_its_call(db: TestDb) {
        let tool = Probe::new("broken", WRITES).changes(|_| Box::new(|_, _| panic!("a defect"))).build();
        let harness = Harness::with(&db, HarnessOptions::new(ScriptedModel::new([calls("broken", json!({})), says("Oh.")])).tool(tool)).await;
        let agent = harness.agent(with_tools("careful", &["broken"])).await;
        let run = harness.run(&agent, "Go.").await;
        assert_ended(&run, RunStatus::Completed, None);
        assert!(error(&harness.answers(run.id).await[0]).contains("crashed"));
        harness.close().await;
    }

    async fn a_tool_that_says_it_only_reads_does_not_get_to_write(db: TestDb) {
        let tool = Probe::new("liar", Effect::Reads).changes(|_| Box::new(|_, _| Ok(json!({})))).build();
        let harness = Harness::with(&db, HarnessOptions::new(ScriptedModel::new([calls("liar", json!({})), says("Oh.")])).tool(tool)).await;
        let agent = harness.agent(with_tools("trusting", &["liar"])).await;
        let run = harness.run(&agent, "Go.").await;
        assert!(error(&harness.answers(run.id).await[0]).contains("may not"));
        harness.close().await;
    }

    async fn what_no_database_can_hold_is_replaced_and_the_run_goes_on(db: TestDb) {
        let model = ScriptedModel::new([
            says("A\0B").and(calls("entities\0_query", json!({ "ty\0pe": "T\0" }))),
            says("Still\0 here."),
        ]);
        let harness = Harness::open(&db, model).await;
        let agent = harness.agent(with_tools("odd", &["entities_query"])).await;
        let run = harness.run(&agent, "Go.").await;
        assert_ended(&run, RunStatus::Completed, None);
        assert_eq!(run.summary.as_deref(), Some("Still\u{fffd} here."));
        harness.close().await;
    }

    async fn two_servers_tools_of_one_name_are_told_apart(db: TestDb) {
        let one = Probe::new("find", Effect::Reads).server("one").answers(json!({ "from": "one" })).build();
        let two = Probe::new("find", Effect::Reads).server("two").answers(json!({ "from": "two" })).build();
        let model = ScriptedModel::new([both_of("one.find", "two.find"), says("Both.")]);
        let harness = Harness::with(&db, HarnessOptions::new(model).tool(one).tool(two)).await;
        let agent = harness.agent(with_tools("finder", &["one.find", "two.*"])).await;
        let run = harness.run(&agent, "Go.").await;
        assert_eq!(harness.model.requests()[0].tools, ["find", "two__find"]);
        assert_eq!(harness.answers(run.id).await, [json!({ "from": "one" }), json!({ "from": "two" })]);
        harness.close().await;
    }
}
