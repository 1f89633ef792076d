//! Providers that fail: the kind of failure decides how the run ends.

use crate::support;

use std::time::{Duration, Instant};

use emergent_domain::{
    run::{Reason, RunStatus},
    run_event::RunEventBody,
};
use emergent_llm::Error;
use emergent_testkit::{
    TestDb, both_engines,
    scripted::{ScriptedModel, ScriptedReply, calls, fails, says},
};
use futures_util::StreamExt;
use serde_json::json;
use support::{Harness, agent, assert_ended, with_tools};

fn model() -> String {
    ScriptedModel::MODEL.to_owned()
}

fn rate_limited(retry_after: Option<Duration>) -> ScriptedReply {
    fails(Error::RateLimited { model: model(), message: "slow down".into(), retry_after })
}

/// Checks a failure that a retry cannot fix: the run ends at once, after a single model call.
async fn ends_at_once(db: &TestDb, error: Error, says: &str) {
    let harness = Harness::open(db, ScriptedModel::new([fails(error)])).await;
    let worker = harness.agent(agent("worker")).await;
    let run = harness.run(&worker, "Go.").await;
    assert_ended(&run, RunStatus::Failed, Some(Reason::Provider));
    assert!(run.error.as_deref().unwrap().contains(says), "{:?}", run.error);
    assert_eq!(harness.model.requests().len(), 1);
    harness.close().await;
}

both_engines! {
    async fn a_rate_limit_is_waited_out_as_long_as_the_provider_says(db: TestDb) {
        let asked_to_wait = Duration::from_millis(700);
        let harness = Harness::open(&db, ScriptedModel::new([rate_limited(Some(asked_to_wait)), says("Here.")])).await;
        let worker = harness.agent(agent("worker")).await;
        let started_at = Instant::now();
        let run = harness.run(&worker, "Go.").await;
        assert_ended(&run, RunStatus::Completed, None);
        assert!(started_at.elapsed() >= asked_to_wait, "{:?}", started_at.elapsed());
        assert_eq!((harness.model.requests().len(), run.step_count), (2, 1), "a second try is no second step");
        harness.close().await;
    }

    async fn a_retry_and_its_wait_are_an_event_of_the_run(db: TestDb) {
        let overloaded = Error::Overloaded { model: model(), message: "503".into(), source: None };
        let wait = Duration::from_millis(400);
        let script = [rate_limited(Some(wait)), fails(overloaded), says("Here.")];
        let harness = Harness::open(&db, ScriptedModel::new(script)).await;
        let worker = harness.agent(agent("worker")).await;
        let run = harness.run(&worker, "Go.").await;
        let retries: Vec<_> = harness.events(run.id).await.into_iter().filter_map(|event| match event.body {
            RunEventBody::ModelRetry { step, retry, .. } => Some((step, retry)),
            _ => None,
        }).collect();
        assert_eq!(retries.iter().map(|(step, retry)| (*step, retry.attempt)).collect::<Vec<_>>(), [(1, 1), (1, 2)]);
        assert!(retries[0].1.wait_ms >= 400 && retries[0].1.error.contains("slow down"), "{retries:?}");
        assert!(retries[1].1.error.contains("503"), "{retries:?}");
        harness.close().await;
    }

    async fn the_followers_of_a_parent_see_how_long_its_child_waits(db: TestDb) {
        let tasks = json!({ "tasks": [{ "agent_name": "worker", "task": "Work." }] });
        let model = ScriptedModel::default()
            .agent("lead", [calls("spawn_agents", tasks), says("Done.")])
            .agent("worker", [rate_limited(Some(Duration::from_millis(600))), says("Here.")]);
        let harness = Harness::open(&db, model).await;
        harness.agent(agent("worker")).await;
        let lead = harness.agent(with_tools("lead", &["spawn_agents"])).await;
        let run = harness.start(&lead, "Go.").await;
        let events: Vec<_> = harness.executor.follow(harness.project, run.id, 0).collect().await;
        let worker = harness.children(run.id).await.remove(0);
        let seen: Vec<_> = events.into_iter().map(Result::unwrap).filter_map(|event| match event.body {
            RunEventBody::ModelRetry { retry, child: Some(child), .. } => Some((event.run, event.seq, child, retry)),
            _ => None,
        }).collect();
        let [(of, seq, child, retry)] = &seen[..] else { panic!("{seen:?}") };
        assert_eq!((*of, *seq), (run.id, None), "it is in the record of the child, and streamed here");
        assert_eq!((child.run, child.agent.as_str()), (worker.id, "worker"));
        assert!(retry.wait_ms >= 600 && retry.error.contains("slow down"), "{retry:?}");
        let recorded = harness.events(run.id).await;
        assert!(!recorded.iter().any(|event| matches!(event.body, RunEventBody::ModelRetry { .. })));
        harness.close().await;
    }

    async fn a_provider_that_is_overloaded_is_asked_again(db: TestDb) {
        let overloaded = Error::Overloaded { model: model(), message: "503".into(), source: None };
        let harness = Harness::open(&db, ScriptedModel::new([fails(overloaded), says("Here.")])).await;
        let worker = harness.agent(agent("worker")).await;
        assert_ended(&harness.run(&worker, "Go.").await, RunStatus::Completed, None);
        harness.close().await;
    }

    async fn wrong_credentials_end_the_run_at_once(db: TestDb) {
        ends_at_once(&db, Error::Auth { model: model(), message: "wrong key".into() }, "wrong key").await;
    }

    async fn a_quota_that_is_used_up_ends_the_run_at_once(db: TestDb) {
        ends_at_once(&db, Error::Auth { model: model(), message: "out of credit".into() }, "out of credit").await;
    }

    async fn a_bad_request_ends_the_run_at_once(db: TestDb) {
        let error = Error::BadRequest { model: model(), status: 400, message: "no such model".into() };
        ends_at_once(&db, error, "no such model").await;
    }

    async fn an_answer_that_cannot_be_used_ends_the_run_at_once(db: TestDb) {
        ends_at_once(&db, Error::Malformed { model: model(), message: "no JSON".into() }, "no JSON").await;
    }

    async fn a_wait_that_is_longer_than_the_run_has_is_not_waited_for(db: TestDb) {
        let harness = Harness::open(&db, ScriptedModel::new([rate_limited(Some(Duration::from_secs(3_600)))])).await;
        let worker = harness.agent(agent("worker")).await;
        let run = harness.run(&worker, "Go.").await;
        assert_ended(&run, RunStatus::Failed, Some(Reason::Provider));
        harness.close().await;
    }

    async fn what_was_known_before_the_failure_is_kept(db: TestDb) {
        let first = says("I found one thing.").and(calls("project_info", json!({})));
        let auth = Error::Auth { model: model(), message: "no".into() };
        let harness = Harness::open(&db, ScriptedModel::new([first, fails(auth)])).await;
        let worker = harness.agent(with_tools("worker", &["project_info"])).await;
        let run = harness.run(&worker, "Go.").await;
        assert_ended(&run, RunStatus::Failed, Some(Reason::Provider));
        assert_eq!((run.summary.as_deref(), run.step_count), (Some("I found one thing."), 1));
        harness.close().await;
    }

    async fn an_agent_without_a_reachable_model_is_refused_when_it_is_started(db: TestDb) {
        let harness = Harness::open(&db, ScriptedModel::new([])).await;
        let mut definition = agent("elsewhere");
        definition.model = Some("anthropic/claude".parse().unwrap());
        let elsewhere = harness.agent(definition).await;
        let start = emergent_executor::StartOptions { input: "Go.".into(), ..Default::default() };
        let refused = harness.executor.trigger(harness.actor(), elsewhere.id, start).await.unwrap_err();
        let message = refused.to_string();
        assert!(matches!(refused, emergent_executor::Error::NoModel(_)), "{message}");
        assert!(message.contains("ANTHROPIC_API_KEY") && message.contains("EMERGENT_MODEL"), "both ways to fix it: {message}");
        harness.close().await;
    }
}
