//! What a seed stands for: a workflow, its tasks and who waits for whom, and what goes wrong when.

use std::collections::BTreeMap;

use emergent_domain::{
    ids::{ObjectId, ProjectId},
    task::{NewTask, Priority, Task, VerdictKind},
    time::Timestamp,
    workflow::{Limit, OnFailure, SelectorKind, Workflow, WorkflowSettings},
};
use emergent_testkit::fixtures;
use rand::{Rng, SeedableRng, rngs::StdRng};

use super::{Database, Event, World, server::Server};

impl World {
    pub fn new(seed: u64) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let count =
            if rng.random_bool(0.03) { rng.random_range(100..=300) } else { rng.random_range(1..=40) };
        let db = Database::new(workflow(&mut rng));
        let mut world = Self {
            now: 0,
            rng,
            db,
            servers: vec![Server::new(0), Server::new(1)],
            agenda: BTreeMap::new(),
            number: 0,
            crashes: 0,
            helped: 0,
            made: 0,
        };
        let density = world.rng.random_range(0.0..3.0) / count as f64;
        for _ in 0..count {
            world.add_task(density);
        }
        world.plan_for(0, Event::Server(0));
        world.plan_for(1, Event::Server(1));
        for _ in 0..world.rng.random_range(0..6) {
            let (at, server) = (world.rng.random_range(0..60_000), world.rng.random_range(0..2));
            world.plan_for(at, Event::Crash(server));
        }
        for _ in 0..world.rng.random_range(0..4) {
            let at = world.rng.random_range(0..30_000);
            world.plan_for(at, Event::Outside);
        }
        world
    }

    /// A task that waits for some of those there are: there is no way round.
    pub(super) fn add_task(&mut self, density: f64) {
        self.made += 1;
        let id = ObjectId::new();
        let earlier: Vec<ObjectId> = self.db.tasks.iter().map(|task| task.id).collect();
        let mut blockers = Vec::new();
        for before in earlier.iter().rev().take(60) {
            if self.rng.random_bool((density * 8.0).clamp(0.0, 0.9)) {
                blockers.push(*before);
            }
        }
        let verdict = match self.rng.random_range(0..10) {
            0 if !blockers.is_empty() => VerdictKind::Test,
            1 if !blockers.is_empty() => VerdictKind::Review,
            _ => VerdictKind::None,
        };
        self.db.blocks.extend(blockers.iter().map(|before| (*before, id)));
        let key = format!("t{}", self.made);
        let new = NewTask {
            title: key.clone(),
            key,
            priority: Priority::ALL[self.rng.random_range(0..4)],
            max_retries: Some(self.rng.random_range(0..4)),
            verdict,
            ..NewTask::default()
        };
        self.db.tasks.push(Task {
            id,
            workflow: Some(self.db.workflow.id),
            created_at: Timestamp::from_micros(i64::from(self.made)),
            ..fixtures::task(new)
        });
    }
}

fn workflow(rng: &mut StdRng) -> Workflow {
    let budget = match rng.random_range(0..4) {
        0 => Limit { microusd: Some(rng.random_range(20..2_000)), tokens: None },
        _ => Limit::default(),
    };
    let settings = WorkflowSettings {
        max_concurrent: rng.random_range(1..12),
        budget,
        selector: SelectorKind::Rules,
        on_failure: OnFailure::ALL[rng.random_range(0..2)],
        ..WorkflowSettings::default()
    };
    fixtures::workflow(ProjectId::new(), settings, Timestamp::from_micros(0))
}
