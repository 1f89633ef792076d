//! Counts the outcomes of firings for the metrics. A transaction may run more than once, so it counts
//! in a value that is added to the metrics only after the commit.

use std::collections::BTreeMap;

use emergent_domain::trigger::FiringCause;

/// The counts by kind (`schedule`, or the event) and outcome.
pub type FiringTotals = BTreeMap<(&'static str, &'static str), u64>;

/// The kind of firings by schedules.
pub const SCHEDULE: &str = "schedule";

#[derive(Debug, Default)]
pub(crate) struct FiringCounts(FiringTotals);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FiringOutcomeKind {
    /// The firing started a run.
    Fired,
    /// The firing shares the run that another one started.
    Coalesced,
    /// The firing existed already.
    Deduplicated,
    /// A rule skipped the firing.
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
    pub fn add(&mut self, kind: &'static str, outcome: FiringOutcomeKind, by: usize) {
        if by > 0 {
            *self.0.entry((kind, outcome.as_str())).or_default() += by as u64;
        }
    }

    pub fn add_to(self, figures: &mut FiringTotals) {
        for (which, count) in self.0 {
            *figures.entry(which).or_default() += count;
        }
    }
}

pub(super) fn firing_kind(fired: &FiringCause) -> &'static str {
    match fired {
        FiringCause::Schedule { .. } => SCHEDULE,
        FiringCause::Event { event, .. } => event.as_str(),
    }
}
