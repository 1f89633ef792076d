//! The circuit breaker of one MCP server: after three failures in a row, it blocks every attempt for a
//! minute, then lets one attempt through. It does no I/O, and the caller passes the current time.

use std::time::Duration;

use emergent_domain::time::Timestamp;

/// The breaker opens after this many failures in a row.
pub const MAX_FAILURES: u32 = 3;
/// How long the breaker blocks attempts.
pub const OPEN_TIME: Duration = Duration::from_secs(60);

/// The operation that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    Connecting,
    Calling,
}

/// Counts the failures of one server, and decides whether it may be tried.
#[derive(Debug, Default)]
pub struct Breaker {
    failures: u32,
    last_kind: Option<FailureKind>,
    open_until: Option<Timestamp>,
    last_error: Option<String>,
}

/// The breaker is open: until when, and the error of the last attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CircuitOpen {
    pub until: Timestamp,
    pub last: String,
}

impl Breaker {
    /// Must be called before each attempt. When `OPEN_TIME` is over, one attempt passes, and the breaker
    /// blocks the others until that attempt succeeds or `OPEN_TIME` is over again.
    pub fn try_pass(&mut self, now: Timestamp) -> Result<(), CircuitOpen> {
        match self.open_until {
            Some(until) if now < until => Err(CircuitOpen {
                until,
                last: self.last_error.clone().unwrap_or_else(|| "the last attempt failed".into()),
            }),
            Some(_) => {
                self.open_until = Some(now + OPEN_TIME);
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// A call succeeded: closes the breaker and forgets all failures.
    pub fn record_success(&mut self) {
        *self = Self::default();
    }

    /// Connecting succeeded. This resets only failures to connect: a server that crashes at every call can
    /// be connected each time, and must not be tried for ever.
    pub fn record_connect(&mut self) {
        if self.last_kind != Some(FailureKind::Calling) {
            self.record_success();
        }
    }

    pub fn record_failure(&mut self, now: Timestamp, kind: FailureKind, reason: &str) {
        self.failures += 1;
        self.last_kind = Some(kind);
        self.last_error = Some(reason.to_owned());
        if self.failures >= MAX_FAILURES {
            self.open_until = Some(now + OPEN_TIME);
        }
    }

    /// Until when the breaker is open; `None` if it lets an attempt through now.
    pub fn open_until(&self, now: Timestamp) -> Option<Timestamp> {
        self.open_until.filter(|until| now < *until)
    }

    pub fn is_open(&self, now: Timestamp) -> bool {
        self.open_until(now).is_some()
    }

    pub fn last_error(&self) -> Option<&str> {
        self.last_error.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_breaker_opens_after_three_failures_and_lets_one_attempt_through_after_a_minute() {
        let start = Timestamp::from_micros(0);
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut breaker = Breaker::default();
        for _ in 0..MAX_FAILURES {
            assert_eq!(breaker.try_pass(start), Ok(()));
            breaker.record_failure(start, FailureKind::Calling, "no answer");
            breaker.record_connect();
        }
        assert_eq!((breaker.open_until(at(59)), breaker.open_until(at(60))), (Some(at(60)), None));
        assert_eq!(breaker.try_pass(at(59)), Err(CircuitOpen { until: at(60), last: "no answer".into() }));
        assert_eq!(breaker.try_pass(at(60)), Ok(()), "the first attempt after a minute passes");
        assert!(breaker.try_pass(at(61)).is_err(), "the second attempt does not pass");
        breaker.record_failure(at(62), FailureKind::Calling, "gone");
        assert_eq!(breaker.try_pass(at(100)).unwrap_err().last, "gone");
        assert_eq!(breaker.try_pass(at(122)), Ok(()));
        breaker.record_success();
        assert_eq!(breaker.try_pass(at(122)), Ok(()));
        breaker.record_failure(at(123), FailureKind::Connecting, "once");
        assert_eq!(breaker.try_pass(at(123)), Ok(()), "a success resets the count");
        breaker.record_failure(at(124), FailureKind::Connecting, "twice");
        breaker.record_connect();
        breaker.record_failure(at(125), FailureKind::Connecting, "not three times");
        assert_eq!(breaker.try_pass(at(126)), Ok(()));
    }
}
