//! Cancelling a run.

mod support;

use std::time::{Duration, Instant};

use emergent_domain::{
    author::Author,
    run::{Run, RunStatus},
    run_event::RunEventBody,
};
use emergent_executor::Error;
use emergent_graph::Actor;
use emergent_store::{Engine, runs::claim};
use emergent_testkit::{
    TestDb, both_engines,
    scripted::{ScriptedModel, ScriptedReply, calls, hangs, says},
};
use emergent_tools::Effect;
use serde_json::json;
use support::{
    House, Plan, agent, assert_ended,
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
async fn stops_for_good(db: &TestDb, house: &House, run: &Run, at_work: impl Fn() -> usize) {
    let began = Instant::now();
    let cancelled = house.executor.cancel(house.actor(), run.id).await.unwrap();
    assert_ended(&cancelled, RunStatus::Cancelled, None);
    until("nothing is at work", async || at_work() == 0 && house.executor.driven_count() == 0).await;
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    let before = content(db).await;
    tokio::time::sleep(Duration::from_millis(1_200)).await;
    assert_eq!(content(db).await, before);
}

both_engines! {
    async fn a_tree_in_the_middle_of_its_model_calls_stops_at_once_and_writes_nothing_more(db: TestDb) {
        let model = ScriptedModel::default()
            .agent("parent", [spawn("worker", 20)])
            .agent("worker", (0..20).map(|_| says("Too late.").with_delay(Duration::from_millis(2_000))));
        let house = House::open(&db, model).await;
        house.agent(agent("worker")).await;
        let parent = house.agent(with_tools("parent", &["spawn_agents"])).await;
        let run = house.start(&parent, "Go.").await;
        until("sixteen children are asked", async || house.model.open() == 16).await;
        stops_for_good(&db, &house, &run, || house.model.open()).await;
        let children = house.children(run.id).await;
        assert_eq!(children.len(), 16, "those that waited were never started");
        assert!(children.iter().all(|child| child.status == RunStatus::Cancelled));
        house.close().await;
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
        let house = House::with(&db, Plan::new(model).tool(look.clone()).tool(send.clone())).await;
        house.agent(with_tools("looker", &["look", "entities_create"])).await;
        house.agent(with_tools("sender", &["send", "entities_create"])).await;
        let parent = house.agent(with_tools("parent", &["spawn_agents"])).await;
        let run = house.start(&parent, "Go.").await;
        until("the tool is at work", async || look.at_work() == 1).await;
        stops_for_good(&db, &house, &run, || look.at_work() + send.at_work()).await;
        assert_eq!(send.called(), 0, "the second call of the message never began");
        house.close().await;
    }

    async fn grandchildren_are_reached_as_well(db: TestDb) {
        let model = ScriptedModel::default()
            .agent("parent", [spawn("middle", 2)])
            .agent("middle", [spawn("leaf", 2), spawn("leaf", 2)])
            .agent("leaf", (0..4).map(|_| hangs()));
        let house = House::open(&db, model).await;
        let mut middle = with_tools("middle", &["spawn_agents"]);
        middle.config.insert("allow_delegation".into(), json!(true));
        house.agent(middle).await;
        house.agent(agent("leaf")).await;
        let parent = house.agent(with_tools("parent", &["spawn_agents"])).await;
        let run = house.start(&parent, "Go.").await;
        until("all leaves are asked", async || house.model.open() == 4).await;
        house.executor.cancel(house.actor(), run.id).await.unwrap();
        until("no model is asked", async || house.model.open() == 0).await;
        for child in house.children(run.id).await {
            assert_ended(&child, RunStatus::Cancelled, None);
            for leaf in house.children(child.id).await {
                assert_ended(&leaf, RunStatus::Cancelled, None);
            }
        }
        house.close().await;
    }

    async fn a_cancelled_child_is_a_result_and_its_parent_goes_on(db: TestDb) {
        let model = ScriptedModel::default()
            .agent("parent", [spawn("worker", 2), says("One came back.")])
            .agent("worker", [hangs(), says("Worked.")]);
        let house = House::open(&db, model).await;
        house.agent(agent("worker")).await;
        let parent = house.agent(with_tools("parent", &["spawn_agents"])).await;
        let run = house.start(&parent, "Go.").await;
        until("one child hangs and one is done", async || {
            let children = house.children(run.id).await;
            children.iter().filter(|child| child.status == RunStatus::Completed).count() == 1
        }).await;
        let children = house.children(run.id).await;
        let hanging = children.iter().find(|child| !child.status.is_terminal()).unwrap();
        house.executor.cancel(house.actor(), hanging.id).await.unwrap();
        assert_ended(&house.ended(run.id).await, RunStatus::Completed, None);
        house.close().await;
    }

    async fn a_queued_run_is_cancelled_without_ever_starting(db: TestDb) {
        let house = House::build(&db, Plan::new(ScriptedModel::new([says("Never.")]))).await;
        let worker = house.agent(agent("worker")).await;
        let run = house.start(&worker, "Go.").await;
        house.executor.cancel(house.actor(), run.id).await.unwrap();
        let house = house.staffed();
        let other = house.run(&worker, "Go.").await;
        assert_ended(&other, RunStatus::Completed, None);
        let run = house.ended(run.id).await;
        assert_eq!((run.status, run.started_at), (RunStatus::Cancelled, None));
        house.close().await;
    }

    async fn a_run_that_has_ended_cannot_be_cancelled(db: TestDb) {
        let house = House::open(&db, ScriptedModel::new([says("Done.")])).await;
        let worker = house.agent(agent("worker")).await;
        let run = house.run(&worker, "Go.").await;
        let before = content(&db).await;
        let refused = house.executor.cancel(house.actor(), run.id).await.unwrap_err();
        assert!(matches!(&refused, Error::Conflict(why) if why.contains("completed")), "{refused}");
        assert_eq!(content(&db).await, before);
        house.close().await;
    }

    async fn another_projects_run_cannot_be_cancelled(db: TestDb) {
        let house = House::open(&db, ScriptedModel::new([hangs()])).await;
        let worker = house.agent(agent("worker")).await;
        let run = house.start(&worker, "Go.").await;
        let project = house.executor.graph().create_project("other", false).await.unwrap().id;
        let stranger = Actor { project, author: Author::System };
        let refused = house.executor.cancel(stranger, run.id).await.unwrap_err();
        assert!(matches!(refused, Error::NotFound { .. }), "{refused}");
        house.executor.cancel(house.actor(), run.id).await.unwrap();
        house.close().await;
    }

    async fn nothing_overwrites_a_terminal_status(db: TestDb) {
        let house = House::open(&db, ScriptedModel::new([hangs()])).await;
        let worker = house.agent(agent("worker")).await;
        let run = house.start(&worker, "Go.").await;
        until("the model is asked", async || house.model.open() == 1).await;
        let cancelled = house.executor.cancel(house.actor(), run.id).await.unwrap();
        let owner = cancelled.owner.clone().unwrap();
        // The old driver tries to end the run after all, and another runner tries to claim it.
        let (id, now, seq) = (cancelled.id, cancelled.created_at, cancelled.seq);
        let late = db.write(move |tx| {
            let end = emergent_domain::run::RunEnd::Completed { summary: "Too late.".into() };
            let ended = emergent_store::runs::record::end_run(tx, id, &owner, seq, &end, 1, now)?;
            let moved = emergent_store::runs::record::advance(tx, id, &owner, seq, seq + 1, 1)?;
            let queued = claim::claim_queued(tx, "other", now, 10)?;
            let orphaned = claim::claim_orphaned(tx, "other", Duration::ZERO, now, 10)?;
            Ok::<_, emergent_store::Error>((ended, moved, queued.len(), orphaned.len()))
        });
        assert_eq!(late.await.unwrap(), (false, false, 0, 0));
        assert_eq!(house.ended(run.id).await, cancelled);
        house.close().await;
    }

    async fn of_a_cancel_and_an_end_at_the_same_time_one_wins(db: TestDb) {
        let house = House::open(&db, ScriptedModel::new((0..20).map(|_| says("Done.").with_delay(Duration::from_millis(5))))).await;
        let worker = house.agent(agent("worker")).await;
        for _ in 0..20 {
            let run = house.start(&worker, "Go.").await;
            tokio::time::sleep(Duration::from_millis(5)).await;
            let cancelled = house.executor.cancel(house.actor(), run.id).await;
            let run = house.ended(run.id).await;
            match cancelled {
                Ok(_) => assert_ended(&run, RunStatus::Cancelled, None),
                Err(Error::Conflict(_)) => assert_ended(&run, RunStatus::Completed, None),
                Err(other) => panic!("{other}"),
            }
            let ends = house.events(run.id).await.into_iter()
                .filter(|event| matches!(event.body, RunEventBody::Ended { .. })).count();
            assert_eq!(ends, 1, "a run ends once");
        }
        house.close().await;
    }

    async fn a_run_that_another_server_drives_is_stopped_there(db: TestDb) {
        if db.engine() == Engine::Sqlite {
            // SQLite supports only one server.
            return;
        }
        let model = ScriptedModel::new([hangs()]);
        let there = Server::open(&db, Plan::new(model.clone())).await;
        let here = House::build(&db, Plan::new(ScriptedModel::new([]))).await;
        let worker = here.agent(agent("worker")).await;
        let run = here.start(&worker, "Go.").await;
        until("the model is asked there", async || model.open() == 1).await;
        let began = Instant::now();
        here.executor.cancel(here.actor(), run.id).await.unwrap();
        until("it stops there", async || model.open() == 0).await;
        assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
        drop(there);
    }
}
