//! When too many runs wait already: what is due stays due, and is left alone for a while, longer
//! each time there is still no room.

use std::time::Duration;

use emergent_net::backoff as net;
use tokio::time::Instant;

use crate::{Error, Result};

const WAITS: net::Backoff = net::Backoff::new(Duration::from_millis(50), Duration::from_secs(5));

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
                self.until = Some(Instant::now() + WAITS.delay(self.times));
                self.times = self.times.saturating_add(1);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_time_without_room_is_followed_by_a_longer_pause_until_there_is_room_again() {
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
