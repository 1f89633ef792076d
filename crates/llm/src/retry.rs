//! Asking again: how often, and how long to wait in between.

use std::time::Duration;

use emergent_net::backoff::{Backoff, random_spread};
use tokio::time::{Instant, sleep, timeout_at};
use tracing::warn;

use crate::Error;

/// How often an address is tried at which nothing listens: enough for a server that is being restarted.
const REFUSED_ATTEMPTS: u32 = 3;

#[derive(Clone, Copy, Debug)]
pub struct RetryPolicy {
    pub attempts: u32,
    pub min_wait: Duration,
    pub max_wait: Duration,
    /// For the whole call, waits included.
    pub deadline: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            attempts: 4,
            min_wait: Duration::from_millis(250),
            max_wait: Duration::from_secs(20),
            deadline: Duration::from_secs(90),
        }
    }
}

impl RetryPolicy {
    /// For conversations: an agent's run has minutes, and giving up loses all it did so far.
    /// The deadline is the run's own.
    pub const CHAT: Self = Self {
        attempts: 8,
        min_wait: Duration::from_millis(500),
        max_wait: Duration::from_secs(30),
        deadline: Duration::MAX,
    };

    /// The wait before the next attempt. The provider's own figure wins: coming back
    /// earlier costs another refusal. `spread` in 0..1 keeps callers that failed
    /// together from coming back together.
    fn backoff(&self, failed: u32, asked: Option<Duration>, spread: f64) -> Duration {
        if let Some(asked) = asked {
            return asked.saturating_add(self.min_wait.mul_f64(spread));
        }
        Backoff::new(self.min_wait, self.max_wait).with_jitter(0.5, 1.0).jittered(failed - 1, spread)
    }

    /// How long to wait after the `failed`th attempt ended in `error`; `None` when asking again
    /// is of no use, or would come after `end`: the caller has other work then.
    pub fn next_wait(&self, failed: u32, error: &Error, end: Instant) -> Option<Duration> {
        let attempts = if error.is_refused() { self.attempts.min(REFUSED_ATTEMPTS) } else { self.attempts };
        if !error.is_retryable() || failed >= attempts {
            return None;
        }
        let wait = self.backoff(failed, error.retry_after(), random_spread());
        let then = Instant::now().checked_add(wait)?;
        (then < end).then_some(wait)
    }

    /// Runs `call` until it succeeds, fails for good, or attempts or time are used up.
    pub async fn run<T, F>(&self, model: &str, call: impl Fn() -> F) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let end = Instant::now() + self.deadline;
        for failed in 1.. {
            let result = timeout_at(end, call()).await.unwrap_or_else(|_| Err(self.timeout_error(model)));
            let error = match result {
                Ok(value) => return Ok(value),
                Err(error) => error,
            };
            let Some(wait) = self.next_wait(failed, &error, end) else { return Err(error) };
            warn!(model, wait_ms = wait.as_millis() as u64, "{error}; asking again");
            sleep(wait).await;
        }
        unreachable!("the last attempt returns")
    }

    fn timeout_error(&self, model: &str) -> Error {
        Error::Overloaded {
            model: model.into(),
            message: format!("no answer within {:?}", self.deadline),
            source: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        future::{pending, ready},
        sync::atomic::{AtomicU32, Ordering},
    };

    use super::*;

    fn busy(retry_after: Option<Duration>) -> Error {
        Error::RateLimited { model: "m".into(), message: String::new(), retry_after }
    }

    /// Runs with `answer` to the first, second… call; returns the outcome and how often it asked.
    async fn asks(
        policy: RetryPolicy,
        answer: impl Fn(u32) -> Result<(), Error>,
    ) -> (Result<(), Error>, u32) {
        let count = AtomicU32::new(0);
        let result = policy.run("m", || ready(answer(count.fetch_add(1, Ordering::Relaxed) + 1))).await;
        (result, count.into_inner())
    }

    #[test]
    fn waits_double_up_to_the_longest() {
        let policy = RetryPolicy::default();
        let waits: Vec<_> = (1..=9).map(|failed| policy.backoff(failed, None, 1.0).as_millis()).collect();
        assert_eq!(waits, [250, 500, 1000, 2000, 4000, 8000, 16000, 20000, 20000]);
        assert_eq!(policy.backoff(1, None, 0.0).as_millis(), 125);
    }

    #[test]
    fn the_providers_wait_is_never_shortened() {
        let asked = Duration::from_secs(30);
        assert!(RetryPolicy::default().backoff(1, Some(asked), 0.0) >= asked);
    }

    const QUICK: RetryPolicy = RetryPolicy {
        attempts: 4,
        min_wait: Duration::from_millis(1),
        max_wait: Duration::from_millis(2),
        deadline: Duration::from_millis(200),
    };

    #[tokio::test]
    async fn attempts_are_bounded() {
        let (result, asked) = asks(QUICK, |_| Err(busy(None))).await;
        assert!(matches!(result, Err(Error::RateLimited { .. })));
        assert_eq!(asked, 4);
    }

    #[tokio::test]
    async fn an_address_at_which_nothing_listens_is_tried_three_times() {
        let refused = || Error::Overloaded {
            model: "m".into(),
            message: String::new(),
            source: Some(Box::new(std::io::Error::from(std::io::ErrorKind::ConnectionRefused))),
        };
        let (result, asked) = asks(QUICK, |_| Err(refused())).await;
        assert!(result.is_err_and(|error| error.is_refused()));
        assert_eq!(asked, 3);
        let far = Instant::now() + Duration::from_secs(3_600);
        let waits: Duration =
            (1..3).filter_map(|failed| RetryPolicy::CHAT.next_wait(failed, &refused(), far)).sum();
        assert!(waits < Duration::from_secs(2), "{waits:?}");
    }

    #[tokio::test]
    async fn a_success_ends_the_asking() {
        let (result, asked) = asks(QUICK, |ask| if ask < 3 { Err(busy(None)) } else { Ok(()) }).await;
        assert!(result.is_ok());
        assert_eq!(asked, 3);
    }

    #[tokio::test]
    async fn an_error_that_will_not_pass_ends_the_call() {
        let (result, asked) = asks(QUICK, |_| Err(Error::Config("no".into()))).await;
        assert!(matches!(result, Err(Error::Config(_))));
        assert_eq!(asked, 1);
    }

    #[tokio::test]
    async fn a_wait_past_the_deadline_is_left_to_the_caller() {
        let hour = Duration::from_secs(3600);
        let (result, asked) = asks(QUICK, |_| Err(busy(Some(hour)))).await;
        assert_eq!(result.unwrap_err().retry_after(), Some(hour));
        assert_eq!(asked, 1);
    }

    #[tokio::test]
    async fn a_call_that_hangs_ends_at_the_deadline() {
        let start = Instant::now();
        let result: Result<(), _> = QUICK.run("m", pending).await;
        assert!(matches!(result, Err(Error::Overloaded { .. })));
        assert!(start.elapsed() >= QUICK.deadline);
    }
}
