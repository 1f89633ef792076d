//! Dates in questions: which periods a question names, whether something that was found is of that time, and what that
//! is worth.
//!
//! A date never decides what is found. It only raises what words and vectors have found, so a date that was read
//! wrongly, or an object whose date is wrong, costs places and loses nothing.

use jiff::{
    civil::{Date, Time},
    tz::TimeZone,
};
use serde::Serialize;

use crate::time::Timestamp;

mod bonus;
mod matching;
mod question;

pub use bonus::raise;
pub use matching::{DateMatch, DateSource, ItemDates, VALID_FROM, VALID_TO, find_match};
pub use question::periods_in;

/// The time from one moment up to another, without the latter, in UTC. A side without a moment is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Period {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<Timestamp>,
}

impl Period {
    /// A single moment.
    fn at(moment: Timestamp) -> Self {
        let next = Timestamp::from_micros(moment.as_micros().saturating_add(1));
        Self { from: Some(moment), to: Some(next) }
    }

    /// Whether the two have a moment in common.
    pub fn overlaps(self, other: Self) -> bool {
        let starts_before_end = |one: Self, another: Self| match (one.from, another.to) {
            (Some(from), Some(to)) => from < to,
            _ => true,
        };
        starts_before_end(self, other) && starts_before_end(other, self)
    }
}

/// A date of the calendar, as exactly as it was written. The calendar may not have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CalendarDate {
    Year(i16),
    Month(i16, i8),
    Day(i16, i8, i8),
}

impl CalendarDate {
    /// Reads `2023-05-07` or `2023-05`.
    fn parse_iso(text: &str) -> Option<Self> {
        let mut parts = text.split('-');
        let (year, month) = (parse_digits(parts.next()?, 4)?, parse_digits(parts.next()?, 2)?);
        let month = i8::try_from(month).ok()?;
        let date = match parts.next() {
            Some(day) => Self::Day(year, month, i8::try_from(parse_digits(day, 2)?).ok()?),
            None => Self::Month(year, month),
        };
        parts.next().is_none().then_some(date)
    }

    /// The whole day, month or year. `None` if the calendar does not have it.
    fn period(self) -> Option<Period> {
        let (first, next) = match self {
            Self::Year(year) => (Date::new(year, 1, 1), Date::new(year + 1, 1, 1)),
            Self::Month(year, 12) => (Date::new(year, 12, 1), Date::new(year + 1, 1, 1)),
            Self::Month(year, month) => (Date::new(year, month, 1), Date::new(year, month + 1, 1)),
            Self::Day(year, month, day) => {
                let date = Date::new(year, month, day).ok()?;
                (Ok(date), date.tomorrow())
            }
        };
        Some(Period { from: Some(midnight(first.ok()?)?), to: Some(midnight(next.ok()?)?) })
    }

    fn year(self) -> i16 {
        match self {
            Self::Year(year) | Self::Month(year, _) | Self::Day(year, _, _) => year,
        }
    }
}

/// The first moment of a day in UTC. `None` before the year 1, where a [`Timestamp`] ends.
fn midnight(date: Date) -> Option<Timestamp> {
    let moment = TimeZone::UTC.to_timestamp(date.to_datetime(Time::midnight())).ok()?;
    let timestamp = Timestamp::from_micros(moment.as_microsecond());
    (timestamp.as_micros() == moment.as_microsecond()).then_some(timestamp)
}

/// Reads a number of exactly so many digits, at most four.
fn parse_digits(text: &str, count: usize) -> Option<i16> {
    let is_number = text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A period as `2023-05-07..2023-05-08`; an open side is empty.
    pub(super) fn shown(period: Period) -> String {
        let day = |moment: Option<Timestamp>| {
            let moment = moment.map(|moment| moment.to_string()).unwrap_or_default();
            moment.split('T').next().unwrap_or_default().to_owned()
        };
        format!("{}..{}", day(period.from), day(period.to))
    }

    #[test]
    fn a_date_stands_for_all_of_its_day_or_month() {
        let check = |text: &str, expected: Option<&str>| {
            let period = CalendarDate::parse_iso(text).and_then(CalendarDate::period);
            assert_eq!(period.map(shown).as_deref(), expected, "{text}");
        };
        check("2023-05-07", Some("2023-05-07..2023-05-08"));
        check("2024-02-29", Some("2024-02-29..2024-03-01"));
        check("2023-05", Some("2023-05-01..2023-06-01"));
        check("2023-12", Some("2023-12-01..2024-01-01"));
        for wrong in
            ["2023-02-29", "2023-13", "2023-00-01", "23-05-07", "2023-5-7", "2023-05-07-01", "2023", ""]
        {
            check(wrong, None);
        }
        assert_eq!(CalendarDate::Year(2023).period().map(shown).as_deref(), Some("2023-01-01..2024-01-01"));
        assert_eq!(CalendarDate::Year(9999).period(), None, "nothing can be stored after it");
    }

    #[test]
    fn periods_overlap_if_they_have_a_moment_in_common() {
        let year = |year: i16| CalendarDate::Year(year).period().unwrap();
        let since = |start: i16| Period { from: year(start).from, to: None };
        let until = |end: i16| Period { from: None, to: year(end).from };
        assert!(year(2023).overlaps(year(2023)));
        assert!(!year(2023).overlaps(year(2024)), "the end is not included");
        assert!(since(2023).overlaps(year(2024)) && !since(2024).overlaps(year(2023)));
        assert!(until(2024).overlaps(year(2023)) && !until(2023).overlaps(year(2023)));
        assert!(since(2023).overlaps(until(2024)) && !since(2024).overlaps(until(2024)));
        assert!(Period::at(year(2023).from.unwrap()).overlaps(year(2023)));
        assert!(!Period::at(year(2023).to.unwrap()).overlaps(year(2023)));
    }
}
