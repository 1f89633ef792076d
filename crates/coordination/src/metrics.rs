//! Counts decisions about workflows in this process since its start. Decisions are counted when their
//! transaction has committed, because a stale one has decided nothing.

use std::collections::BTreeMap;

use emergent_domain::workflow::WorkflowStatus;
use emergent_executor::telemetry::Histogram;
use emergent_rules::workflow::transition::{Transition, TransitionTo};
use parking_lot::Mutex;

use crate::{
    apply::{AttemptEnd, WorkflowWrite},
    workflow_tx::CommitResult,
};

const ESCALATE: &str = "escalate";

/// All counts so far. Labels come from fixed sets, so there are few.
#[derive(Debug, Clone, Default)]
pub struct MetricsSnapshot {
    /// Workflows that ended, by status.
    pub ended: BTreeMap<&'static str, u64>,
    /// Attempts that ended, by outcome.
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

    /// Counts a workflow that was escalated because its changes could not be written.
    pub fn record_escalation(&self) {
        *self.0.lock().decisions.entry(ESCALATE).or_default() += 1;
    }

    /// Counts the decisions of a committed batch.
    pub fn record_commit(&self, counts: DecisionCounts, applied: &CommitResult) {
        let mut metrics = self.0.lock();
        for (kind, count) in counts.decisions {
            *metrics.decisions.entry(kind).or_default() += count;
        }
        for (outcome, count) in counts.attempts {
            *metrics.attempts.entry(outcome).or_default() += count;
        }
        for status in counts.ended {
            *metrics.ended.entry(status.as_str()).or_default() += 1;
        }
        for waited in &applied.queue_times {
            metrics.queue_time.add(*waited);
        }
    }
}

/// The decisions of one batch.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct DecisionCounts {
    decisions: BTreeMap<&'static str, u64>,
    attempts: BTreeMap<&'static str, u64>,
    ended: Vec<WorkflowStatus>,
}

impl DecisionCounts {
    pub fn from_writes(items: &[WorkflowWrite]) -> Self {
        let mut counts = Self::default();
        for item in items {
            let Some(kind) = decision_label(item) else { continue };
            *counts.decisions.entry(kind).or_default() += 1;
            match item {
                WorkflowWrite::ConcludeAttempt(end) => {
                    *counts.attempts.entry(attempt_outcome(end)).or_default() += 1
                }
                WorkflowWrite::MoveWorkflow { to, .. } if to.is_terminal() => counts.ended.push(*to),
                _ => {}
            }
        }
        counts
    }
}

/// The label of a decision; `None` for a write that only accompanies one.
fn decision_label(item: &WorkflowWrite) -> Option<&'static str> {
    Some(match item {
        WorkflowWrite::StartAttempt(attempt) if attempt.resumed_run.is_some() => "resume",
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

/// The outcome of an attempt: the transition of its own task.
fn attempt_outcome(end: &AttemptEnd) -> &'static str {
    let own = end.transitions.iter().find(|(step, _)| step.task == end.task);
    match own.map(|(step, _)| &step.to) {
        Some(TransitionTo::Completed { .. }) => "completed",
        Some(TransitionTo::Retry { .. }) => "retried",
        // Its verdict sends other tasks back.
        Some(TransitionTo::Reopened) => "sent_back",
        Some(TransitionTo::Failed { .. }) => "failed",
        Some(TransitionTo::Paused) => "paused",
        Some(TransitionTo::AskedAgain) => "asked_again",
        _ => "other",
    }
}
