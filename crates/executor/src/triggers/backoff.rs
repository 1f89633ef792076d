//! The pause before triggers are fired again after the run queue was full. It grows with each attempt that
//! finds the queue still full.

use std::time::Duration;

use emergent_net::backoff as net;
use tokio::time::Instant;

use crate::{Error, Result};

const DELAYS: net::Backoff = net::Backoff::new(Duration::from_millis(50), Duration::from_secs(5));

/// The current pause of this server.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    /// How often in a row the queue was full.
    failures: u32,
    /// The end of the current pause.
    until: Option<Instant>,
}

impl Backoff {
    /// Whether it is too early to try again.
    pub fn is_waiting(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() < until)
    }

    /// Updates the pause from the result of firing triggers.
    pub fn record(&mut self, fired: &Result<usize>) {
        match fired {
            Ok(count) if *count > 0 => *self = Self::default(),
            Err(Error::Overloaded { .. }) => {
                self.until = Some(Instant::now() + DELAYS.delay(self.failures));
                self.failures = self.failures.saturating_add(1);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_queue_starts_a_pause_that_ends_when_a_firing_succeeds() {
        let mut backoff = Backoff::default();
        assert!(!backoff.is_waiting());
        backoff.record(&Err(Error::Overloaded { limit: "max_queued", waiting: 1 }));
        assert!(backoff.is_waiting());
        backoff.record(&Ok(0));
        assert!(backoff.is_waiting(), "nothing was due, which says nothing about the queue");
        backoff.record(&Ok(1));
        assert!(!backoff.is_waiting());
    }
}
