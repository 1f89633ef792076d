//! The runs of attempts, from where they are queued to where they end, and what they cost.

use emergent_domain::{
    ids::{ObjectId, RunId},
    run::{Reason, RunStatus},
    task::VerdictKind,
    workflow::{Amount, WorkflowStatus},
};
use emergent_rules::workflow::snapshot::Attempt;
use rand::Rng;

use super::{
    Event, MOST_TASKS, World,
    agents::{self, Behaviour},
};

pub struct Run {
    pub task: ObjectId,
    pub attempt: Attempt,
    behaviour: Behaviour,
    pub reserved: Amount,
}

impl World {
    /// Queues the run of an attempt: it reserves what it may cost before it asks anybody.
    pub(super) fn begin(&mut self, task: ObjectId, run: RunId) {
        let found = self.db.tasks.iter().find(|one| one.id == task).expect("the task is there").clone();
        let behaviour = agents::behave(&mut self.rng, &found);
        let wants = Amount { microusd: self.rng.random_range(1..50), tokens: self.rng.random_range(1..500) };
        let total = self.db.spent + self.db.reserved + wants;
        let (behaviour, reserved) = match self.db.workflow.settings.budget.allows(total) {
            true => (behaviour, wants),
            false => (Behaviour::Fails(Reason::Budget), Amount::default()),
        };
        self.db.reserved = self.db.reserved + reserved;
        let after = match behaviour {
            Behaviour::Hangs => 300_000,
            _ => self.rng.random_range(1..5_000),
        };
        // One that completed without the verdict it owes is asked once more.
        let before = self.db.attempts.get(&task).and_then(|runs| self.db.runs.get(runs.last()?));
        let asked_again = before.map(|run| &run.attempt).is_some_and(|before| {
            found.verdict != VerdictKind::None
                && before.status == RunStatus::Completed
                && before.verdict.is_none()
                && !before.asked_again
        });
        let attempt = Attempt {
            run,
            agent: "somebody".to_owned(),
            status: RunStatus::Queued,
            reason: None,
            summary: String::new(),
            output: None,
            error: None,
            verdict: None,
            asked_again,
        };
        assert!(!self.db.runs.contains_key(&run), "a run is started once");
        self.db.runs.insert(run, Run { task, attempt, behaviour, reserved });
        self.db.attempts.entry(task).or_default().push(run);
        self.plan_for(after, Event::RunEnds(run));
    }

    pub(super) fn run_ends(&mut self, id: RunId) {
        let adds = {
            let Some(run) = self.db.runs.get_mut(&id) else { return };
            let spent = agents::end(&mut self.rng, run.behaviour, &mut run.attempt, run.reserved);
            assert!(spent.microusd <= run.reserved.microusd && spent.tokens <= run.reserved.tokens);
            self.db.spent = self.db.spent + spent;
            self.db.reserved = Amount {
                microusd: self.db.reserved.microusd - run.reserved.microusd,
                tokens: self.db.reserved.tokens - run.reserved.tokens,
            };
            run.reserved = Amount::default();
            run.behaviour.adds_tasks()
        };
        if adds && self.db.tasks.len() < MOST_TASKS && self.db.workflow.status == WorkflowStatus::Running {
            self.add_task(0.05);
            self.db.workflow.revision += 1;
        }
    }
}
