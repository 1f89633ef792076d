//! What a seed stands for: how a workflow is walked, its tasks, and who waits for whom.

use emergent_domain::{
    task::{NewTask, Priority, VerdictKind},
    workflow::{Limit, OnFailure, SelectorKind, WorkflowSettings},
};
use rand::{Rng, SeedableRng, rngs::StdRng};

pub struct Case {
    pub settings: WorkflowSettings,
    pub tasks: Vec<NewTask>,
}

impl Case {
    pub fn new(seed: u64) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let settings = WorkflowSettings {
            max_concurrent: rng.random_range(1..=8),
            budget: budget(&mut rng),
            selector: SelectorKind::Rules,
            on_failure: OnFailure::ALL[rng.random_range(0..2)],
            ..WorkflowSettings::default()
        };
        let count = if rng.random_bool(0.2) { rng.random_range(20..=40) } else { rng.random_range(1..=20) };
        let density = rng.random_range(0.0..0.4);
        let mut tasks: Vec<NewTask> = Vec::new();
        for at in 0..count {
            let near = tasks.iter().rev().take(10);
            let blocked_by: Vec<String> =
                near.filter(|_| rng.random_bool(density)).map(|task| task.key.clone()).collect();
            tasks.push(task(&mut rng, seed, at, blocked_by));
        }
        Self { settings, tasks }
    }
}

/// None, one that is never reached, or one that is.
fn budget(rng: &mut StdRng) -> Limit {
    let tokens = match rng.random_range(0..10) {
        0..6 => None,
        6..9 => Some(10_000_000),
        _ => Some(rng.random_range(5_000..100_000)),
    };
    Limit { microusd: None, tokens }
}

fn task(rng: &mut StdRng, seed: u64, at: usize, blocked_by: Vec<String>) -> NewTask {
    let (verdict, agent) = match rng.random_range(0..10) {
        0 if !blocked_by.is_empty() => (VerdictKind::Test, "tester"),
        1 if !blocked_by.is_empty() => (VerdictKind::Review, "reviewer"),
        _ => (VerdictKind::None, "worker"),
    };
    let together = verdict == VerdictKind::None && rng.random_bool(0.08);
    let key = format!("t{at}");
    NewTask {
        // The seed is in every question about it, and the answer depends on the question.
        title: format!("{key} of case {seed}"),
        key,
        description: "Do your part.".into(),
        priority: Priority::ALL[rng.random_range(0..4)],
        assigned_agent: Some(agent.into()),
        blocked_by,
        requires_collaboration: together,
        collaborators: if together { vec!["critic".into()] } else { Vec::new() },
        verdict,
        max_retries: Some(rng.random_range(0..4)),
        ..NewTask::default()
    }
}
