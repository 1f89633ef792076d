//! When a run was created, started and ended: what the metrics of a task need of it.

use std::time::Duration;

use emergent_domain::{run::Run, time::Timestamp};

/// The times of a run that has ended. They do not change any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RunTimes {
    created: Timestamp,
    pub started: Option<Timestamp>,
    pub ended: Option<Timestamp>,
}

impl From<&Run> for RunTimes {
    fn from(run: &Run) -> Self {
        Self { created: run.created_at, started: run.started_at, ended: run.completed_at }
    }
}

impl RunTimes {
    /// How long the run was queued, if it was started.
    pub fn queued(&self) -> Option<Duration> {
        Some(self.started?.since(self.created))
    }
}
