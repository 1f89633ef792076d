//! Metrics of the workflows that this process drives, counted since it started. Decisions are counted only
//! after their transaction has committed, because a stale transaction changes nothing.

use std::collections::BTreeMap;

use emergent_domain::workflow::WorkflowStatus;
use emergent_executor::telemetry::seconds_histogram;
use emergent_rules::workflow::transition::{Transition, TransitionTo};
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, histogram::Histogram},
    registry::Registry,
};

use crate::{
    apply::{AttemptEnd, WorkflowWrite},
    workflow_tx::CommitResult,
};

const ESCALATE: &str = "escalate";

/// The metrics. All label values come from this crate and `domain`, so their number needs no limit.
pub(crate) struct Counters {
    ended: Family<EndLabels, Counter>,
    attempts: Family<AttemptLabels, Counter>,
    decisions: Family<DecisionLabels, Counter>,
    queue_seconds: Histogram,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct EndLabels {
    status: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct AttemptLabels {
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DecisionLabels {
    decision: &'static str,
}

impl Default for Counters {
    fn default() -> Self {
        Self {
            ended: Family::default(),
            attempts: Family::default(),
            decisions: Family::default(),
            queue_seconds: seconds_histogram(),
        }
    }
}

impl Counters {
    pub fn register(&self, registry: &mut Registry) {
        registry.register("workflows_ended", "Workflows that ended, by status", self.ended.clone());
        let help = "Attempts at tasks that ended, by conclusion";
        registry.register("task_attempts", help, self.attempts.clone());
        let help = "Committed decisions of the dispatcher";
        registry.register("dispatch_decisions", help, self.decisions.clone());
        let help = "Time that the runs of attempts were queued";
        registry.register("task_wait_seconds", help, self.queue_seconds.clone());
    }

    pub fn record_workflow_end(&self, status: WorkflowStatus) {
        self.ended.get_or_create(&EndLabels { status: status.as_str() }).inc();
    }

    /// Records the escalation of a workflow whose decisions cannot be committed.
    pub fn record_escalation(&self) {
        self.decisions.get_or_create(&DecisionLabels { decision: ESCALATE }).inc();
    }

    /// Records the decisions of one pass over a workflow, once they are committed.
    pub fn record_commit(&self, counts: DecisionCounts, committed: &CommitResult) {
        for (decision, count) in counts.decisions {
            self.decisions.get_or_create(&DecisionLabels { decision }).inc_by(count);
        }
        for (outcome, count) in counts.attempts {
            self.attempts.get_or_create(&AttemptLabels { outcome }).inc_by(count);
        }
        for status in counts.ended {
            self.record_workflow_end(status);
        }
        for queued in &committed.queue_times {
            self.queue_seconds.observe(queued.as_secs_f64());
        }
    }
}

/// The decisions of one pass over a workflow, before they are committed.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct DecisionCounts {
    decisions: BTreeMap<&'static str, u64>,
    attempts: BTreeMap<&'static str, u64>,
    ended: Vec<WorkflowStatus>,
}

impl DecisionCounts {
    /// Counts the decisions behind the writes of a pass.
    pub fn from_writes(writes: &[WorkflowWrite]) -> Self {
        let mut counts = Self::default();
        for write in writes {
            let Some(kind) = decision_label(write) else { continue };
            *counts.decisions.entry(kind).or_default() += 1;
            match write {
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

/// The name of a decision, or `None` for a write that only accompanies one.
fn decision_label(write: &WorkflowWrite) -> Option<&'static str> {
    Some(match write {
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

/// The conclusion of an attempt, which is the transition of its own task.
fn attempt_outcome(end: &AttemptEnd) -> &'static str {
    let own_transition = end.transitions.iter().find(|(transition, _)| transition.task == end.task);
    match own_transition.map(|(transition, _)| &transition.to) {
        Some(TransitionTo::Completed { .. }) => "completed",
        Some(TransitionTo::Retry { .. } | TransitionTo::ReturnedToAgent { .. }) => "retried",
        // The verdict of this attempt sends other tasks back.
        Some(TransitionTo::Reopened) => "sent_back",
        Some(TransitionTo::Failed { .. }) => "failed",
        Some(TransitionTo::Paused) => "paused",
        Some(TransitionTo::AskedAgain) => "asked_again",
        _ => "other",
    }
}
