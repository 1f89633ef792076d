//! Cancelling a run.

use crate::support;

use std::time::{Duration, Instant};

use emergent_domain::{
    author::Author,
    run::{Run, RunStatus},
    run_event::RunEventBody,
};
use emergent_executor::Error;
use emergent_graph::Actor;
use emergent_store::{
    Engine,
    runs::{claim, record},
};
use emergent_testkit::{
    TestDb, both_engines,
    scripted::{ScriptedModel, ScriptedReply, calls, hangs, says},
};
use emergent_tools::Effect;
use serde_json::json;
use support::{
    Harness, HarnessOptions, agent, assert_ended,
    server::{Server, content},
    tools::{EXTERNAL, Probe},
    until, with_tools,
};

fn spawn(agent: &str, count: usize) -> ScriptedReply {
    let tasks: Vec<_> = (0..count).map(|_| json!({ "agent_name": agent, "task": "Work." })).collect();
    calls("spawn_agents", json!({ "tasks": tasks }))
}

/// Cancels a run and checks that its whole tree stops within a second and that nothing is written
/// afterwards.
async fn stops_for_good(db: &TestDb, harness: &Harness, run: &Run, at_work: impl Fn() -> usize) {
    let started_at = Instant::now();
    let cancelled = harness.executor.cancel(harness.actor(), run.id).await.unwrap();
    assert_ended(&cancelled, RunStatus::Cancelled, None);
    until("nothing is at work", async || at_work() == 0 && harness.executor.driven_count() == 0).await;
    assert!(started_at.elapsed() < Duration::from_secs(1), "{:?}", started_at.elapsed());
    let before = content(db).await;
    tokio::time::sleep(Duration::from_millis(1_200)).await;
    assert_eq!(content(db).await, before);
}

both_engines! {
    async fn a_tree_in_the_middle_of_its_model_calls_stops_at_once_and_writes_nothing_more(db: TestDb) {
        let model = ScriptedModel::default()
            .agent("parent", [spawn("worker", 20)])
            .agent("worker", (0..20).map(|_| says("Too late.").with_delay(Duration::from_millis(2_000))));
        let harness = Harness::open(&db, model).await;
        harness.agent(agent("worker")).await;
        let parent = harness.agent(with_tools("parent", &["spawn_agents"])).await;
        let run = harness.start(&parent, "Go.").await;
        until("sixteen children are asked", async || harness.model.open() == 16).await;
        stops_for_good(&db, &harness, &run, || harness.model.open()).await;
        let children = harness.children(run.id).await;
        assert_eq!(children.len(), 16, "those that waited were never started");
        assert!(children.iter().all(|child| child.status == RunStatus::Cancelled));
        harness.close().await;
    }

    async fn a_tree_in_the_middle_of_its_tool_calls_stops_likewise(db: TestDb) {
        let slow = Duration::from_millis(2_000);
        let look = Probe::new("look", Effect::Reads).taking(slow).build();
        let send = Probe::new("send", EXTERNAL).taking(slow).build();
        let write = json!({ "objects": [{ "type": "Late" }] });
        let model = ScriptedModel::default()
            .agent("parent", [spawn("looker", 1).and(spawn("sender", 1))])
            .agent("looker", [calls("look", json!({})).and(calls("entities_create", write.clone()))])
            .agent("sender", [calls("send", json!({})).and(calls("entities_create", write))]);
        let harness = Harness::with(&db, HarnessOptions::new(model).tool(look.clone()).tool(send.clone())).await;
        harness.agent(with_tools("looker", &["look", "entities_create"])).await;
        harness.agent(with_tools("sender", &["send", "entities_create"])).await;
        let parent = harness.agent(with_tools("parent", &["spawn_agents"])).await;
        let run = harness.start(&parent, "Go.").await;
        until("the tool is at work", async || look.at_work() == 1).await;
        stops_for_good(&db, &harness, &run, || look.at_work() + send.at_work()).await;
        assert_eq!(send.called(), 0, "the second call of the message never began");
        harness.close().await;
    }

    async fn grandchildren_are_reached_as_well(db: TestDb) {
        let model = ScriptedModel::default()
            .agent("parent", [spawn("middle", 2)])
            .agent("middle", [spawn("leaf", 2), spawn("leaf", 2)])
            .agent("leaf", (0..4).map(|_| hangs()));
        let harness = Harness::open(&db, model).await;
        let mut middle = with_tools("middle", &["spawn_agents"]);
        middle.config.insert("allow_delegation".into(), json!(true));
        harness.agent(middle).await;
        harness.agent(agent("leaf")).await;
        let parent = harness.agent(with_tools("parent", &["spawn_agents"])).await;
        let run = harness.start(&parent, "Go.").await;
        until("all leaves are asked", async || harness.model.open() == 4).await;
        harness.executor.cancel(harness.actor(), run.id).await.unwrap();
        until("no model is asked", async || harness.model.open() == 0).await;
        for child in harness.children(run.id).await {
            assert_ended(&child, RunStatus::Cancelled, None);
            for leaf in harness.children(child.id).await {
                assert_ended(&leaf, RunStatus::Cancelled, None);
            }
        }
        harness.close().await;
    }

    async fn a_cancelled_child_is_a_result_and_its_parent_goes_on(db: TestDb) {
        let model = ScriptedModel::default()
            .agent("parent", [spawn("worker", 2), says("One came back.")])
            .agent("worker", [hangs(), says("Worked.")]);
        let harness = Harness::open(&db, model).await;
        harness.agent(agent("worker")).await;
        let parent = harness.agent(with_tools("parent", &["spawn_agents"])).await;
        let run = harness.start(&parent, "Go.").await;
        until("one child hangs and one is done", async || {
            let children = harness.children(run.id).await;
            children.iter().filter(|child| child.status == RunStatus::Completed).count() == 1
        }).await;
        let children = harness.children(run.id).await;
        let hanging = children.iter().find(|child| !child.status.is_terminal()).unwrap();
        harness.executor.cancel(harness.actor(), hanging.id).await.unwrap();
        assert_ended(&harness.ended(run.id).await, RunStatus::Completed, None);
        harness.close().await;
    }

    async fn a_queued_run_is_cancelled_without_ever_starting(db: TestDb) {
        let harness = Harness::build(&db, HarnessOptions::new(ScriptedModel::new([says("Never.")]))).await;
        let worker = harness.agent(agent("worker")).await;
        let run = harness.start(&worker, "Go.").await;
        harness.executor.cancel(harness.actor(), run.id).await.unwrap();
        let harness = harness.staffed();
        let other = harness.run(&worker, "Go.").await;
        assert_ended(&other, RunStatus::Completed, None);
        let run = harness.ended(run.id).await;
        assert_eq!((run.status, run.started_at), (RunStatus::Cancelled, None));
        harness.close().await;
    }

    async fn a_run_that_has_ended_cannot_be_cancelled(db: TestDb) {
        let harness = Harness::open(&db, ScriptedModel::new([says("Done.")])).await;
        let worker = harness.agent(agent("worker")).await;
        let run = harness.run(&worker, "Go.").await;
        let before = content(&db).await;
        let refused = harness.executor.cancel(harness.actor(), run.id).await.unwrap_err();
        assert!(matches!(&refused, Error::Conflict(why) if why.contains("completed")), "{refused}");
        assert_eq!(content(&db).await, before);
        harness.close().await;
    }

    async fn another_projects_run_cannot_be_cancelled(db: TestDb) {
        let harness = Harness::open(&db, ScriptedModel::new([hangs()])).await;
        let worker = harness.agent(agent("worker")).await;
        let run = harness.start(&worker, "Go.").await;
        let project = harness.executor.graph().create_project("other", false).await.unwrap().id;
        let stranger = Actor { project, author: Author::System };
        let refused = harness.executor.cancel(stranger, run.id).await.unwrap_err();
        assert!(matches!(refused, Error::NotFound { .. }), "{refused}");
        harness.executor.cancel(harness.actor(), run.id).await.unwrap();
        harness.close().await;
    }

    async fn nothing_overwrites_a_terminal_status(db: TestDb) {
        let harness = Harness::open(&db, ScriptedModel::new([hangs()])).await;
        let worker = harness.agent(agent("worker")).await;
        let run = harness.start(&worker, "Go.").await;
        until("the model is asked", async || harness.model.open() == 1).await;
        let cancelled = harness.executor.cancel(harness.actor(), run.id).await.unwrap();
        let owner = cancelled.owner.clone().unwrap();
        // The old driver tries to end the run after all, and another runner tries to claim it.
        let (id, project, now, seq) = (cancelled.id, cancelled.project, cancelled.created_at, cancelled.seq);
        let late = db.write(move |tx| {
            let end = emergent_domain::run::RunEnd::completed("Too late.");
            let late = record::Advance { run: id, owner: &owner, last_seq: seq, seq, steps: 1 };
            let ended = record::mark_ended(tx, late, &end, now)?.is_some();
            let moved = record::advance(tx, id, &owner, seq, seq + 1, 1)?;
            let queued = claim::lock_queued(tx, project, 10)?;
            let orphaned = claim::lock_orphaned(tx, "other", &[], now, 10)?;
            Ok::<_, emergent_store::Error>((ended, moved, queued.len(), orphaned.len()))
        });
        assert_eq!(late.await.unwrap(), (false, false, 0, 0));
        assert_eq!(harness.ended(run.id).await, cancelled);
        harness.close().await;
    }

    async fn of_a_cancel_and_an_end_at_the_same_time_one_wins(db: TestDb) {
        let harness = Harness::open(&db, ScriptedModel::new((0..20).map(|_| says("Done.").with_delay(Duration::from_millis(5))))).await;
        let worker = harness.agent(agent("worker")).await;
        for _ in 0..20 {
            let run = harness.start(&worker, "Go.").await;
            tokio::time::sleep(Duration::from_millis(5)).await;
            let cancelled = harness.executor.cancel(harness.actor(), run.id).await;
            let run = harness.ended(run.id).await;
            match cancelled {
                Ok(_) => assert_ended(&run, RunStatus::Cancelled, None),
                Err(Error::Conflict(_)) => assert_ended(&run, RunStatus::Completed, None),
                Err(other) => panic!("{other}"),
            }
            let ends = harness.events(run.id).await.into_iter()
                .filter(|event| matches!(event.body, RunEventBody::Ended { .. })).count();
            assert_eq!(ends, 1, "a run ends once");
        }
        harness.close().await;
    }

    async fn a_run_that_another_server_drives_is_stopped_there(db: TestDb) {
        if db.engine() == Engine::Sqlite {
            // SQLite supports only one server.
            return;
        }
        let model = ScriptedModel::new([hangs()]);
        let there = Server::open(&db, HarnessOptions::new(model.clone())).await;
        let here = Harness::build(&db, HarnessOptions::new(ScriptedModel::new([]))).await;
        let worker = here.agent(agent("worker")).await;
        let run = here.start(&worker, "Go.").await;
        until("the model is asked there", async || model.open() == 1).await;
        let started_at = Instant::now();
        here.executor.cancel(here.actor(), run.id).await.unwrap();
        until("it stops there", async || model.open() == 0).await;
        assert!(started_at.elapsed() < Duration::from_secs(1), "{:?}", started_at.elapsed());
        drop(there);
    }

    async fn the_log_names_each_run_that_the_deletion_of_its_project_cancelled(db: TestDb) {
        let logs = crate::logs::capture();
        let mut harness = Harness::open(&db, ScriptedModel::new([hangs(), hangs()])).await;
        harness.project = harness.executor.graph().create_project("other", false).await.unwrap().id;
        let worker = harness.agent(agent("worker")).await;
        let runs = [harness.start(&worker, "Go.").await.id, harness.start(&worker, "Go.").await.id];
        until("both are driven", async || harness.model.open() == 2).await;
        harness.executor.graph().delete_project(harness.project).await.unwrap();
        for run in runs {
            until("its cancellation is logged", async || {
                logs.lines_with(&format!("run `{run}` was cancelled: its project was deleted")).len() == 1
            }).await;
        }
        harness.close().await;
    }
}
