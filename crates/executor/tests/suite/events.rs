//! Following a run while it is active, and after its end.

use crate::support;

use std::{pin::pin, time::Duration};

use emergent_domain::run_event::{RunEvent, RunEventBody};
use emergent_executor::{Error, Executor};
use emergent_store::Engine;
use emergent_testkit::{
    TestDb, both_engines,
    scripted::{ScriptedModel, ScriptedReply, calls, hangs, says},
};
use futures_util::{Stream, StreamExt};
use serde_json::json;
use support::{Harness, HarnessOptions, agent, server::Server, until, with_tools};

/// A conversation with every kind of event.
fn script() -> Vec<ScriptedReply> {
    let pause = Duration::from_millis(20);
    let look = |n: usize| calls("entities_query", json!({ "type": format!("T{n}") })).with_delay(pause);
    let mut script: Vec<ScriptedReply> =
        (0..5).map(|n| look(n).and(calls("project_info", json!({ "n": n })))).collect();
    script.push(says("All of it is done.").with_delay(pause));
    script
}

async fn harness(db: &TestDb) -> (Harness, emergent_domain::agent::Agent) {
    let harness = Harness::open(db, ScriptedModel::new(script())).await;
    let looker = harness.agent(with_tools("looker", &["entities_query", "project_info"])).await;
    (harness, looker)
}

/// Collects all events until the stream closes.
async fn all(stream: impl Stream<Item = Result<RunEvent, Error>>) -> Vec<RunEvent> {
    let collected = tokio::time::timeout(Duration::from_secs(20), stream.collect::<Vec<_>>()).await;
    collected.expect("the stream ends").into_iter().map(Result::unwrap).collect()
}

fn lasting(events: &[RunEvent]) -> Vec<i64> {
    events.iter().filter_map(|event| event.seq).collect()
}

/// Checks that each `seq` occurs once, in order and without gaps, and that the end comes last.
#[track_caller]
fn assert_whole(events: &[RunEvent], after: i64) {
    let seqs = lasting(events);
    let expected: Vec<i64> = (after + 1..=after + i64::try_from(seqs.len()).unwrap()).collect();
    assert_eq!(seqs, expected);
    assert!(matches!(events.last().unwrap().body, RunEventBody::Ended { .. }), "{:?}", events.last());
}

both_engines! {
    async fn a_follower_hears_everything_in_order_and_once_and_the_stream_ends_with_the_run(db: TestDb) {
        let (harness, looker) = harness(&db).await;
        let run = harness.start(&looker, "Go.").await;
        let events = all(harness.executor.follow(harness.project, run.id, 0)).await;
        assert_whole(&events, 0);
        let recorded = harness.events(run.id).await;
        let bodies = |events: &[RunEvent]| events.iter().filter(|event| event.seq.is_some())
            .map(|event| (event.seq, event.body.kind())).collect::<Vec<_>>();
        assert_eq!(bodies(&events), bodies(&recorded), "live and recorded are the same");
        harness.close().await;
    }

    async fn what_the_model_says_is_heard_while_it_speaks(db: TestDb) {
        let (harness, looker) = harness(&db).await;
        let run = harness.start(&looker, "Go.").await;
        let events = all(harness.executor.follow(harness.project, run.id, 0)).await;
        let spoken: String = events.iter().filter_map(|event| match &event.body {
            RunEventBody::TextDelta { text, step: 6 } => Some(text.as_str()),
            _ => None,
        }).collect();
        assert_eq!(spoken, "All of it is done.");
        let first_delta = events.iter().position(|event| matches!(event.body, RunEventBody::TextDelta { .. })).unwrap();
        assert!(events[first_delta + 1..].iter().any(|event| matches!(event.body, RunEventBody::Message(_))), "before the message");
        assert!(events[first_delta].seq.is_none(), "what is only live has no place");
        harness.close().await;
    }

    async fn a_follower_that_comes_back_after_any_event_misses_nothing_and_sees_nothing_twice(db: TestDb) {
        let (harness, looker) = harness(&db).await;
        let run = harness.start(&looker, "Go.").await;
        let mut last = 0;
        let mut events = Vec::new();
        // The client reads two events, loses its connection, and reconnects with the last id it received.
        loop {
            let mut stream = pin!(harness.executor.follow(harness.project, run.id, last));
            let mut read = 0;
            while let Some(event) = stream.next().await {
                let event = event.unwrap();
                if let Some(seq) = event.seq {
                    (last, read) = (seq, read + 1);
                    events.push(event);
                }
                if read == 2 {
                    break;
                }
            }
            if read < 2 {
                break;
            }
        }
        assert_whole(&events, 0);
        assert_eq!(events.len(), harness.events(run.id).await.len());
        harness.close().await;
    }

    async fn of_a_run_that_has_ended_everything_is_told_and_then_the_stream_ends(db: TestDb) {
        let (harness, looker) = harness(&db).await;
        let run = harness.run(&looker, "Go.").await;
        let events = all(harness.executor.follow(harness.project, run.id, 0)).await;
        assert_whole(&events, 0);
        let later = all(harness.executor.follow(harness.project, run.id, 5)).await;
        assert_whole(&later, 5);
        assert!(all(harness.executor.follow(harness.project, run.id, run.seq)).await.is_empty(), "nothing is left");
        harness.close().await;
    }

    async fn a_cancel_is_heard_at_once(db: TestDb) {
        let harness = Harness::open(&db, ScriptedModel::new([hangs()])).await;
        let worker = harness.agent(agent("worker")).await;
        let run = harness.start(&worker, "Go.").await;
        until("it is asked", async || harness.model.open() == 1).await;
        let following = tokio::spawn(all(harness.executor.follow(harness.project, run.id, 0)));
        let started_at = std::time::Instant::now();
        harness.executor.cancel(harness.actor(), run.id).await.unwrap();
        let events = following.await.unwrap();
        assert_whole(&events, 0);
        assert!(started_at.elapsed() < Duration::from_millis(900), "{:?}", started_at.elapsed());
        harness.close().await;
    }

    async fn a_run_that_waits_is_followed_from_before_its_start(db: TestDb) {
        let harness = Harness::build(&db, HarnessOptions::new(ScriptedModel::new([says("Done.")]))).await;
        let worker = harness.agent(agent("worker")).await;
        let run = harness.start(&worker, "Go.").await;
        let following = tokio::spawn(all(harness.executor.follow(harness.project, run.id, 0)));
        let harness = harness.staffed();
        assert_whole(&following.await.unwrap(), 0);
        harness.close().await;
    }

    async fn many_followers_hear_the_same(db: TestDb) {
        let (harness, looker) = harness(&db).await;
        let run = harness.start(&looker, "Go.").await;
        let follow = |executor: Executor| tokio::spawn(all(executor.follow(harness.project, run.id, 0)));
        let following: Vec<_> = (0..20).map(|_| follow(harness.executor.clone())).collect();
        for events in following {
            assert_whole(&events.await.unwrap(), 0);
        }
        harness.close().await;
    }

    async fn a_follower_that_is_slow_catches_up_from_the_record(db: TestDb) {
        // There are more deltas than the channel buffers for a slow subscriber.
        let words = says("word ".repeat(2_000)).and(calls("project_info", json!({})));
        let harness = Harness::open(&db, ScriptedModel::new([words, says("Done.")])).await;
        let talker = harness.agent(with_tools("talker", &["project_info"])).await;
        let run = harness.start(&talker, "Go.").await;
        let mut stream = pin!(harness.executor.follow(harness.project, run.id, 0));
        let mut events = vec![stream.next().await.unwrap().unwrap()];
        harness.ended(run.id).await;
        events.extend(all(stream).await);
        assert_whole(&events, 0);
        harness.close().await;
    }

    async fn a_run_of_another_project_is_not_told_of(db: TestDb) {
        let (harness, looker) = harness(&db).await;
        let run = harness.run(&looker, "Go.").await;
        let other = harness.executor.graph().create_project("other", false).await.unwrap().id;
        let mut stream = pin!(harness.executor.follow(other, run.id, 0));
        assert!(matches!(stream.next().await, Some(Err(Error::NotFound { .. }))));
        assert!(stream.next().await.is_none(), "an error is the end");
        harness.close().await;
    }

    async fn another_servers_run_is_followed_as_well(db: TestDb) {
        if db.engine() == Engine::Sqlite {
            // SQLite supports only one server.
            return;
        }
        let there = Server::open(&db, HarnessOptions::new(ScriptedModel::new(script()))).await;
        let here = Harness::build(&db, HarnessOptions::new(ScriptedModel::new([]))).await;
        let looker = here.agent(with_tools("looker", &["entities_query", "project_info"])).await;
        let run = here.start(&looker, "Go.").await;
        let events = all(here.executor.follow(here.project, run.id, 0)).await;
        assert_whole(&events, 0);
        assert_eq!(events.len(), here.events(run.id).await.len());
        drop(there);
    }
}
