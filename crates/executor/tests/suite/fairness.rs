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
        for (index, run) in runs.iter().take(2).enumerate() {
            harness.executor.cancel(one.actor, *run).await.unwrap();
            let (expected_late, expected_two) = [(1, 2), (1, 3)][index];
            until("the slot is in use again", async || {
                (late.running(&harness).await, two.running(&harness).await) == (expected_late, expected_two)
            }).await;
        }
        assert_eq!(late.status(&harness, waits).await, RunStatus::Running);
        assert_eq!(one.running(&harness).await, 4);
        harness.close().await;
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
