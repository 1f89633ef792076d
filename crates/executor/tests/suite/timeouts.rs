//! The deadline of a run, and what happens when it passes. Timeouts are whole seconds, so each of these
//! tests takes at least one.

use crate::support;

use std::time::{Duration, Instant};

use emergent_domain::{
    agent::Agent,
    chat::Part,
    run::{Reason, Run, RunStatus, ToolCallStatus},
};
use emergent_executor::StartOptions;
use emergent_testkit::{
    TestDb, both_engines,
    scripted::{ModelRequest, ScriptedModel, ScriptedReply, calls, fails, hangs, hangs_after, replies, says},
};
use emergent_tools::Effect;
use prometheus_client::{encoding::text, registry::Registry};
use serde_json::json;
use support::{
    Harness, HarnessOptions, agent, assert_ended,
    tools::{EXTERNAL, Probe, WRITES},
    with_tools,
};

const GRACE: Duration = Duration::from_millis(300);

fn one_second() -> StartOptions {
    StartOptions { input: "Go.".into(), timeout_seconds: Some(1), ..StartOptions::default() }
}

async fn harness(db: &TestDb, script: Vec<ScriptedReply>) -> Harness {
    Harness::with(db, HarnessOptions::new(ScriptedModel::new(script)).grace(GRACE)).await
}

/// Runs an agent with a timeout of one second. Returns the run, and how long it took.
async fn a_second(harness: &Harness, agent: &Agent) -> (Run, Duration) {
    let started_at = Instant::now();
    let run = harness.run_with(agent, one_second()).await;
    (run, started_at.elapsed())
}

async fn interrupted(db: &TestDb, effect: Effect, hears: &str) {
    let tool = Probe::new("endless", effect).never_answers().build();
    let model = ScriptedModel::new([calls("endless", json!({})), says("It did not end.")]);
    let harness = Harness::with(db, HarnessOptions::new(model).grace(GRACE).tool(tool.clone())).await;
    let slow = harness.agent(with_tools("slow", &["endless"])).await;
    let (run, _) = a_second(&harness, &slow).await;
    assert_ended(&run, RunStatus::Paused, Some(Reason::Timeout));
    assert_eq!(run.summary.as_deref(), Some("It did not end."));
    let call = harness.calls(run.id).await.remove(0);
    assert_eq!(call.status, ToolCallStatus::Error);
    let told = call.output.unwrap();
    assert!(told["error"].as_str().unwrap().contains(hears), "{told}");
    assert_eq!(tool.at_work(), 0);
    harness.close().await;
}

both_engines! {
    async fn a_run_has_five_minutes_unless_its_definition_or_its_start_says_otherwise(db: TestDb) {
        let harness = Harness::build(&db, HarnessOptions::new(ScriptedModel::new([]))).await;
        let usual = harness.agent(agent("usual")).await;
        assert_eq!(harness.start(&usual, "Go.").await.timeout_seconds, 300);
        let mut definition = agent("patient");
        definition.default_timeout = Some(900);
        let patient = harness.agent(definition).await;
        assert_eq!(harness.start(&patient, "Go.").await.timeout_seconds, 900);
        let run = harness.executor.trigger(harness.actor(), patient.id, one_second()).await.unwrap();
        assert_eq!(run.timeout_seconds, 1);
    }

    async fn what_spawns_a_run_says_how_long_it_has_then_its_definition_then_the_default(db: TestDb) {
        let task = |agent: &str| json!({ "agent_name": agent, "task": "Work." });
        let mut named = task("patient");
        named["timeout"] = json!(40);
        let tasks = json!({ "tasks": [named, task("patient"), task("usual")] });
        let script = [calls("spawn_agents", tasks), says("Done.")];
        let model = ScriptedModel::default().agent("parent", script).agent("", [says("a"), says("b"), says("c")]);
        let harness = Harness::with(&db, HarnessOptions::new(model)).await;
        let mut definition = agent("patient");
        definition.default_timeout = Some(60);
        harness.agent(definition).await;
        harness.agent(agent("usual")).await;
        let parent = harness.agent(with_tools("parent", &["spawn_agents"])).await;
        let start = StartOptions { input: "Go.".into(), timeout_seconds: Some(3_600), ..StartOptions::default() };
        let run = harness.run_with(&parent, start).await;
        let given: Vec<i64> = harness.children(run.id).await.iter().map(|child| child.timeout_seconds).collect();
        assert_eq!(given, [40, 60, 300]);
        harness.close().await;
    }

    async fn a_child_has_no_more_time_than_its_parent_can_wait(db: TestDb) {
        let tasks = json!({ "tasks": [{ "agent_name": "worker", "task": "Work.", "timeout": 80_000 }] });
        let model = ScriptedModel::default()
            .agent("parent", [calls("spawn_agents", tasks), says("Done.")])
            .agent("worker", [says("Worked.")]);
        let harness = Harness::with(&db, HarnessOptions::new(model)).await;
        harness.agent(agent("worker")).await;
        let parent = harness.agent(with_tools("parent", &["spawn_agents"])).await;
        let run = harness.run(&parent, "Go.").await;
        let child = harness.children(run.id).await.remove(0);
        assert!(child.timeout_seconds <= 270, "{}", child.timeout_seconds);
        harness.close().await;
    }

    async fn at_the_deadline_the_model_is_told_and_has_the_grace_to_sum_up(db: TestDb) {
        let harness = harness(&db, vec![hangs(), says("Not much was done.")]).await;
        let slow = harness.agent(with_tools("slow", &["entities_query"])).await;
        let (run, took) = a_second(&harness, &slow).await;
        assert_ended(&run, RunStatus::Paused, Some(Reason::Timeout));
        assert_eq!(run.summary.as_deref(), Some("Not much was done."));
        assert!(took >= Duration::from_secs(1), "{took:?}");
        let last = harness.model.requests().pop().unwrap();
        assert!(last.tools.is_empty(), "tools are removed");
        assert!(last.last_text().starts_with("CRITICAL - TIME IS UP"), "{}", last.last_text());
        let timeline = harness.timeline(run.id).await;
        assert!(timeline.contains("limit timeout\n1 user: [timeout]\n1 assistant: Not much"), "{timeline}");
        harness.close().await;
    }

    async fn a_model_that_hangs_to_the_end_is_left_at_the_deadline_and_the_grace(db: TestDb) {
        let first = says("I begin.").and(calls("entities_query", json!({ "type": "T" })));
        let harness = harness(&db, vec![first, hangs(), hangs()]).await;
        let slow = harness.agent(with_tools("slow", &["entities_query"])).await;
        let (run, took) = a_second(&harness, &slow).await;
        assert_ended(&run, RunStatus::Paused, Some(Reason::Timeout));
        assert_eq!(run.summary.as_deref(), Some("I begin."), "it ends with what is known");
        assert!(took < Duration::from_secs(1) + GRACE + Duration::from_millis(700), "{took:?}");
        assert_eq!(harness.model.open(), 0, "no model call outlives the run");
        harness.close().await;
    }

    async fn text_that_was_streamed_before_the_timeout_is_the_summary(db: TestDb) {
        let harness = harness(&db, vec![hangs_after("Bees have fi"), hangs()]).await;
        let slow = harness.agent(agent("slow")).await;
        let (run, _) = a_second(&harness, &slow).await;
        assert_ended(&run, RunStatus::Paused, Some(Reason::Timeout));
        assert_eq!(run.summary.as_deref(), Some("Bees have fi"));
        harness.close().await;
    }

    async fn a_run_that_is_paused_before_its_model_wrote_anything_says_what_it_did(db: TestDb) {
        let harness = harness(&db, vec![calls("entities_query", json!({ "type": "T" })), hangs(), hangs()]).await;
        let slow = harness.agent(with_tools("slow", &["entities_query"])).await;
        let (run, _) = a_second(&harness, &slow).await;
        assert_ended(&run, RunStatus::Paused, Some(Reason::Timeout));
        let summary = run.summary.unwrap_or_default();
        assert!(summary.contains("timeout. It took 1 step and called `entities_query` (1);"), "{summary}");
        harness.close().await;
    }

    async fn a_provider_that_fails_in_the_grace_leaves_the_run_paused_all_the_same(db: TestDb) {
        let auth = emergent_llm::Error::Auth { model: ScriptedModel::MODEL.into(), message: "no".into() };
        let harness = harness(&db, vec![hangs(), fails(auth)]).await;
        let slow = harness.agent(agent("slow")).await;
        let (run, _) = a_second(&harness, &slow).await;
        assert_ended(&run, RunStatus::Paused, Some(Reason::Timeout));
        harness.close().await;
    }

    async fn a_summary_for_too_many_steps_is_bounded_by_the_deadline_and_the_grace(db: TestDb) {
        let harness = harness(&db, vec![calls("entities_query", json!({ "type": "T" })), hangs()]).await;
        let slow = harness.agent(with_tools("slow", &["entities_query"])).await;
        let started_at = Instant::now();
        let run = harness.run_with(&slow, StartOptions { max_steps: Some(1), ..one_second() }).await;
        assert_ended(&run, RunStatus::Paused, Some(Reason::StepLimit));
        assert!(started_at.elapsed() < Duration::from_secs(2), "{:?}", started_at.elapsed());
        harness.close().await;
    }

    async fn a_read_at_work_is_interrupted_at_the_deadline_and_the_model_hears_of_it(db: TestDb) {
        interrupted(&db, Effect::Reads, "the time of the run is up").await;
    }

    async fn a_write_that_is_being_prepared_is_interrupted_likewise(db: TestDb) {
        interrupted(&db, WRITES, "the time of the run is up").await;
    }

    async fn an_external_call_at_work_is_interrupted_and_its_effect_is_in_doubt(db: TestDb) {
        interrupted(&db, EXTERNAL, "Whether it took effect is not known").await;
    }

    async fn calls_that_had_not_begun_at_the_deadline_are_not_made(db: TestDb) {
        let slow = Probe::new("endless", WRITES).never_answers().build();
        let late = Probe::new("late", WRITES).build();
        let model = ScriptedModel::new([calls("endless", json!({})).and(calls("late", json!({}))), says("Stopped.")]);
        let harness = Harness::with(&db, HarnessOptions::new(model).grace(GRACE).tool(slow).tool(late.clone())).await;
        let agent = harness.agent(with_tools("slow", &["endless", "late"])).await;
        let (run, _) = a_second(&harness, &agent).await;
        assert_ended(&run, RunStatus::Paused, Some(Reason::Timeout));
        assert_eq!(late.called(), 0);
        assert!(harness.calls(run.id).await.iter().all(|call| call.status == ToolCallStatus::Error));
        harness.close().await;
    }

    async fn a_child_whose_own_time_is_up_is_paused_with_its_partial_result(db: TestDb) {
        let tasks = json!({ "tasks": [{ "agent_name": "worker", "task": "Work.", "timeout": 300 }] });
        let begun = says("I found one.").and(calls("entities_query", json!({ "type": "T" })));
        let model = ScriptedModel::default()
            .agent("parent", [calls("spawn_agents", tasks), says("It found one.")])
            .agent("worker", [begun, hangs(), hangs()]);
        // The child is still summing up when the time of its parent is up.
        let harness = Harness::with(&db, HarnessOptions::new(model).grace(Duration::from_secs(30))).await;
        harness.agent(with_tools("worker", &["entities_query"])).await;
        let parent = harness.agent(with_tools("parent", &["spawn_agents"])).await;
        let start = StartOptions { timeout_seconds: Some(2), ..one_second() };
        let run = harness.run_with(&parent, start).await;
        assert_ended(&run, RunStatus::Paused, Some(Reason::Timeout));
        let child = harness.children(run.id).await.remove(0);
        assert_ended(&child, RunStatus::Paused, Some(Reason::Timeout));
        assert_eq!(child.summary.as_deref(), Some("I found one."));
        let result = harness.answers(run.id).await.remove(0);
        assert_eq!((&result[0]["status"], &result[0]["summary"]), (&json!("paused"), &json!("I found one.")));
        let note = result[0]["note"].as_str().unwrap();
        assert!(note.contains("shortened from 300 to 1 seconds"), "{note}");
        harness.close().await;
    }

    async fn the_partial_result_of_a_child_joins_the_parts_of_its_answer(db: TestDb) {
        let tasks = json!({ "tasks": [{ "agent_name": "worker", "task": "Work." }] });
        let begun = says("I look.").and(calls("entities_query", json!({ "type": "T" })));
        let model = ScriptedModel::default()
            .agent("parent", [calls("spawn_agents", tasks), says("It found two.")])
            .agent("worker", [begun, says("I found one, ").truncated(), says("and two, ").truncated(), hangs(), hangs()]);
        let harness = Harness::with(&db, HarnessOptions::new(model).grace(Duration::from_secs(30))).await;
        harness.agent(with_tools("worker", &["entities_query"])).await;
        let parent = harness.agent(with_tools("parent", &["spawn_agents"])).await;
        let run = harness.run_with(&parent, StartOptions { timeout_seconds: Some(2), ..one_second() }).await;
        let child = harness.children(run.id).await.remove(0);
        assert_ended(&child, RunStatus::Paused, Some(Reason::Timeout));
        assert_eq!(child.summary.as_deref(), Some("I found one, and two, "));
        let mut registry = Registry::default();
        harness.executor.telemetry().register(&mut registry);
        let mut metrics = String::new();
        text::encode(&mut metrics, &registry).unwrap();
        let paused = r#"runs_total{status="paused",reason="timeout"} 2"#;
        assert!(metrics.contains(paused), "the child and its parent are counted: {metrics}");
        harness.close().await;
    }

    async fn a_resumed_child_has_the_time_of_its_definition_again(db: TestDb) {
        let task = json!({ "tasks": [{ "agent_name": "worker", "task": "Work.", "timeout": 1 }] });
        let again = |request: &ModelRequest| {
            let paused = request.turns.iter().flat_map(|turn| &turn.parts).find_map(|part| match part {
                Part::Result(result) => result.output[0]["run_id"].as_str().map(str::to_owned),
                _ => None,
            });
            calls("spawn_agents", json!({ "tasks": [{ "agent_name": "worker", "task": "Go on.", "resume_run_id": paused }] }))
        };
        let model = ScriptedModel::default()
            .agent("parent", [calls("spawn_agents", task), replies(again), says("Done.")])
            .agent("worker", [hangs(), says("Half."), says("Whole.")]);
        let harness = Harness::with(&db, HarnessOptions::new(model).grace(GRACE)).await;
        harness.agent(agent("worker")).await;
        let parent = harness.agent(with_tools("parent", &["spawn_agents"])).await;
        let run = harness.run(&parent, "Go.").await;
        let children = harness.children(run.id).await;
        let timeouts: Vec<i64> = children.iter().map(|child| child.timeout_seconds).collect();
        assert_eq!(children.iter().filter_map(|child| child.summary.as_deref()).collect::<Vec<_>>(), ["Half.", "Whole."]);
        assert!(timeouts[0] == 1 && timeouts[1] > 250, "{timeouts:?}");
        harness.close().await;
    }

    async fn children_are_stopped_at_their_parents_deadline(db: TestDb) {
        let tasks = json!({ "tasks": [{ "agent_name": "worker", "task": "Work." }] });
        let model = ScriptedModel::default()
            .agent("parent", [calls("spawn_agents", tasks), says("They were slow.")])
            .agent("worker", [hangs(), hangs()]);
        let harness = Harness::with(&db, HarnessOptions::new(model).grace(Duration::from_secs(30))).await;
        harness.agent(agent("worker")).await;
        let parent = harness.agent(with_tools("parent", &["spawn_agents"])).await;
        let (run, _) = a_second(&harness, &parent).await;
        assert_ended(&run, RunStatus::Paused, Some(Reason::Timeout));
        let child = harness.children(run.id).await.remove(0);
        assert!(child.status.is_terminal(), "{child:?}");
        assert!(child.completed_at <= run.completed_at);
        harness.close().await;
    }
}
