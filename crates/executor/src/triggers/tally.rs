//! What became of firings, for the figures. A transaction may run more than once, so it is counted
//! in a value that only a commit hands on.

use std::collections::BTreeMap;

use emergent_domain::trigger::Fired;

/// By kind (`schedule`, or the event) and outcome.
pub type Figures = BTreeMap<(&'static str, &'static str), u64>;

/// The kind of those that are no events.
pub const SCHEDULE: &str = "schedule";

#[derive(Debug, Default)]
pub(crate) struct Tally(Figures);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Started a run.
    Fired,
    /// Shares the run that another started.
    Coalesced,
    /// Was known already.
    Deduplicated,
    /// A rule said no.
    Dropped,
    /// The run was not admitted.
    Refused,
}

impl Outcome {
    fn as_str(self) -> &'static str {
        match self {
            Outcome::Fired => "fired",
            Outcome::Coalesced => "coalesced",
            Outcome::Deduplicated => "deduplicated",
            Outcome::Dropped => "dropped",
            Outcome::Refused => "refused",
        }
    }
}

impl Tally {
    pub fn add(&mut self, kind: &'static str, outcome: Outcome, by: usize) {
        if by > 0 {
            *self.0.entry((kind, outcome.as_str())).or_default() += by as u64;
        }
    }

    pub fn add_to(self, figures: &mut Figures) {
        for (which, count) in self.0 {
            *figures.entry(which).or_default() += count;
        }
    }
}

pub(super) fn kind_of(fired: &Fired) -> &'static str {
    match fired {
        Fired::Schedule { .. } => SCHEDULE,
        Fired::Event { event, .. } => event.as_str(),
    }
}
