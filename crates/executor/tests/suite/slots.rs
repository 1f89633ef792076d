//! Run slots: a run that gets a slot is owned by this server from the transaction that admits it;
//! without one, it waits in the queue.

use crate::support;

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use emergent_domain::{
    run::{Reason, Run, RunStatus},
    run_event::RunEventBody,
    workflow::{Limit, WorkflowLink},
};
use emergent_executor::{
    AdmissionBatch, Error, LinkedRun, NewEntry, RunHooks, StartOptions, admit_linked_run,
};
use emergent_store::{Tx, runs, runs::conversation};
use emergent_testkit::{
    both_engines,
    scripted::{ScriptedModel, calls, hangs, says},
};
use parking_lot::Mutex;
use serde_json::json;
use support::{
    Harness, HarnessOptions, agent, assert_ended, until, with_tools,
    workflow_runs::{dispatched, workflow},
};

/// Records in which order the hooks of a run are called.
fn recording_hooks(seen: &Arc<Mutex<Vec<String>>>) -> RunHooks {
    let [tools, entries, ends] = [(); 3].map(|()| Arc::clone(seen));
    RunHooks {
        add_tools: Box::new(move |_, _| tools.lock().push("tools".to_owned())),
        write_with_entries: Box::new(move |_, new, _| {
            for entry in new {
                entries.lock().push(match entry {
                    NewEntry::Message(message) => format!("{:?} message {}", message.role, message.seq),
                    NewEntry::Result(call) => format!("result of {}", call.tool),
                });
            }
            let (entries, times) = (Arc::clone(&entries), AtomicUsize::new(0));
            Some(Box::new(move |_| {
                let times = times.fetch_add(1, Ordering::Relaxed) + 1;
                entries.lock().push(format!("written {times} times"));
                Ok(())
            }))
        }),
        after_end: Box::new(move |run| ends.lock().push(run.status.to_string())),
    }
}

both_engines! {
    async fn a_run_with_a_slot_is_running_once_it_is_admitted(db: TestDb) {
        let harness = Harness::open(&db, ScriptedModel::new([says("Done.")])).await;
        let worker = harness.agent(agent("worker")).await;
        let flow = workflow(&harness, Limit::default()).await;
        let workflow_link = WorkflowLink { workflow: Some(flow), ..WorkflowLink::default() };
        let seen = Arc::new(Mutex::new(Vec::new()));
        harness.executor.set_run_hooks(recording_hooks(&seen));
        until("a runner is at work", async || !harness.executor.try_acquire_slots(harness.project, 1).is_empty()).await;
        let run = dispatched(&harness, &worker, workflow_link, 0).await.unwrap();
        assert_eq!((run.status, run.started_at), (RunStatus::Running, Some(run.created_at)));
        let ended = harness.ended(run.id).await;
        assert_ended(&ended, RunStatus::Completed, None);
        let events = harness.events(run.id).await;
        let started = events.iter().filter(|event| matches!(event.body, RunEventBody::Started { recovered: false }));
        assert_eq!(started.count(), 1, "{events:?}");
        until("its end is published", async || seen.lock().len() == 4).await;
        assert_eq!(*seen.lock(), ["tools", "Assistant message 4", "written 1 times", "completed"]);
        harness.close().await;
    }

    async fn a_run_without_a_slot_is_queued_and_starts_when_one_is_free(db: TestDb) {
        let model = ScriptedModel::default().agent("sitter", [hangs()]).agent("worker", [says("Done.")]);
        let harness = Harness::with(&db, HarnessOptions::new(model).max_runs(1)).await;
        let (sitter, worker) = (harness.agent(agent("sitter")).await, harness.agent(agent("worker")).await);
        let sits = harness.start(&sitter, "Sit.").await;
        until("the slot is taken", async || harness.model.open() == 1).await;
        assert!(harness.executor.try_acquire_slots(harness.project, 1).is_empty());
        let waits = dispatched(&harness, &worker, WorkflowLink::default(), 0).await.unwrap();
        assert_eq!((waits.status, waits.owner), (RunStatus::Queued, None));
        harness.executor.cancel(harness.actor(), sits.id).await.unwrap();
        assert_ended(&harness.ended(waits.id).await, RunStatus::Completed, None);
        harness.close().await;
    }

    async fn a_slot_that_was_not_used_is_free_again(db: TestDb) {
        let harness = Harness::with(&db, HarnessOptions::new(ScriptedModel::new([says("Done.")])).max_runs(2)).await;
        until("a runner is at work", async || harness.executor.try_acquire_slots(harness.project, 2).len() == 2).await;
        let slots = harness.executor.try_acquire_slots(harness.project, 5);
        assert_eq!((slots.len(), harness.executor.try_acquire_slots(harness.project, 1).len()), (2, 0));
        let refused: Result<Run, Error> =
            harness.executor.commit_and_drive(slots, |_, _| Err(Error::Conflict("no".into()))).await;
        assert!(refused.is_err());
        assert_eq!(harness.executor.try_acquire_slots(harness.project, 5).len(), 2);
        harness.close().await;
    }

    async fn a_run_starts_although_its_caller_gives_up_during_the_admission(db: TestDb) {
        let harness = Harness::open(&db, ScriptedModel::new([says("Done.")])).await;
        let worker = harness.agent(agent("worker")).await;
        until("a runner is at work", async || !harness.executor.try_acquire_slots(harness.project, 1).is_empty()).await;
        let (executor, slots) = (harness.executor.clone(), harness.executor.try_acquire_slots(harness.project, 1));
        let id = emergent_domain::ids::RunId::new();
        let work = move |tx: &mut Tx<'_>, admissions: &mut AdmissionBatch| {
            // The caller gives up waiting within this time.
            std::thread::sleep(Duration::from_millis(100));
            let start = StartOptions { input: "Work.".into(), ..StartOptions::default() };
            let run = LinkedRun { id, link: WorkflowLink::default(), child_index: 0, started_by: None, cause: None, cause_depth: 0 };
            admit_linked_run(tx, &executor, admissions, &worker, run, &start)
        };
        let writing = harness.executor.commit_and_drive(slots, work);
        assert!(tokio::time::timeout(Duration::from_millis(20), writing).await.is_err(), "given up on");
        until("it is admitted", async || harness.executor.get_run(harness.project, id).await.is_ok()).await;
        assert_ended(&harness.ended(id).await, RunStatus::Completed, None);
        harness.close().await;
    }

    async fn the_tools_that_patterns_match_are_recorded_before_the_model_is_asked(db: TestDb) {
        let harness = Harness::open(&db, ScriptedModel::new([says("Done.")])).await;
        let worker = harness.agent(with_tools("worker", &["entities_*"])).await;
        until("a runner is at work", async || !harness.executor.try_acquire_slots(harness.project, 1).is_empty()).await;
        let run = dispatched(&harness, &worker, WorkflowLink::default(), 0).await.unwrap();
        assert_eq!(run.status, RunStatus::Running);
        harness.ended(run.id).await;
        let read = harness.executor.graph().db().read(move |tx| conversation::load(tx, run.id));
        let recorded: Result<_, emergent_store::Error> = read.await;
        assert!(recorded.unwrap().tools.unwrap().iter().any(|tool| tool == "entities_query"));
        harness.close().await;
    }

    async fn a_triggered_and_a_resumed_run_start_in_the_transaction_that_admits_them(db: TestDb) {
        let model = ScriptedModel::new([calls("entities_query", json!({})), says("Half."), says("Done.")]);
        let harness = Harness::open(&db, model).await;
        let worker = harness.agent(with_tools("worker", &["entities_query"])).await;
        until("a runner is at work", async || !harness.executor.try_acquire_slots(harness.project, 1).is_empty()).await;
        let start = StartOptions { input: "Work.".into(), max_steps: Some(1), ..StartOptions::default() };
        let run = harness.executor.trigger(harness.actor(), worker.id, start).await.unwrap();
        assert_eq!((run.status, run.started_at), (RunStatus::Running, Some(run.created_at)));
        assert_ended(&harness.ended(run.id).await, RunStatus::Paused, Some(Reason::StepLimit));
        until("the slot is free again", async || !harness.executor.try_acquire_slots(harness.project, 1).is_empty()).await;
        let resumed = harness.executor.resume(harness.actor(), run.id, None).await.unwrap();
        assert_eq!((resumed.status, resumed.started_at), (RunStatus::Running, Some(resumed.created_at)));
        assert_ended(&harness.ended(resumed.id).await, RunStatus::Completed, None);
        harness.close().await;
    }

    async fn a_triggered_run_is_queued_while_no_slot_is_free(db: TestDb) {
        let model = ScriptedModel::default().agent("sitter", [hangs()]).agent("worker", [says("Done.")]);
        let harness = Harness::with(&db, HarnessOptions::new(model).max_runs(1)).await;
        let (sitter, worker) = (harness.agent(agent("sitter")).await, harness.agent(agent("worker")).await);
        let sits = harness.start(&sitter, "Sit.").await;
        until("the slot is taken", async || harness.model.open() == 1).await;
        let waits = harness.start(&worker, "Work.").await;
        assert_eq!((waits.status, waits.owner), (RunStatus::Queued, None));
        harness.executor.cancel(harness.actor(), sits.id).await.unwrap();
        assert_ended(&harness.ended(waits.id).await, RunStatus::Completed, None);
        harness.close().await;
    }

    async fn a_spawned_run_starts_in_the_transaction_that_admits_it(db: TestDb) {
        let spawn = calls("spawn_agents", json!({ "tasks": [{ "agent_name": "helper", "task": "Help." }] }));
        let model = ScriptedModel::default().agent("boss", [spawn, says("Done.")]).agent("helper", [says("Helped.")]);
        let harness = Harness::open(&db, model).await;
        let boss = harness.agent(with_tools("boss", &["spawn_agents"])).await;
        harness.agent(agent("helper")).await;
        let run = harness.start(&boss, "Get it done.").await;
        assert_ended(&harness.ended(run.id).await, RunStatus::Completed, None);
        let children = harness.executor.graph().db().read(move |tx| runs::list_children(tx, run.id, None)).await;
        let children: Result<_, emergent_store::Error> = children;
        let children = children.unwrap();
        assert_eq!(children.len(), 1);
        assert_eq!(children[0].started_at, Some(children[0].created_at), "no runner had to claim it");
        harness.close().await;
    }

    async fn a_run_whose_runner_missed_its_admission_is_driven(db: TestDb) {
        let model = ScriptedModel::default().agent("sitter", [hangs()]).agent("worker", [says("Done.")]);
        let harness = Harness::with(&db, HarnessOptions::new(model).max_runs(1)).await;
        let (sitter, worker) = (harness.agent(agent("sitter")).await, harness.agent(agent("worker")).await);
        let sits = harness.start(&sitter, "Sit.").await;
        until("the slot is taken", async || harness.model.open() == 1).await;
        let waits = harness.start(&worker, "Work.").await;
        // This is the state after a commit whose reply was lost.
        let commit = move |tx: &mut Tx<'_>| {
            let owner = "(SELECT owner FROM agent_runs WHERE id = $2)";
            let sql = format!("UPDATE agent_runs SET status = 'running', owner = {owner}, started_at = created_at, clock_from = created_at WHERE id = $1");
            tx.execute(&sql, &[waits.id.into(), sits.id.into()])
        };
        let written: Result<u64, emergent_store::Error> = harness.executor.graph().db().write(commit).await;
        assert_eq!(written.unwrap(), 1);
        harness.executor.cancel(harness.actor(), sits.id).await.unwrap();
        assert_ended(&harness.ended(waits.id).await, RunStatus::Completed, None);
        harness.close().await;
    }

    async fn a_server_without_a_runner_has_no_slots(db: TestDb) {
        let harness = Harness::build(&db, HarnessOptions::new(ScriptedModel::new([says("Done.")]))).await;
        assert!(harness.executor.try_acquire_slots(harness.project, 1).is_empty());
        let worker = harness.agent(agent("worker")).await;
        let run = dispatched(&harness, &worker, WorkflowLink::default(), 0).await.unwrap();
        assert_eq!(run.status, RunStatus::Queued);
        let harness = harness.staffed();
        assert_ended(&harness.ended(run.id).await, RunStatus::Completed, None);
        harness.close().await;
    }
}
