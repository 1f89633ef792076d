//! Runs that repeat themselves.

use crate::support;

use std::sync::atomic::{AtomicI64, Ordering};

use emergent_domain::{
    run::{Reason, Run, RunStatus, ToolCallStatus},
    run_event::RunEventBody,
};
use emergent_testkit::{
    TestDb, both_engines,
    scripted::{ScriptedModel, ScriptedReply, calls, says},
};
use emergent_tools::Effect;
use serde_json::{Value, json};
use support::{Harness, HarnessOptions, assert_ended, tools::Probe, with_tools};

fn warning(tool: &str) -> String {
    format!(
        "LOOP DETECTED: You have called {tool} with identical arguments 3 times. This tool call will not be \
         executed. Please try a different approach or summarize your progress so far. If you go on with this loop, \
         your run ends."
    )
}

/// Runs the replies with the tools `a` and `b`. Returns the run, how often `a` was called, and the
/// harness.
async fn play(db: &TestDb, script: Vec<ScriptedReply>) -> (Run, usize, Harness) {
    let a = Probe::new("a", Effect::Reads).build();
    let b = Probe::new("b", Effect::Reads).build();
    let harness =
        Harness::with(db, HarnessOptions::new(ScriptedModel::new(script)).tool(a.clone()).tool(b)).await;
    let agent = harness.agent(with_tools("circler", &["a", "b", "entities_query"])).await;
    let run = harness.run(&agent, "Go.").await;
    (run, a.called(), harness)
}

fn a() -> ScriptedReply {
    calls("a", json!({ "x": 1 }))
}

fn b() -> ScriptedReply {
    calls("b", json!({}))
}

async fn loops(harness: &Harness, run: &Run) -> i64 {
    harness.executor.run_detail(harness.project, run.id).await.unwrap().loops
}

fn error(output: &Value) -> &str {
    output["error"].as_str().unwrap_or_default()
}

both_engines! {
    async fn the_third_identical_call_is_answered_with_the_warning_instead_of_being_made(db: TestDb) {
        let (run, call_count, harness) = play(&db, vec![a(), a(), a(), says("I stop.")]).await;
        assert_ended(&run, RunStatus::Completed, None);
        assert_eq!(call_count, 2);
        let recorded_calls = harness.calls(run.id).await;
        assert_eq!(recorded_calls[2].status, ToolCallStatus::Error);
        assert_eq!(error(recorded_calls[2].output.as_ref().unwrap()), warning("a"));
        assert!(harness.model.requests()[3].last_text().contains("LOOP DETECTED"), "the model reads it");
        assert_eq!(loops(&harness, &run).await, 1);
        harness.close().await;
    }

    async fn the_fourth_identical_call_ends_the_run(db: TestDb) {
        let thinking = says("Once more.").and(a());
        let (run, call_count, harness) = play(&db, vec![a(), a(), a(), thinking]).await;
        assert_ended(&run, RunStatus::Failed, Some(Reason::DoomLoop));
        assert_eq!(call_count, 2);
        assert_eq!(run.summary.as_deref(), Some("Once more."), "what is known is kept");
        assert!(run.error.as_deref().unwrap().contains("`a`"), "{:?}", run.error);
        assert_eq!(loops(&harness, &run).await, 2);
        let looped: Vec<_> = harness.events(run.id).await.into_iter().filter_map(|event| match event.body {
            RunEventBody::LoopDetected { tool, count, .. } => Some((tool, count)),
            _ => None,
        }).collect();
        assert_eq!(looped, [("a".to_owned(), 3), ("a".to_owned(), 4)]);
        assert!(harness.calls(run.id).await.iter().all(|call| call.status.is_terminal()), "no call is left open");
        harness.close().await;
    }

    async fn short_cycles_count_as_well(db: TestDb) {
        let (run, call_count, harness) = play(&db, vec![a(), b(), a(), b(), a(), b(), a(), b()]).await;
        assert_ended(&run, RunStatus::Failed, Some(Reason::DoomLoop));
        let calls = harness.calls(run.id).await;
        assert!(error(calls[5].output.as_ref().unwrap()).starts_with("LOOP DETECTED"), "the sixth is warned about");
        assert!(call_count <= 4, "{call_count}");
        assert_eq!(loops(&harness, &run).await, 2);
        harness.close().await;
    }

    async fn arguments_are_compared_by_value_and_not_by_how_they_are_written(db: TestDb) {
        let written = |text: &str| calls("a", serde_json::from_str(text).unwrap());
        let script = vec![
            written(r#"{"x":1,"y":[1,{"p":2,"q":3}]}"#),
            written(r#"{ "y": [1.0, {"q":3,"p":2}], "x": 1 }"#),
            written(r#"{"y":[1,{"p":2,"q":3}],"x":1.0}"#),
            says("I stop."),
        ];
        let (run, call_count, harness) = play(&db, script).await;
        assert_eq!((call_count, loops(&harness, &run).await), (2, 1));
        harness.close().await;
    }

    async fn an_alias_does_not_hide_a_loop(db: TestDb) {
        let look = |name: &str| calls(name, json!({ "type": "T" }));
        let script = vec![look("entities_query"), look("query_entities"), look("list_objects"), says("I stop.")];
        let (run, _, harness) = play(&db, script).await;
        assert_eq!(loops(&harness, &run).await, 1);
        assert_eq!(error(&harness.answers(run.id).await[2]), warning("entities_query"));
        harness.close().await;
    }

    async fn tools_that_do_not_exist_are_one_loop_whatever_their_names_are(db: TestDb) {
        let names = ["ls", "cat", "open", "read", "grep", "find", "fetch", "load", "show", "scan", "dump", "list"];
        let (run, _, harness) = play(&db, names.into_iter().map(|name| calls(name, json!({ "path": name }))).collect()).await;
        assert_ended(&run, RunStatus::Failed, Some(Reason::DoomLoop));
        let answers = harness.answers(run.id).await;
        assert!(error(&answers[7]).starts_with("tool not found"), "{}", answers[7]);
        assert!(error(&answers[8]).starts_with("LOOP DETECTED: You have called tools that you do not have"), "{}", answers[8]);
        assert!(run.error.as_deref().unwrap().contains("tools that it does not have"), "{:?}", run.error);
        assert_eq!(run.step_count, 11, "a warning, one more try, and the end");
        harness.close().await;
    }

    async fn another_call_in_between_starts_the_count_anew(db: TestDb) {
        let (run, call_count, harness) = play(&db, vec![a(), a(), b(), a(), a(), says("Done.")]).await;
        assert_ended(&run, RunStatus::Completed, None);
        assert_eq!((call_count, loops(&harness, &run).await), (4, 0));
        harness.close().await;
    }

    async fn the_warning_holds_for_the_rest_of_the_run(db: TestDb) {
        let again = |n: i64| vec![a(), a(), a(), calls("b", json!({ "n": n }))];
        let (run, call_count, harness) = play(&db, (0..20).flat_map(again).collect()).await;
        assert_ended(&run, RunStatus::Failed, Some(Reason::DoomLoop));
        assert_eq!((call_count, run.step_count, loops(&harness, &run).await), (2, 5, 2));
        harness.close().await;
    }

    async fn polling_a_result_that_changes_is_not_ended(db: TestDb) {
        let polled = AtomicI64::new(0);
        let poll = Probe::new("poll", Effect::Reads)
            .replies(move |_| json!({ "progress": polled.fetch_add(1, Ordering::SeqCst) }))
            .build();
        let script = (0..12).map(|_| calls("poll", json!({}))).chain([says("Done.")]);
        let model = ScriptedModel::new(script);
        let harness = Harness::with(&db, HarnessOptions::new(model).tool(poll.clone())).await;
        let agent = harness.agent(with_tools("poller", &["poll"])).await;
        let run = harness.run(&agent, "Wait for it.").await;
        assert_ended(&run, RunStatus::Completed, None);
        assert_eq!((poll.called(), loops(&harness, &run).await), (11, 1), "it was warned once");
        harness.close().await;
    }

    async fn four_equal_calls_in_one_answer_do_not_end_the_run_before_the_model_reads_the_warning(db: TestDb) {
        let four = a().and(a()).and(a()).and(a());
        let (run, call_count, harness) = play(&db, vec![four, says("I stop.")]).await;
        assert_ended(&run, RunStatus::Completed, None);
        assert_eq!((call_count, loops(&harness, &run).await), (2, 2));
        assert!(harness.model.requests()[1].last_text().contains("LOOP DETECTED"), "the model reads it");
        harness.close().await;
    }

    async fn an_answer_that_goes_on_after_the_warning_ends_the_run_whatever_it_has_besides(db: TestDb) {
        let four = a().and(a()).and(a()).and(a());
        let (run, call_count, harness) = play(&db, vec![four, b().and(a())]).await;
        assert_ended(&run, RunStatus::Failed, Some(Reason::DoomLoop));
        assert_eq!(call_count, 2);
        harness.close().await;
    }

    async fn calls_inside_one_message_count_too(db: TestDb) {
        let (run, call_count, harness) = play(&db, vec![a().and(a()).and(a()), says("I stop.")]).await;
        assert_ended(&run, RunStatus::Completed, None);
        assert_eq!((call_count, loops(&harness, &run).await), (2, 1));
        harness.close().await;
    }

    async fn a_tool_that_does_not_exist_ends_the_run_whatever_its_arguments_are(db: TestDb) {
        let (run, _, harness) = play(&db, (0..40).map(|n| calls("nosuch", json!({ "n": n }))).collect()).await;
        assert_ended(&run, RunStatus::Failed, Some(Reason::DoomLoop));
        assert_eq!((run.step_count, loops(&harness, &run).await), (11, 2));
        let answers = harness.answers(run.id).await;
        assert!(error(&answers[8]).contains("called tools that you do not have"), "{}", answers[8]);
        harness.close().await;
    }

    async fn arguments_that_are_never_valid_end_the_run(db: TestDb) {
        let wrong = |n: i64| calls("entities_query", json!({ "typ": format!("x{n}") }));
        let (run, _, harness) = play(&db, (0..40).map(wrong).collect()).await;
        assert_ended(&run, RunStatus::Failed, Some(Reason::DoomLoop));
        assert_eq!((run.step_count, loops(&harness, &run).await), (11, 2));
        harness.close().await;
    }

    async fn the_same_question_with_another_limit_ends_the_run(db: TestDb) {
        let look = |n: i64| calls("entities_query", json!({ "type": "Zzz", "limit": n }));
        let (run, _, harness) = play(&db, (1..40).map(look).collect()).await;
        assert_ended(&run, RunStatus::Failed, Some(Reason::DoomLoop));
        assert_eq!((run.step_count, loops(&harness, &run).await), (6, 2));
        harness.close().await;
    }

    async fn a_call_between_others_that_bring_nothing_new_ends_the_run(db: TestDb) {
        let look = |type_: String| calls("entities_query", json!({ "type": type_ }));
        let script = (0..40).flat_map(|n| [look("Zzz".into()), look(format!("Z{n}"))]).collect();
        let (run, _, harness) = play(&db, script).await;
        assert_ended(&run, RunStatus::Failed, Some(Reason::DoomLoop));
        assert_eq!((run.step_count, loops(&harness, &run).await), (11, 2));
        harness.close().await;
    }

    async fn a_model_that_mends_its_arguments_is_not_warned(db: TestDb) {
        let wrong = |n: i64| calls("entities_query", json!({ "typ": format!("x{n}") }));
        let right = calls("entities_query", json!({ "type": "Zzz" }));
        let (run, _, harness) = play(&db, vec![wrong(1), wrong(2), right, says("Done.")]).await;
        assert_ended(&run, RunStatus::Completed, None);
        assert_eq!(loops(&harness, &run).await, 0);
        harness.close().await;
    }
}
