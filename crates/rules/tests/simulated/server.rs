//! A server: takes the workflow when nobody has it, and walks it by the rules that are tested. It
//! may die before what it decided is written, or after, before it knows.

use emergent_domain::{ids::RunId, task::TaskStatus};
use emergent_rules::workflow::{
    conclude::conclude_attempt,
    decide::{self, Action},
    snapshot::Snapshot,
    transition::{AttemptMode, Change, Transition, TransitionTo},
};
use rand::Rng;

use super::{Decision, LEASE, Refusal, World};

pub struct Server {
    which: usize,
    known: Option<Snapshot>,
    down: bool,
    dies: Option<Death>,
}

#[derive(Clone, Copy)]
enum Death {
    BeforeWriting,
    AfterWriting,
}

impl Server {
    pub fn new(which: usize) -> Self {
        Self { which, known: None, down: false, dies: None }
    }

    pub fn crash(&mut self) {
        self.dies = Some(if self.which == 0 { Death::BeforeWriting } else { Death::AfterWriting });
    }

    pub fn is_down(&self) -> bool {
        self.down
    }

    pub fn come_back(&mut self) {
        if self.down {
            *self = Self::new(self.which);
        }
    }

    /// One look at the workflow; whether there was something to do.
    pub fn turn(&mut self, world: &mut World) -> bool {
        world.person();
        if !world.db.workflow.status.is_active() {
            self.known = None;
            return false;
        }
        if world.db.owner == Some(self.which) {
            world.db.lease_until = world.now + LEASE;
        } else if world.db.lease_until <= world.now {
            (world.db.owner, world.db.lease_until) = (Some(self.which), world.now + LEASE);
            self.known = None;
        } else {
            // Another has it; one that lost it without noticing tries with what it remembers.
            if self.known.is_none() || !world.rng.random_bool(0.2) {
                return false;
            }
        }
        let mut known = match self.known.take() {
            Some(known) if known.workflow.revision == world.db.workflow.revision => known,
            // Now and then a server does not hear of a change before it writes.
            Some(known) if world.rng.random_bool(0.3) => known,
            _ => world.db.snapshot(),
        };
        for (task, attempt) in &mut known.attempts {
            if let Some(run) = world.db.runs.get(&attempt.run).filter(|run| run.task == *task) {
                *attempt = run.attempt.clone();
            }
        }
        let decisions = decide(&mut known);
        if decisions.is_empty() {
            self.known = Some(known);
            return false;
        }
        if let Some(Death::BeforeWriting) = self.dies {
            self.down = true;
            return true;
        }
        let seen = known.workflow.revision;
        match world.commit(self.which, seen, &decisions) {
            Ok(revision) => {
                known.workflow = world.db.workflow.clone();
                let versions: Vec<_> = world.db.tasks.iter().map(|task| (task.id, task.version)).collect();
                known.set_committed(&versions, revision);
                self.known = Some(known);
            }
            Err(Refusal::Stale | Refusal::Lost) => self.known = None,
        }
        if self.dies.take().is_some() {
            self.down = true;
        }
        true
    }
}

/// What the walk does between looking and writing.
fn decide(known: &mut Snapshot) -> Vec<Decision> {
    let mut decisions = Vec::new();
    for next in decide::after_ended_runs(known) {
        if let Action::ConcludeAttempt(task) = next
            && let Some(concluded) = conclude_attempt(known, task, None)
        {
            let transitions: Vec<_> =
                concluded.transitions.iter().map(|(transition, _)| transition).collect();
            known.apply(&Change::AttemptConcluded { task, transitions: transitions.clone() });
            let after =
                transitions.iter().filter_map(|transition| known.get(transition.task).cloned()).collect();
            decisions.push(Decision::Settled(Box::new(concluded), after));
        }
    }
    for next in decide::startable(known, usize::MAX) {
        let (Action::StartAttempt(id) | Action::ResumeAttempt(id)) = next else { continue };
        let resumed = known.get(id).is_some_and(|task| task.status == TaskStatus::Paused);
        let run = RunId::new();
        let mode = if resumed { AttemptMode::Resumed } else { AttemptMode::New };
        known.apply(&Change::AttemptStarted { task: id, run, agent: "somebody", mode });
        decisions.push(Decision::Begin { task: id, run, resumed });
    }
    if decisions.is_empty() {
        for next in decide::when_idle(known) {
            if let Action::SkipTask { task, why } = &next {
                let skipped = Transition { task: *task, to: TransitionTo::Skipped, reason: why.clone() };
                known.apply(&Change::TaskMoved(&skipped));
            }
            decisions.push(Decision::Other(next));
        }
    }
    decisions
}
