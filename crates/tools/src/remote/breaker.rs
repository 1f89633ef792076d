//! When a server is left alone: after three failures in a row, for a minute. Then one attempt
//! decides. Pure: the moment is handed in.

use std::time::Duration;

use emergent_domain::time::Timestamp;

pub const MAX_FAILURES: u32 = 3;
pub const OPEN_TIME: Duration = Duration::from_secs(60);

/// What a server failed at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    Connecting,
    Calling,
}

#[derive(Debug, Default)]
pub struct Breaker {
    failures: u32,
    at: Option<FailureKind>,
    open_until: Option<Timestamp>,
    last_error: Option<String>,
}

/// Why nothing is tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CircuitOpen {
    pub until: Timestamp,
    pub last: String,
}

impl Breaker {
    /// Asked before each attempt. Once the rest is over, one attempt is let through, and the others
    /// wait for what becomes of it.
    pub fn try_pass(&mut self, now: Timestamp) -> Result<(), CircuitOpen> {
        match self.open_until {
            Some(until) if now < until => Err(CircuitOpen {
                until,
                last: self.last_error.clone().unwrap_or_else(|| "it failed".into()),
            }),
            Some(_) => {
                self.open_until = Some(now + OPEN_TIME);
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// A call went well.
    pub fn record_success(&mut self) {
        *self = Self::default();
    }

    /// It was reached. That says nothing of calls: one that dies at each is started again each time.
    pub fn record_connect(&mut self) {
        if self.at != Some(FailureKind::Calling) {
            self.record_success();
        }
    }

    pub fn record_failure(&mut self, now: Timestamp, at: FailureKind, why: &str) {
        self.failures += 1;
        self.at = Some(at);
        self.last_error = Some(why.to_owned());
        if self.failures >= MAX_FAILURES {
            self.open_until = Some(now + OPEN_TIME);
        }
    }

    /// Until when nothing is tried; `None` when something would be now.
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
    fn a_server_is_left_alone_after_three_failures_and_tried_once_after_a_minute() {
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
        assert_eq!(breaker.try_pass(at(60)), Ok(()), "one attempt");
        assert!(breaker.try_pass(at(61)).is_err(), "and not two");
        breaker.record_failure(at(62), FailureKind::Calling, "gone");
        assert_eq!(breaker.try_pass(at(100)).unwrap_err().last, "gone");
        assert_eq!(breaker.try_pass(at(122)), Ok(()));
        breaker.record_success();
        assert_eq!(breaker.try_pass(at(122)), Ok(()));
        breaker.record_failure(at(123), FailureKind::Connecting, "once");
        assert_eq!(breaker.try_pass(at(123)), Ok(()), "it counts from the start again");
        breaker.record_failure(at(124), FailureKind::Connecting, "twice");
        breaker.record_connect();
        breaker.record_failure(at(125), FailureKind::Connecting, "not three times");
        assert_eq!(breaker.try_pass(at(126)), Ok(()));
    }
}
