//! When a server is left alone: after three failures in a row, for a minute. Then one attempt
//! decides. Pure: the moment is handed in.

use std::time::Duration;

use emergent_domain::time::Timestamp;

pub const FAILURES: u32 = 3;
pub const REST: Duration = Duration::from_secs(60);

/// What a server failed at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failed {
    Connecting,
    Calling,
}

#[derive(Debug, Default)]
pub struct Breaker {
    failures: u32,
    at: Option<Failed>,
    shut_until: Option<Timestamp>,
    last: Option<String>,
}

/// Why nothing is tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shut {
    pub until: Timestamp,
    pub last: String,
}

impl Breaker {
    /// Asked before each attempt. Once the rest is over, one attempt is let through, and the others
    /// wait for what becomes of it.
    pub fn may_try(&mut self, now: Timestamp) -> Result<(), Shut> {
        match self.shut_until {
            Some(until) if now < until => {
                Err(Shut { until, last: self.last.clone().unwrap_or_else(|| "it failed".into()) })
            }
            Some(_) => {
                self.shut_until = Some(now + REST);
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// A call went well.
    pub fn succeeded(&mut self) {
        *self = Self::default();
    }

    /// It was reached. That says nothing of calls: one that dies at each is started again each time.
    pub fn connected(&mut self) {
        if self.at != Some(Failed::Calling) {
            self.succeeded();
        }
    }

    pub fn failed(&mut self, now: Timestamp, at: Failed, why: &str) {
        self.failures += 1;
        self.at = Some(at);
        self.last = Some(why.to_owned());
        if self.failures >= FAILURES {
            self.shut_until = Some(now + REST);
        }
    }

    /// Until when nothing is tried; `None` when something would be now.
    pub fn shut_until(&self, now: Timestamp) -> Option<Timestamp> {
        self.shut_until.filter(|until| now < *until)
    }

    pub fn is_shut(&self, now: Timestamp) -> bool {
        self.shut_until(now).is_some()
    }

    pub fn last(&self) -> Option<&str> {
        self.last.as_deref()
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
        for _ in 0..FAILURES {
            assert_eq!(breaker.may_try(start), Ok(()));
            breaker.failed(start, Failed::Calling, "no answer");
            breaker.connected();
        }
        assert_eq!((breaker.shut_until(at(59)), breaker.shut_until(at(60))), (Some(at(60)), None));
        assert_eq!(breaker.may_try(at(59)), Err(Shut { until: at(60), last: "no answer".into() }));
        assert_eq!(breaker.may_try(at(60)), Ok(()), "one attempt");
        assert!(breaker.may_try(at(61)).is_err(), "and not two");
        breaker.failed(at(62), Failed::Calling, "gone");
        assert_eq!(breaker.may_try(at(100)).unwrap_err().last, "gone");
        assert_eq!(breaker.may_try(at(122)), Ok(()));
        breaker.succeeded();
        assert_eq!(breaker.may_try(at(122)), Ok(()));
        breaker.failed(at(123), Failed::Connecting, "once");
        assert_eq!(breaker.may_try(at(123)), Ok(()), "it counts from the start again");
        breaker.failed(at(124), Failed::Connecting, "twice");
        breaker.connected();
        breaker.failed(at(125), Failed::Connecting, "not three times");
        assert_eq!(breaker.may_try(at(126)), Ok(()));
    }
}
