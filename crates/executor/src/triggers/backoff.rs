//! When too many runs wait already: what is due stays due, and is left alone for a while, longer
//! each time there is still no room.

use std::time::{Duration, Instant};

use crate::{Error, Result};

const MIN_DELAY: Duration = Duration::from_millis(50);
const MAX_DELAY: Duration = Duration::from_secs(5);

#[derive(Debug, Default)]
pub(super) struct Backoff {
    times: u32,
    until: Option<Instant>,
}

impl Backoff {
    /// Whether it is too early to try again.
    pub fn is_waiting(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() < until)
    }

    /// Learns from what firing came to.
    pub fn record(&mut self, fired: &Result<usize>) {
        match fired {
            Ok(count) if *count > 0 => *self = Self::default(),
            Err(Error::Overloaded { .. }) => {
                self.until = Some(Instant::now() + delay(self.times));
                self.times = self.times.saturating_add(1);
            }
            _ => {}
        }
    }
}

fn delay(times: u32) -> Duration {
    MIN_DELAY.saturating_mul(2_u32.saturating_pow(times)).min(MAX_DELAY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_time_without_room_is_followed_by_a_longer_pause_until_there_is_room_again() {
        let pauses: Vec<u128> = (0..9).map(|times| delay(times).as_millis()).collect();
        assert_eq!(pauses, [50, 100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000]);
        assert_eq!(delay(u32::MAX), MAX_DELAY);
        let mut backoff = Backoff::default();
        assert!(!backoff.is_waiting());
        backoff.record(&Err(Error::Overloaded { limit: "max_queued", waiting: 1 }));
        assert!(backoff.is_waiting());
        backoff.record(&Ok(0));
        assert!(backoff.is_waiting(), "nothing was due: that says nothing about room");
        backoff.record(&Ok(1));
        assert!(!backoff.is_waiting());
    }
}
