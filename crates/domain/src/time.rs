//! Timestamps and clocks.
//!
//! PostgreSQL stores microseconds, so a timestamp has no finer resolution. A value therefore
//! survives a round trip through either database unchanged.

use std::{
    fmt,
    str::FromStr,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Microseconds since 1970, displayed as RFC 3339 in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The years 1 to 9999, which RFC 3339 can represent and both databases can store.
    const RANGE: std::ops::RangeInclusive<i64> = -62_135_596_800_000_000..=253_402_207_200_999_999;

    pub fn from_micros(micros: i64) -> Self {
        Self(micros.clamp(*Self::RANGE.start(), *Self::RANGE.end()))
    }

    pub fn as_micros(self) -> i64 {
        self.0
    }

    #[expect(clippy::disallowed_methods, reason = "this is where the system clock is read")]
    pub fn now() -> Self {
        Self(jiff::Timestamp::now().as_microsecond())
    }

    pub fn since(self, earlier: Timestamp) -> Duration {
        Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

impl std::ops::Add<Duration> for Timestamp {
    type Output = Self;
    fn add(self, by: Duration) -> Self {
        let micros = i64::try_from(by.as_micros()).unwrap_or(i64::MAX);
        Self::from_micros(self.0.saturating_add(micros))
    }
}

impl std::ops::Sub<Duration> for Timestamp {
    type Output = Self;
    fn sub(self, by: Duration) -> Self {
        let micros = i64::try_from(by.as_micros()).unwrap_or(i64::MAX);
        Self::from_micros(self.0.saturating_sub(micros))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_microsecond(self.0) {
            Ok(moment) => write!(f, "{moment:.6}"),
            Err(_) => write!(f, "{}", self.0),
        }
    }
}

impl FromStr for Timestamp {
    type Err = jiff::Error;
    fn from_str(text: &str) -> Result<Self, jiff::Error> {
        let moment: jiff::Timestamp = text.parse()?;
        Ok(Self::from_micros(moment.as_microsecond()))
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(from)?;
        text.parse().map_err(|_| de::Error::custom("expected a time such as 2026-01-31T08:00:00Z"))
    }
}

/// A source of the current time. Servers use [`Clock::system`]; tests use a clock that they
/// advance.
#[derive(Debug, Clone)]
pub struct Clock(ClockSource);

#[derive(Debug, Clone)]
enum ClockSource {
    System,
    Fixed(Arc<AtomicI64>),
}

impl Clock {
    pub fn system() -> Self {
        Self(ClockSource::System)
    }

    /// Returns a clock that does not move until [`Clock::advance`] is called.
    pub fn fixed_at(start: Timestamp) -> Self {
        Self(ClockSource::Fixed(Arc::new(AtomicI64::new(start.as_micros()))))
    }

    #[expect(clippy::disallowed_methods, reason = "the clock of a server is the system clock")]
    pub fn now(&self) -> Timestamp {
        match &self.0 {
            ClockSource::System => Timestamp::now(),
            ClockSource::Fixed(micros) => Timestamp(micros.load(Ordering::SeqCst)),
        }
    }

    /// Advances a fixed clock. The system clock ignores the call.
    pub fn advance(&self, by: Duration) {
        if let ClockSource::Fixed(micros) = &self.0 {
            let by = i64::try_from(by.as_micros()).unwrap_or(i64::MAX);
            micros.fetch_add(by, Ordering::SeqCst);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_survives_being_written_and_read() {
        let moment: Timestamp = "2026-01-31T08:00:00.123456Z".parse().unwrap();
        assert_eq!(moment.to_string(), "2026-01-31T08:00:00.123456Z");
        assert_eq!(moment.to_string().parse::<Timestamp>().unwrap(), moment);
    }

    #[test]
    fn a_held_clock_moves_only_when_told() {
        let clock = Clock::fixed_at(Timestamp::from_micros(0));
        assert_eq!(clock.now(), clock.now());
        clock.advance(Duration::from_secs(2));
        assert_eq!(clock.now().as_micros(), 2_000_000);
    }
}
