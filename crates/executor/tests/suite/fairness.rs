//! Fairness between projects: one project leaves slots to others, and waiting projects take turns.

use crate::support;

use std::time::Duration;

use emergent_domain::{
    agent::Agent,
    ids::{ProjectId, RunId},
    run::{Run, RunStatus},
};
use emergent_executor::{Error, StartOptions};
use emergent_graph::Actor;
use emergent_testkit::{
    both_engines,
    scripted::{ScriptedModel, hangs, says},
};
use support::*;

/// An agent in a project of its own.
struct Tenant {
    actor: Actor,
    agent: Agent,
}

impl Tenant {
    async fn new(harness: &Harness, name: &str) -> Self {
        let project = harness.executor.graph().create_project(name, false).await.unwrap().id;
        let actor = Actor { project, ..harness.actor() };
        let agent = harness.executor.create_agent(actor, agent(name)).await.unwrap();
        Self { actor, agent }
    }

    async fn start(&self, harness: &Harness) -> Run {
        let start = StartOptions { input: "Go.".into(), ..StartOptions::default() };
        harness.executor.trigger(self.actor, self.agent.id, start).await.unwrap()
    }

    async fn start_many(&self, harness: &Harness, count: usize) -> Vec<RunId> {
        let mut ids = Vec::new();
        for _ in 0..count {
            ids.push(self.start(harness).await.id);
        }
        ids
    }

    async fn status(&self, harness: &Harness, run: RunId) -> RunStatus {
        harness.executor.get_run(self.actor.project, run).await.unwrap().status
    }

    async fn running(&self, harness: &Harness) -> i64 {
        let project = self.actor.project;
        let count = harness.executor.graph().db().read(move |tx| {
            let sql = "SELECT count(*) FROM agent_runs WHERE project_id = $1 AND status = 'running'";
            tx.query_opt(sql, &[project.into()], |row| row.get::<i64>(0))
        });
        let count: Result<Option<i64>, emergent_store::Error> = count.await;
        count.unwrap().unwrap()
    }
}

fn many(
    reply: impl Fn() -> emergent_testkit::scripted::ScriptedReply,
) -> Vec<emergent_testkit::scripted::ScriptedReply> {
    (0..40).map(|_| reply()).collect()
}

both_engines! {
    async fn long_runs_of_one_project_leave_slots_to_another(db: TestDb) {
        let model = ScriptedModel::default().agent("greedy", many(hangs)).agent("other", many(|| says("Done.")));
        let harness = Harness::with(&db, HarnessOptions::new(model).max_runs(8)).await;
        let (greedy, other) = (Tenant::new(&harness, "greedy").await, Tenant::new(&harness, "other").await);
        greedy.start_many(&harness, 20).await;
        until("its part is in use", async || greedy.running(&harness).await == 6).await;
        let started = tokio::time::Instant::now();
        for run in other.start_many(&harness, 5).await {
            until("it ends", async || other.status(&harness, run).await == RunStatus::Completed).await;
        }
        assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
        assert_eq!(greedy.running(&harness).await, 6, "two slots are for others");
        harness.close().await;
    }

    async fn a_freed_slot_goes_to_the_project_that_uses_the_fewest(db: TestDb) {
        let names = ["one", "two", "late"];
        let model = names.iter().fold(ScriptedModel::default(), |model, name| model.agent(name, many(hangs)));
        let harness = Harness::with(&db, HarnessOptions::new(model).max_runs(8)).await;
        let (one, two) = (Tenant::new(&harness, "one").await, Tenant::new(&harness, "two").await);
        let late = Tenant::new(&harness, "late").await;
        let runs = one.start_many(&harness, 10).await;
        until("one has its part", async || one.running(&harness).await == 6).await;
        two.start_many(&harness, 10).await;
        until("two has the rest", async || two.running(&harness).await == 2).await;
        let waits = late.start(&harness).await.id;
        // More runs of the others are queued after it and before it.
        one.start_many(&harness, 3).await;
        for (index, run) in runs.iter().take(3).enumerate() {
            harness.executor.cancel(one.actor, *run).await.unwrap();
            // Of two projects that use three slots each, `one` got its last slot earlier.
            let expected = [(5, 2, 1), (4, 3, 1), (4, 3, 1)][index];
            until("the slot is in use again", async || {
                (one.running(&harness).await, two.running(&harness).await, late.running(&harness).await) == expected
            }).await;
        }
        assert_eq!(late.status(&harness, waits).await, RunStatus::Running);
        assert_eq!(one.status(&harness, runs[6]).await, RunStatus::Running, "the oldest queued run is next");
        harness.close().await;
    }

    async fn projects_whose_runs_cannot_be_claimed_leave_the_slots_to_others(db: TestDb) {
        let model = ScriptedModel::default().agent("other", many(|| says("Done.")));
        let harness = Harness::build(&db, HarnessOptions::new(model).max_runs(4)).await;
        for name in ["a", "b", "c", "d", "e"] {
            Tenant::new(&harness, name).await.start(&harness).await;
        }
        let deleted = Tenant::new(&harness, "deleted").await;
        deleted.start(&harness).await;
        let unreadable = harness.executor.graph().db().write(|tx| {
            tx.execute("UPDATE agent_runs SET origin = 'of a newer version'", &[])?;
            // As if it was queued by a transaction that the deletion did not see.
            tx.execute("UPDATE projects SET deleted_at = created_at WHERE name = 'deleted'", &[])
        });
        let unreadable: Result<u64, emergent_store::Error> = unreadable.await;
        assert_eq!(unreadable.unwrap(), 1);
        let other = Tenant::new(&harness, "other").await;
        let runs = other.start_many(&harness, 3).await;
        let harness = harness.staffed();
        for run in runs {
            until("it ends", async || other.status(&harness, run).await == RunStatus::Completed).await;
        }
        let listed = harness.executor.graph().db().read(|tx| {
            emergent_store::runs::claim::list_waiting_projects(tx, ProjectId(uuid::Uuid::nil()))
        });
        let listed: Result<Vec<ProjectId>, emergent_store::Error> = listed.await;
        let listed = listed.unwrap();
        assert!(listed.len() == 5 && !listed.contains(&deleted.actor.project), "{listed:?}");
        harness.close().await;
    }

    async fn a_new_run_does_not_overtake_a_queued_run_of_its_project(db: TestDb) {
        let model = ScriptedModel::default().agent("one", many(hangs));
        let harness = Harness::with(&db, HarnessOptions::new(model).max_runs(1)).await;
        let one = Tenant::new(&harness, "one").await;
        let project = one.actor.project;
        let slots = parking_lot::Mutex::new(Vec::new());
        until("a slot is free", async || {
            *slots.lock() = harness.executor.try_acquire_slots(project, 1);
            !slots.lock().is_empty()
        }).await;
        let waits = one.start(&harness).await.id;
        // The runner learns of the queued run in this time.
        tokio::time::sleep(Duration::from_millis(100)).await;
        slots.lock().clear();
        assert!(harness.executor.try_acquire_slots(project, 1).is_empty(), "the queued run is older");
        until("it runs", async || one.status(&harness, waits).await == RunStatus::Running).await;
        harness.close().await;
    }

    async fn a_deleted_project_accepts_no_run(db: TestDb) {
        let model = ScriptedModel::default().agent("one", many(hangs));
        let harness = Harness::build(&db, HarnessOptions::new(model)).await;
        let one = Tenant::new(&harness, "one").await;
        let start = || StartOptions { input: "Go.".into(), ..StartOptions::default() };
        let (graph, executor) = (harness.executor.graph(), &harness.executor);
        let project = one.actor.project;
        // Requests that are under way at the same moment are cancelled with the project, or refused.
        let triggers = futures_util::future::join_all((0..20).map(|_| executor.trigger(one.actor, one.agent.id, start())));
        let (started, deleted) = tokio::join!(triggers, graph.delete_project(project));
        deleted.unwrap();
        for refused in started.into_iter().filter_map(Result::err) {
            assert!(matches!(refused, Error::NotFound { what: "project", .. }), "{refused}");
        }
        let refused = executor.trigger(one.actor, one.agent.id, start()).await.unwrap_err();
        assert!(matches!(refused, Error::NotFound { what: "project", .. }), "{refused}");
        let active = graph.db().read(move |tx| {
            let sql = "SELECT count(*) FROM agent_runs WHERE project_id = $1 AND status IN ('queued', 'running')";
            tx.query_opt(sql, &[project.into()], |row| row.get::<i64>(0))
        });
        let active: Result<Option<i64>, emergent_store::Error> = active.await;
        assert_eq!(active.unwrap(), Some(0));
    }

    async fn a_slot_is_not_taken_directly_while_another_project_waits_for_it(db: TestDb) {
        let model = ScriptedModel::default().agent("one", many(hangs)).agent("two", many(hangs)).agent("waits", many(hangs));
        let harness = Harness::with(&db, HarnessOptions::new(model).max_runs(4)).await;
        let (one, two) = (Tenant::new(&harness, "one").await, Tenant::new(&harness, "two").await);
        let waits = Tenant::new(&harness, "waits").await;
        one.start_many(&harness, 3).await;
        until("one runs", async || one.running(&harness).await == 3).await;
        until("a slot is free", async || harness.executor.try_acquire_slots(two.actor.project, 2).len() == 1).await;
        two.start(&harness).await;
        until("two runs", async || two.running(&harness).await == 1).await;
        waits.start(&harness).await;
        let blocked = harness.executor.try_acquire_slots(ProjectId::new(), 1);
        assert!(blocked.is_empty(), "no slot is free");
        harness.close().await;
    }

    async fn one_project_cannot_fill_the_queue(db: TestDb) {
        let mut plan = HarnessOptions::new(ScriptedModel::default());
        plan.settings.max_queued = 8;
        let harness = Harness::build(&db, plan).await;
        let (greedy, other) = (Tenant::new(&harness, "greedy").await, Tenant::new(&harness, "other").await);
        greedy.start_many(&harness, 6).await;
        let start = StartOptions { input: "One more.".into(), ..StartOptions::default() };
        let refused = harness.executor.trigger(greedy.actor, greedy.agent.id, start.clone()).await.unwrap_err();
        assert!(matches!(refused, Error::Overloaded { limit: "max_project_queued", .. }), "{refused}");
        other.start(&harness).await;
    }
}
