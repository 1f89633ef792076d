//! What this process counts of the workflows it walks, since it started. It is counted when a
//! transaction has committed: one that came too late has decided nothing.

use std::collections::BTreeMap;

use emergent_domain::workflow::WorkflowStatus;
use emergent_executor::telemetry::Histogram;
use parking_lot::Mutex;

use crate::{
    apply::{Applied, Item, Settle},
    settle::{Move, To},
};

const ESCALATE: &str = "escalate";

/// Everything counted so far. Labels are words of this house, so there are few.
#[derive(Debug, Clone, Default)]
pub struct Figures {
    /// Workflows that ended, by status.
    pub ended: BTreeMap<&'static str, u64>,
    /// Attempts that ended, by what was made of them.
    pub attempts: BTreeMap<&'static str, u64>,
    /// Decisions that were written, by kind.
    pub decisions: BTreeMap<&'static str, u64>,
    /// How long the runs of attempts were queued.
    pub waited: Histogram,
}

#[derive(Default)]
pub(crate) struct Counters(Mutex<Figures>);

impl Counters {
    pub fn figures(&self) -> Figures {
        self.0.lock().clone()
    }

    pub fn workflow_ended(&self, status: WorkflowStatus) {
        *self.0.lock().ended.entry(status.as_str()).or_default() += 1;
    }

    /// What cannot be written however often it is tried went to a person.
    pub fn handed_over(&self) {
        *self.0.lock().decisions.entry(ESCALATE).or_default() += 1;
    }

    /// What was decided in one look is written.
    pub fn written(&self, tally: Tally, applied: &Applied) {
        let mut figures = self.0.lock();
        for (kind, count) in tally.decisions {
            *figures.decisions.entry(kind).or_default() += count;
        }
        for (outcome, count) in tally.attempts {
            *figures.attempts.entry(outcome).or_default() += count;
        }
        for status in tally.ended {
            *figures.ended.entry(status.as_str()).or_default() += 1;
        }
        for waited in &applied.waited {
            figures.waited.add(*waited);
        }
    }
}

/// What one look decided, before it is written.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Tally {
    decisions: BTreeMap<&'static str, u64>,
    attempts: BTreeMap<&'static str, u64>,
    ended: Vec<WorkflowStatus>,
}

impl Tally {
    pub fn of(items: &[Item]) -> Self {
        let mut tally = Self::default();
        for item in items {
            let Some(kind) = kind(item) else { continue };
            *tally.decisions.entry(kind).or_default() += 1;
            match item {
                Item::Settle(settle) => *tally.attempts.entry(outcome(settle)).or_default() += 1,
                Item::Workflow { to, .. } if to.is_over() => tally.ended.push(*to),
                _ => {}
            }
        }
        tally
    }
}

/// What was decided; `None` for what only goes along with a decision.
fn kind(item: &Item) -> Option<&'static str> {
    Some(match item {
        Item::Begin(begun) if begun.resumes.is_some() => "resume",
        Item::Begin(_) => "start",
        Item::Settle(_) => "settle",
        Item::Decide { step: Move { to: To::Skipped, .. }, .. } => "skip",
        Item::Decide { .. } => "fail",
        Item::Talk(_) => "discuss",
        Item::Plan { .. } => "plan",
        Item::Workflow { to: WorkflowStatus::Escalated, .. } => ESCALATE,
        Item::Workflow { to, .. } if to.is_over() => "end",
        Item::Workflow { .. } => "accept_plan",
        Item::Refused { .. } => "refuse_plan",
        _ => return None,
    })
}

/// What was made of an attempt: the move of its own task.
fn outcome(settle: &Settle) -> &'static str {
    let own = settle.moves.iter().find(|(step, _)| step.task == settle.task);
    match own.map(|(step, _)| &step.to) {
        Some(To::Completed { .. }) => "completed",
        Some(To::Retry { .. }) => "retried",
        // Its verdict sends others back.
        Some(To::Reopened) => "sent_back",
        Some(To::Failed { .. }) => "failed",
        Some(To::Paused) => "paused",
        Some(To::AskedAgain) => "asked_again",
        _ => "other",
    }
}
