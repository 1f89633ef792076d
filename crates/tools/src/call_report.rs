//! What a call to another system tells the run that makes it, besides its result.

use std::{fmt, sync::Arc, time::Duration};

use emergent_domain::run_event::UnavailableServer;
use tokio::time::Instant;

/// A report of a call while it is made.
#[derive(Debug, Clone, PartialEq)]
pub enum CallReport {
    /// The other system makes the call wait.
    Waits {
        server: String,
        /// Completes a sentence that begins with the name of the server.
        reason: String,
        /// The number of such reports of the call, from 1.
        count: u32,
        /// How long it waits at least; zero if a person has to act.
        delay: Duration,
    },
    /// The other system may have done what the call asked for, but its result is not known. The call fails, and must
    /// not be repeated.
    UnknownOutcome,
    /// The call fails, because the server of its tool cannot be reached or cannot be used.
    ServerUnavailable(UnavailableServer),
}

/// Who gets the reports of a call, and how long the run has time for it.
#[derive(Clone)]
pub struct CallReporter {
    pub report: Arc<dyn Fn(CallReport) + Send + Sync>,
    /// Until when the call may wait for people and rate limits of the other system, without regard to its timeout.
    /// `None`: until its timeout.
    pub waits_until: Option<Instant>,
}

impl fmt::Debug for CallReporter {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("CallReporter").field("waits_until", &self.waits_until).finish_non_exhaustive()
    }
}
