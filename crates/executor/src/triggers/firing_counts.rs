//! Counts the outcomes of firings for the metrics. A transaction may run more than once, so it counts
//! in a value that is added to the metrics only after the commit.

use std::collections::HashMap;

use emergent_domain::trigger::FiringCause;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family},
};

/// The kind of firings of schedules. All others have the name of their event.
pub const SCHEDULE: &str = "schedule";

/// The labels of a metric about firings.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct FiringLabels {
    /// [`SCHEDULE`], or the event.
    kind: &'static str,
    outcome: &'static str,
}

/// How many firings of each kind had each outcome.
#[derive(Debug, Default)]
pub(crate) struct FiringCounts(HashMap<FiringLabels, u64>);

/// The outcome of a firing as the metrics count it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FiringOutcomeKind {
    /// The firing started a run.
    Fired,
    /// The firing shares the run of another firing.
    Coalesced,
    /// The firing was recorded before.
    Deduplicated,
    /// A rule rejected the firing.
    Dropped,
    /// The run was not admitted.
    Refused,
}

impl FiringOutcomeKind {
    fn as_str(self) -> &'static str {
        match self {
            FiringOutcomeKind::Fired => "fired",
            FiringOutcomeKind::Coalesced => "coalesced",
            FiringOutcomeKind::Deduplicated => "deduplicated",
            FiringOutcomeKind::Dropped => "dropped",
            FiringOutcomeKind::Refused => "refused",
        }
    }
}

impl FiringCounts {
    pub fn add(&mut self, kind: &'static str, outcome: FiringOutcomeKind, count: usize) {
        if count > 0 {
            *self.0.entry(FiringLabels { kind, outcome: outcome.as_str() }).or_default() += count as u64;
        }
    }

    /// Adds the counts to the metrics.
    pub fn add_to(self, counters: &Family<FiringLabels, Counter>) {
        for (labels, count) in self.0 {
            counters.get_or_create(&labels).inc_by(count);
        }
    }
}

/// The kind of a firing in the metrics.
pub(super) fn firing_kind(cause: &FiringCause) -> &'static str {
    match cause {
        FiringCause::Schedule { .. } => SCHEDULE,
        FiringCause::Event { event, .. } => event.as_str(),
    }
}
