//! Conversations that outgrow the context window: the model sees a shortened version, while the record
//! stays complete.

use crate::support;

use std::time::Duration;

use emergent_domain::{
    chat::{Part, Speaker, Usage},
    run::{Reason, RunStatus},
    run_event::RunEventBody,
};
use emergent_executor::StartOptions;
use emergent_llm::Error;
use emergent_testkit::{
    TestDb, both_engines,
    scripted::{ModelRequest, ScriptedModel, ScriptedReply, calls, fails, hangs, says},
};
use emergent_tools::Effect;
use serde_json::json;
use support::{
    Harness, HarnessOptions, agent, assert_ended, server::Server, tools::Probe, until, with_tools,
};

/// The context window of the models in these tests; a conversation is shortened at three quarters of
/// it.
const WINDOW: u64 = 4_000;

/// A reply of a provider that counts no tokens, so that the length of the text decides.
fn uncounted(say: ScriptedReply) -> ScriptedReply {
    say.with_usage(Usage::default())
}

fn read(n: usize) -> ScriptedReply {
    uncounted(calls("read", json!({ "page": n })))
}

/// A reply that is long itself, so that dropping the results of its calls does not help.
fn long_reply(n: usize) -> ScriptedReply {
    uncounted(says(format!("{n} ").repeat(1_500)).and(calls("read", json!({ "page": n }))))
}

fn plan(model: &ScriptedModel, page_bytes: usize) -> HarnessOptions {
    let page = json!({ "text": "x".repeat(page_bytes) });
    let mut plan =
        HarnessOptions::new(model.clone()).tool(Probe::new("read", Effect::Reads).answers(page).build());
    plan.models = Some(model.models().with_window("scripted/", WINDOW));
    plan
}

async fn harness(
    db: &TestDb,
    script: Vec<ScriptedReply>,
    page_bytes: usize,
) -> (Harness, emergent_domain::agent::Agent) {
    let harness = Harness::with(db, plan(&ScriptedModel::new(script), page_bytes)).await;
    let reader = harness.agent(with_tools("reader", &["read"])).await;
    (harness, reader)
}

/// Returns how many bytes of tool results the model was shown.
fn shown(request: &ModelRequest) -> usize {
    let parts = request.turns.iter().flat_map(|turn| &turn.parts);
    parts.map(|part| if let Part::Result(result) = part { result.output.to_string().len() } else { 0 }).sum()
}

fn too_long() -> ScriptedReply {
    fails(Error::ContextTooLong { model: ScriptedModel::MODEL.into(), message: "too many tokens".into() })
}

both_engines! {
    async fn old_results_are_left_out_first_and_the_record_keeps_them(db: TestDb) {
        let script = (0..8).map(read).chain([says("Read.")]).collect();
        let (harness, reader) = harness(&db, script, 2_000).await;
        let run = harness.run(&reader, "Read it all.").await;
        assert_ended(&run, RunStatus::Completed, None);
        let timeline = harness.timeline(run.id).await;
        assert!(timeline.contains("compacted summarised=false"), "{timeline}");
        assert!(!timeline.contains("summarised=true"), "leaving out was enough");
        let last = harness.model.requests().pop().unwrap();
        let results: Vec<bool> = last.turns.iter().filter(|turn| turn.speaker == Speaker::Tools)
            .map(|turn| serde_json::to_string(turn).unwrap().contains("_left_out")).collect();
        assert!(results[0] && !results[7], "the old ones are gone, the newest is there: {results:?}");
        assert!(harness.calls(run.id).await.iter().all(|call| call.output.as_ref().unwrap().to_string().len() > 2_000));
        harness.close().await;
    }

    async fn then_everything_but_the_newest_turns_is_summed_up(db: TestDb) {
        let script = vec![long_reply(0), long_reply(1), long_reply(2), long_reply(3), says("What was read so far."), says("Done.")];
        let (harness, reader) = harness(&db, script, 10).await;
        let run = harness.run(&reader, "Read it all.").await;
        assert_ended(&run, RunStatus::Completed, None);
        assert_eq!(run.summary.as_deref(), Some("Done."));
        let requests = harness.model.requests();
        let request = requests.iter().find(|request| request.last_text().starts_with("The conversation so far")).unwrap();
        assert!(request.tools.is_empty());
        let last = requests.last().unwrap();
        assert!(last.turns[0].text().contains("What was read so far."), "{}", last.turns[0].text());
        assert!(last.turns.len() < request.turns.len() + 4);
        let timeline = harness.timeline(run.id).await;
        assert!(timeline.contains("[summary] What was read so far.") && timeline.contains("summarised=true"));
        assert_eq!(run.step_count, 5, "a summary is no step");
        assert_eq!(harness.calls(run.id).await.len(), 4, "the record is whole");
        harness.close().await;
    }

    async fn a_retry_while_the_conversation_is_summed_up_is_an_event(db: TestDb) {
        let wait = Duration::from_millis(100);
        let busy = Error::RateLimited { model: ScriptedModel::MODEL.into(), message: "slow down".into(), retry_after: Some(wait) };
        let script = (0..4).map(long_reply).chain([fails(busy), says("What was read so far."), says("Done.")]).collect();
        let (harness, reader) = harness(&db, script, 10).await;
        let run = harness.run(&reader, "Read it all.").await;
        assert_ended(&run, RunStatus::Completed, None);
        let retries: Vec<_> = harness.events(run.id).await.into_iter().filter_map(|event| match event.body {
            RunEventBody::ModelRetry { step, retry, .. } => Some((step, retry)),
            _ => None,
        }).collect();
        assert_eq!(retries.len(), 1, "{retries:?}");
        assert!(retries[0].1.wait_ms >= 100 && retries[0].1.error.contains("slow down"), "{retries:?}");
        harness.close().await;
    }

    async fn a_final_summary_that_is_too_long_is_asked_for_again_with_less(db: TestDb) {
        let summary = says("What was read so far.").with_delay(Duration::from_millis(50));
        let script = vec![long_reply(0), long_reply(1), hangs(), too_long(), summary, says("Two pages.")];
        let (harness, reader) = harness(&db, script, 10).await;
        let start = StartOptions { input: "Read.".into(), timeout_seconds: Some(1), ..StartOptions::default() };
        let run = harness.run_with(&reader, start).await;
        assert_ended(&run, RunStatus::Paused, Some(Reason::Timeout));
        assert_eq!(run.summary.as_deref(), Some("Two pages."));
        harness.close().await;
    }

    async fn a_provider_that_says_it_is_too_long_is_asked_again_with_less(db: TestDb) {
        let script = vec![read(0), read(1), read(2), read(3), too_long(), says("Done.")];
        let (harness, reader) = harness(&db, script, 1_500).await;
        let run = harness.run(&reader, "Read.").await;
        assert_ended(&run, RunStatus::Completed, None);
        let requests = harness.model.requests();
        assert!(shown(&requests[5]) < shown(&requests[4]), "{} {}", shown(&requests[5]), shown(&requests[4]));
        harness.close().await;
    }

    async fn a_provider_that_counts_less_than_there_is_is_believed_only_so_far(db: TestDb) {
        // The scripted model always reports 110 tokens, whatever the text.
        let script = vec![calls("read", json!({ "page": 0 })), calls("read", json!({ "page": 1 })),
            calls("read", json!({ "page": 2 })), calls("read", json!({ "page": 3 })), too_long(), says("Done.")];
        let (harness, reader) = harness(&db, script, 1_500).await;
        assert_ended(&harness.run(&reader, "Read.").await, RunStatus::Completed, None);
        harness.close().await;
    }

    async fn a_conversation_that_cannot_be_shortened_ends_the_run_and_does_not_loop(db: TestDb) {
        let (harness, reader) = harness(&db, vec![too_long(), too_long(), too_long()], 10).await;
        let run = harness.run(&reader, "Read.").await;
        assert_ended(&run, RunStatus::Failed, Some(Reason::Provider));
        assert_eq!(harness.model.requests().len(), 1);
        harness.close().await;
    }

    async fn a_provider_that_always_says_too_long_is_not_asked_for_ever(db: TestDb) {
        let script = (0..6).map(read).chain((0..30).map(|_| too_long())).collect();
        let (harness, reader) = harness(&db, script, 400).await;
        let run = harness.run(&reader, "Read.").await;
        assert_ended(&run, RunStatus::Failed, Some(Reason::Provider));
        assert!(harness.model.requests().len() < 14, "{}", harness.model.requests().len());
        harness.close().await;
    }

    async fn a_summary_that_does_not_come_leaves_the_conversation_as_it_is(db: TestDb) {
        let refused = fails(Error::BadRequest { model: ScriptedModel::MODEL.into(), status: 400, message: "no".into() });
        let script = vec![long_reply(0), long_reply(1), long_reply(2), long_reply(3), refused, says("Done.")];
        let (harness, reader) = harness(&db, script, 10).await;
        assert_ended(&harness.run(&reader, "Read.").await, RunStatus::Completed, None);
        harness.close().await;
    }

    async fn what_was_left_out_before_a_summary_stays_left_out_after_a_crash(db: TestDb) {
        let long = |n: usize| uncounted(says(format!("{n} ").repeat(700)).and(calls("read", json!({ "page": n }))));
        // The run decides whether it uses a reply as an answer or as a summary; each works as either.
        let model = ScriptedModel::new((0..14).map(long).chain([hangs()]));
        let server = Server::open(&db, plan(&model, 1_200)).await;
        let reader = server.harness.agent(with_tools("reader", &["read"])).await;
        let run = server.harness.start(&reader, "Read it all.").await;
        until("the last line hangs", async || model.requests().len() == 15 && model.open() == 1).await;
        let before = model.requests().pop().unwrap();
        let shortened: Vec<bool> = server.harness.events(run.id).await.iter().filter_map(|event| match event.body {
            RunEventBody::Compacted { summarised, .. } => Some(summarised),
            _ => None,
        }).collect();
        assert!(shortened.contains(&true) && shortened.contains(&false), "{shortened:?}");
        server.kill(&db, std::time::Duration::ZERO).await;
        let model = ScriptedModel::new([says("Done."), says("Done.")]);
        let harness = Harness::with(&db, plan(&model, 1_200)).await;
        harness.ended(run.id).await;
        assert_eq!(harness.model.requests().remove(0).turns, before.turns);
        harness.close().await;
    }

    async fn a_short_conversation_is_left_alone(db: TestDb) {
        let (harness, _) = harness(&db, vec![says("Hello.")], 10).await;
        let greeter = harness.agent(agent("greeter")).await;
        let run = harness.run(&greeter, "Hi.").await;
        assert!(!harness.timeline(run.id).await.contains("compacted"));
        harness.close().await;
    }
}
