//! Answers that reach the maximum length, and answers without any content.

use crate::support;

use emergent_domain::{
    run::{Reason, Run, RunStatus},
    run_event::RunEventBody,
};
use emergent_executor::StartOptions;
use emergent_testkit::{
    TestDb, both_engines,
    scripted::{ScriptedModel, ScriptedReply, calls, says},
};
use serde_json::json;
use support::{Harness, assert_ended, with_tools};

async fn play(db: &TestDb, script: Vec<ScriptedReply>) -> (Run, Harness) {
    let harness = Harness::open(db, ScriptedModel::new(script)).await;
    let writer = harness.agent(with_tools("writer", &["entities_query", "entities_create"])).await;
    let run = harness.run(&writer, "Write.").await;
    (run, harness)
}

/// As `play`, with a limit of one step.
async fn play_one_step(db: &TestDb, script: Vec<ScriptedReply>) -> (Run, Harness) {
    let harness = Harness::open(db, ScriptedModel::new(script)).await;
    let writer = harness.agent(with_tools("writer", &["entities_query"])).await;
    let start = StartOptions { input: "Look.".into(), max_steps: Some(1), ..StartOptions::default() };
    let run = harness.run_with(&writer, start).await;
    (run, harness)
}

async fn incomplete(harness: &Harness, run: &Run) -> Vec<Reason> {
    let reason =
        |body| if let RunEventBody::AnswerIncomplete { reason, .. } = body { Some(reason) } else { None };
    harness.events(run.id).await.into_iter().filter_map(|event| reason(event.body)).collect()
}

both_engines! {
    async fn a_truncated_answer_is_continued(db: TestDb) {
        let (run, harness) = play(&db, vec![says("One, two, ").truncated(), says("three.")]).await;
        assert_ended(&run, RunStatus::Completed, None);
        assert_eq!((run.summary.as_deref(), run.step_count), (Some("One, two, three."), 1));
        assert_eq!(incomplete(&harness, &run).await, [Reason::Truncated], "the record shows it");
        let timeline = harness.timeline(run.id).await;
        assert!(timeline.contains("1 user: [truncated]"), "{timeline}");
        let request = harness.model.requests().pop().unwrap();
        assert_eq!(request.turns[1].text(), "One, two, ", "the model sees what it wrote");
        assert!(request.last_text().contains("Continue exactly where it stops"), "{}", request.last_text());
        harness.close().await;
    }

    async fn an_answer_that_never_ends_fails_with_its_text(db: TestDb) {
        let (run, harness) = play(&db, (0..4).map(|_| says("on ").truncated()).collect()).await;
        assert_ended(&run, RunStatus::Failed, Some(Reason::Truncated));
        assert_eq!(run.summary.as_deref(), Some("on on on on "));
        assert!(run.error.unwrap().contains("maxTokens"));
        assert_eq!(harness.model.requests().len(), 4);
        harness.close().await;
    }

    async fn a_truncated_answer_that_is_never_continued_fails_with_its_text(db: TestDb) {
        let (run, harness) = play(&db, vec![says("One, ").truncated(), says(""), says("")]).await;
        assert_ended(&run, RunStatus::Failed, Some(Reason::Truncated));
        assert_eq!((run.summary.as_deref(), run.step_count), (Some("One, "), 1));
        assert!(run.error.as_deref().unwrap().contains("did not continue it"), "{:?}", run.error);
        assert_eq!(incomplete(&harness, &run).await, [Reason::Truncated, Reason::Empty]);
        harness.close().await;
    }

    async fn a_truncated_answer_whose_continuation_was_empty_once_is_continued(db: TestDb) {
        let (run, harness) = play(&db, vec![says("One, ").truncated(), says(""), says("two.")]).await;
        assert_ended(&run, RunStatus::Completed, None);
        assert_eq!(run.summary.as_deref(), Some("One, two."));
        let request = harness.model.requests().pop().unwrap();
        assert!(request.turns.iter().all(|turn| !turn.text().is_empty()), "no empty turn is sent: {request:?}");
        harness.close().await;
    }

    async fn a_call_whose_arguments_were_truncated_is_not_made(db: TestDb) {
        let create = || calls("entities_create", json!({}));
        let whole = calls("entities_create", json!({ "objects": [{ "type": "Note", "key": "n" }] }));
        let first = calls("entities_query", json!({ "type": "T" })).and(create()).truncated();
        let (run, harness) = play(&db, vec![first, whole, says("Done.")]).await;
        assert_ended(&run, RunStatus::Completed, None);
        let answers = harness.answers(run.id).await;
        assert_eq!(answers.len(), 3);
        assert!(answers[0]["error"].is_null(), "the call before it is complete: {}", answers[0]);
        assert!(answers[1]["error"].as_str().unwrap().contains("arguments are incomplete"), "{}", answers[1]);
        assert!(answers[2]["error"].is_null(), "{}", answers[2]);
        harness.close().await;
    }

    async fn after_an_empty_answer_the_model_is_asked_once_more(db: TestDb) {
        let (run, harness) = play(&db, vec![says(""), says("Here it is.")]).await;
        assert_ended(&run, RunStatus::Completed, None);
        assert_eq!((run.summary.as_deref(), run.step_count), (Some("Here it is."), 1));
        assert_eq!(incomplete(&harness, &run).await, [Reason::Empty]);
        let request = harness.model.requests().pop().unwrap();
        assert!(request.turns.iter().all(|turn| !turn.text().is_empty()), "no empty turn is sent: {request:?}");
        harness.close().await;
    }

    async fn two_empty_answers_are_a_failure_with_what_is_known(db: TestDb) {
        let first = says("I look.").and(calls("entities_query", json!({ "type": "T" })));
        let (run, harness) = play(&db, vec![first, says(""), says(" ")]).await;
        assert_ended(&run, RunStatus::Failed, Some(Reason::Empty));
        assert_eq!(run.summary.as_deref(), Some("I look."));
        harness.close().await;
    }

    async fn a_truncated_summary_is_continued(db: TestDb) {
        let look = calls("entities_query", json!({ "type": "T" }));
        let (run, harness) = play_one_step(&db, vec![look, says("One, ").truncated(), says("two.")]).await;
        assert_ended(&run, RunStatus::Paused, Some(Reason::StepLimit));
        assert_eq!((run.summary.as_deref(), run.step_count), (Some("One, two."), 1));
        assert_eq!(incomplete(&harness, &run).await, [Reason::Truncated]);
        assert!(harness.model.requests().iter().skip(1).all(|request| request.tools.is_empty()));
        harness.close().await;
    }

    async fn a_summary_that_never_ends_is_what_is_known_and_the_record_says_so(db: TestDb) {
        let look = calls("entities_query", json!({ "type": "T" }));
        let script = [look].into_iter().chain((0..4).map(|_| says("on ").truncated())).collect();
        let (run, harness) = play_one_step(&db, script).await;
        assert_ended(&run, RunStatus::Paused, Some(Reason::StepLimit));
        assert_eq!(run.summary.as_deref(), Some("on on on on "));
        assert_eq!(incomplete(&harness, &run).await, [Reason::Truncated; 4]);
        harness.close().await;
    }

    async fn an_empty_summary_is_asked_for_once_more(db: TestDb) {
        let look = || calls("entities_query", json!({ "type": "T" }));
        let (run, harness) = play_one_step(&db, vec![look(), says(""), says("One query.")]).await;
        assert_ended(&run, RunStatus::Paused, Some(Reason::StepLimit));
        assert_eq!(run.summary.as_deref(), Some("One query."));
        assert_eq!(incomplete(&harness, &run).await, [Reason::Empty]);
        harness.close().await;
    }
}
