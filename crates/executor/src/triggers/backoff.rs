//! Backoff while the run queue is full: due triggers stay due, and the delay until the next attempt
//! grows.

use std::time::{Duration, Instant};

use crate::{Error, Result};

const MIN_DELAY: Duration = Duration::from_millis(50);
const MAX_DELAY: Duration = Duration::from_secs(5);

#[derive(Debug, Default)]
pub(super) struct Backoff {
    attempts: u32,
    until: Option<Instant>,
}

impl Backoff {
    /// Whether the next attempt has to wait.
    pub fn is_waiting(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() < until)
    }

    /// Adjusts the delay to the result of an attempt.
    pub fn record(&mut self, fired: &Result<usize>) {
        match fired {
            Ok(count) if *count > 0 => *self = Self::default(),
            Err(Error::Overloaded { .. }) => {
                self.until = Some(Instant::now() + delay(self.attempts));
                self.attempts = self.attempts.saturating_add(1);
            }
            _ => {}
        }
    }
}

fn delay(attempts: u32) -> Duration {
    MIN_DELAY.saturating_mul(2_u32.saturating_pow(attempts)).min(MAX_DELAY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_attempt_on_a_full_queue_is_followed_by_a_longer_delay_until_a_run_is_admitted() {
        let delays: Vec<u128> = (0..9).map(|attempts| delay(attempts).as_millis()).collect();
        assert_eq!(delays, [50, 100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000]);
        assert_eq!(delay(u32::MAX), MAX_DELAY);
        let mut backoff = Backoff::default();
        assert!(!backoff.is_waiting());
        backoff.record(&Err(Error::Overloaded { limit: "max_queued", waiting: 1 }));
        assert!(backoff.is_waiting());
        backoff.record(&Ok(0));
        assert!(backoff.is_waiting(), "nothing was due, which says nothing about the capacity");
        backoff.record(&Ok(1));
        assert!(!backoff.is_waiting());
    }
}
