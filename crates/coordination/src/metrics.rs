//! What this process counts of the workflows it walks, since it started. It is counted when a
//! transaction has committed: one that came too late has decided nothing.

use std::collections::BTreeMap;

use emergent_domain::workflow::WorkflowStatus;
use emergent_executor::telemetry::Histogram;
use emergent_rules::workflow::conclude::{Transition, TransitionTo};
use parking_lot::Mutex;

use crate::apply::{AttemptEnd, CommitResult, WorkflowWrite};

const ESCALATE: &str = "escalate";

/// Everything counted so far. Labels are words of this house, so there are few.
#[derive(Debug, Clone, Default)]
pub struct MetricsSnapshot {
    /// Workflows that ended, by status.
    pub ended: BTreeMap<&'static str, u64>,
    /// Attempts that ended, by what was made of them.
    pub attempts: BTreeMap<&'static str, u64>,
    /// Decisions that were written, by kind.
    pub decisions: BTreeMap<&'static str, u64>,
    /// How long the runs of attempts were queued.
    pub queue_time: Histogram,
}

#[derive(Default)]
pub(crate) struct Counters(Mutex<MetricsSnapshot>);

impl Counters {
    pub fn snapshot(&self) -> MetricsSnapshot {
        self.0.lock().clone()
    }

    pub fn record_workflow_end(&self, status: WorkflowStatus) {
        *self.0.lock().ended.entry(status.as_str()).or_default() += 1;
    }

    /// What cannot be written however often it is tried went to a person.
    pub fn record_escalation(&self) {
        *self.0.lock().decisions.entry(ESCALATE).or_default() += 1;
    }

    /// What was decided in one look is written.
    pub fn record_commit(&self, tally: DecisionCounts, applied: &CommitResult) {
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
        for waited in &applied.queue_times {
            figures.queue_time.add(*waited);
        }
    }
}

/// What one look decided, before it is written.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct DecisionCounts {
    decisions: BTreeMap<&'static str, u64>,
    attempts: BTreeMap<&'static str, u64>,
    ended: Vec<WorkflowStatus>,
}

impl DecisionCounts {
    pub fn from_writes(items: &[WorkflowWrite]) -> Self {
        let mut tally = Self::default();
        for item in items {
            let Some(kind) = decision_label(item) else { continue };
            *tally.decisions.entry(kind).or_default() += 1;
            match item {
                WorkflowWrite::ConcludeAttempt(settle) => {
                    *tally.attempts.entry(attempt_outcome(settle)).or_default() += 1
                }
                WorkflowWrite::MoveWorkflow { to, .. } if to.is_terminal() => tally.ended.push(*to),
                _ => {}
            }
        }
        tally
    }
}

/// What was decided; `None` for what only goes along with a decision.
fn decision_label(item: &WorkflowWrite) -> Option<&'static str> {
    Some(match item {
        WorkflowWrite::StartAttempt(begun) if begun.resumed_run.is_some() => "resume",
        WorkflowWrite::StartAttempt(_) => "start",
        WorkflowWrite::ConcludeAttempt(_) => "settle",
        WorkflowWrite::ChangeTask { step: Transition { to: TransitionTo::Skipped, .. }, .. } => "skip",
        WorkflowWrite::ChangeTask { .. } => "fail",
        WorkflowWrite::AdvanceDiscussion(_) => "discuss",
        WorkflowWrite::StartPlanner { .. } => "plan",
        WorkflowWrite::MoveWorkflow { to: WorkflowStatus::Escalated, .. } => ESCALATE,
        WorkflowWrite::MoveWorkflow { to, .. } if to.is_terminal() => "end",
        WorkflowWrite::MoveWorkflow { .. } => "accept_plan",
        WorkflowWrite::RejectPlan { .. } => "refuse_plan",
        _ => return None,
    })
}

/// What was made of an attempt: the move of its own task.
fn attempt_outcome(settle: &AttemptEnd) -> &'static str {
    let own = settle.transitions.iter().find(|(step, _)| step.task == settle.task);
    match own.map(|(step, _)| &step.to) {
        Some(TransitionTo::Completed { .. }) => "completed",
        Some(TransitionTo::Retry { .. }) => "retried",
        // Its verdict sends others back.
        Some(TransitionTo::Reopened) => "sent_back",
        Some(TransitionTo::Failed { .. }) => "failed",
        Some(TransitionTo::Paused) => "paused",
        Some(TransitionTo::AskedAgain) => "asked_again",
        _ => "other",
    }
}
