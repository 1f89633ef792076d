//! The clock of one tool call. It stops while a person is asked for input, or another system makes the call wait, so
//! that this time does not count towards the timeouts of the call.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};

/// The clock of one call. Clones are the same clock.
#[derive(Debug, Clone)]
pub struct CallClock(Arc<watch::Sender<ClockState>>);

#[derive(Debug, Clone, Copy, Default)]
struct ClockState {
    /// How many pauses are active.
    pauses: usize,
    /// Since when the clock stands still.
    since: Option<Instant>,
    /// How long the clock stood still before that.
    paused: Duration,
}

impl ClockState {
    fn total_paused(&self) -> Duration {
        self.paused + self.since.map_or(Duration::ZERO, |since| since.elapsed())
    }
}

impl Default for CallClock {
    fn default() -> Self {
        Self(Arc::new(watch::channel(ClockState::default()).0))
    }
}

impl CallClock {
    /// Stops the clock until the value is dropped.
    pub fn pause(&self) -> ClockPause {
        self.0.send_modify(|state| {
            state.pauses += 1;
            state.since.get_or_insert_with(Instant::now);
        });
        ClockPause(self.clone())
    }

    /// Returns what the work returns; `None` if the work takes longer than `within` by this clock.
    pub async fn timeout<T>(&self, within: Duration, work: impl Future<Output = T>) -> Option<T> {
        let mut changes = self.0.subscribe();
        let (started, paused_before) = (Instant::now(), changes.borrow().total_paused());
        let mut work = std::pin::pin!(work);
        loop {
            let state = *changes.borrow_and_update();
            let deadline = started + within + state.paused.saturating_sub(paused_before);
            tokio::select! {
                biased;
                output = &mut work => return Some(output),
                () = sleep_until(deadline), if state.since.is_none() => return None,
                _ = changes.changed() => {}
            }
        }
    }
}

/// Stops the clock of a call until it is dropped.
#[derive(Debug)]
pub struct ClockPause(CallClock);

impl Drop for ClockPause {
    fn drop(&mut self) {
        self.0.0.send_modify(|state| {
            state.pauses -= 1;
            if state.pauses == 0 {
                state.paused = state.total_paused();
                state.since = None;
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_time_of_a_pause_does_not_count() {
        let clock = CallClock::default();
        let work = async {
            sleep(Duration::from_secs(1)).await;
            {
                let (_one, _two) = (clock.pause(), clock.pause());
                sleep(Duration::from_secs(1_000)).await;
            }
            sleep(Duration::from_secs(2)).await;
        };
        assert_eq!(clock.timeout(Duration::from_secs(4), work).await, Some(()));
        let late = clock.timeout(Duration::from_secs(4), sleep(Duration::from_secs(5))).await;
        assert_eq!(late, None, "earlier pauses do not count for later work");
        let pause = clock.pause();
        let started_in_pause = async {
            sleep(Duration::from_secs(10)).await;
            drop(pause);
            sleep(Duration::from_secs(5)).await;
        };
        assert_eq!(clock.timeout(Duration::from_secs(4), started_in_pause).await, None);
    }
}
