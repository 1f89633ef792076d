//! Decides whether something that was found is of a period that the question names.

use std::collections::BTreeMap;

use jiff::{civil::DateTime, tz::TimeZone};
use serde::Serialize;

use super::{CalendarDate, Period, parse_digits};
use crate::time::Timestamp;

/// The properties that say from when until when something is true.
pub const VALID_FROM: &str = "validFrom";
pub const VALID_TO: &str = "validTo";
/// What a match by the time of the writing is called.
const CREATED_AT: &str = "createdAt";

/// What is known about the time of an object, or of the document of a passage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ItemDates {
    pub created_at: Timestamp,
    /// Properties whose text may be a date, by their names. Of `validFrom` and `validTo`, a number is one too, as text.
    pub properties: BTreeMap<String, String>,
}

/// By what something is of a period that the question names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DateMatch {
    /// The name of the property.
    pub property: String,
    /// The period of the question.
    #[serde(flatten)]
    pub period: Period,
    #[serde(skip)]
    pub source: DateSource,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DateSource {
    /// A property says so.
    Property,
    /// It was written then.
    Creation,
}

/// The first of the periods that something is of, by its dates in the order of their names. If `validFrom` or `validTo`
/// says when it is true, other properties do not count: they may be the days of a download or of a change.
///
/// The time of the writing counts only if there is no other date. After an import, all objects were written on the same
/// day, and an object that says its own time knows better.
pub fn find_match(dates: &ItemDates, periods: &[Period]) -> Option<DateMatch> {
    let own_dates = own_dates(dates);
    let (source, dates) = match own_dates.is_empty() {
        true => (DateSource::Creation, vec![(CREATED_AT, Period::at(dates.created_at))]),
        false => (DateSource::Property, own_dates),
    };
    let found = dates.into_iter().find_map(|(property, date)| {
        let period = periods.iter().find(|period| period.overlaps(date))?;
        Some((property, *period))
    });
    found.map(|(property, period)| DateMatch { property: property.to_owned(), period, source })
}

/// The dates that the properties say, each with the name of its property.
fn own_dates(dates: &ItemDates) -> Vec<(&str, Period)> {
    if let Some(period) = valid_period(dates) {
        return vec![period];
    }
    let texts = dates.properties.iter();
    texts.filter_map(|(name, text)| Some((name.as_str(), PropertyDate::parse(text)?.period()?))).collect()
}

/// From when until when something is true. As in the history of an object, it is no longer true on the day of `validTo`;
/// a month or a year in `validTo` is included, since nothing says when in it the truth ended.
fn valid_period(dates: &ItemDates) -> Option<(&'static str, Period)> {
    let parse = |name: &str| {
        let text = dates.properties.get(name)?;
        let year = || parse_digits(text, 4).map(|year| PropertyDate::Calendar(CalendarDate::Year(year)));
        let date = PropertyDate::parse(text).or_else(year)?;
        Some((date, date.period()?))
    };
    let (from, to) = (parse(VALID_FROM), parse(VALID_TO));
    let end = to.and_then(|(date, period)| match date {
        PropertyDate::Calendar(CalendarDate::Year(_) | CalendarDate::Month(..)) => period.to,
        PropertyDate::Calendar(CalendarDate::Day(..)) | PropertyDate::Moment(_) => period.from,
    });
    match (from, end) {
        // What begins and ends on the same day is true on that day.
        (Some((_, first)), Some(end)) => {
            let end = if first.from < Some(end) { Some(end) } else { first.to };
            Some((VALID_FROM, Period { from: first.from, to: end }))
        }
        (Some((_, first)), None) => Some((VALID_FROM, Period { from: first.from, to: None })),
        (None, Some(end)) => Some((VALID_TO, Period { from: None, to: Some(end) })),
        (None, None) => None,
    }
}

/// The value of a property that is a date or a time.
#[derive(Debug, Clone, Copy)]
enum PropertyDate {
    Calendar(CalendarDate),
    Moment(Timestamp),
}

impl PropertyDate {
    /// Reads `2023-05-07`, `2023-05` or a time such as `2023-05-07T10:00:00Z`. A time without an offset is one in UTC.
    fn parse(text: &str) -> Option<Self> {
        if let Some(date) = CalendarDate::parse_iso(text) {
            return Some(Self::Calendar(date));
        }
        CalendarDate::parse_iso(text.get(..10)?)?;
        if let Ok(moment) = text.parse::<Timestamp>() {
            return Some(Self::Moment(moment));
        }
        let moment = TimeZone::UTC.to_timestamp(text.parse::<DateTime>().ok()?).ok()?;
        Some(Self::Moment(Timestamp::from_micros(moment.as_microsecond())))
    }

    /// `None` if the calendar does not have the date.
    fn period(self) -> Option<Period> {
        match self {
            Self::Calendar(date) => date.period(),
            Self::Moment(moment) => Some(Period::at(moment)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dates::{periods_in, tests::shown};

    /// What makes an object with these properties, written on 31 January 2026, one of the time of a question.
    fn matched(question: &str, properties: &[(&str, &str)]) -> Option<String> {
        let properties =
            properties.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
        let created_at = "2026-01-31T08:00:00Z".parse().unwrap();
        let found = find_match(&ItemDates { created_at, properties }, &periods_in(question))?;
        assert_eq!(found.source == DateSource::Creation, found.property == CREATED_AT);
        Some(format!("{} {}", found.property, shown(found.period)))
    }

    fn check(question: &str, properties: &[(&str, &str)], expected: Option<&str>) {
        assert_eq!(matched(question, properties).as_deref(), expected, "{question} {properties:?}");
    }

    #[test]
    fn a_date_of_any_property_counts() {
        let may = Some("date 2023-05-01..2023-06-01");
        for text in
            ["2023-05-20", "2023-05", "2023-05-20T10:00:00Z", "2023-05-20T10:00", "2023-05-20 10:00:00"]
        {
            check("in May 2023", &[("date", text)], may);
        }
        check("in May 2023", &[("date", "2023-06-01T01:00:00+02:00")], may);
        check("in May 2023", &[("date", "2023-06-01")], None);
        check("in May 2023", &[("b", "2023-05-20"), ("a", "2023-05-21")], Some("a 2023-05-01..2023-06-01"));
        check("in 2020 or in May 2023", &[("date", "2023-05-20")], may);
        check("after 2020", &[("date", "2023-05-20")], Some("date 2021-01-01.."));
        check("before 2020", &[("date", "2023-05-20")], None);
    }

    #[test]
    fn what_was_valid_at_the_time_counts() {
        let from_to = [("validFrom", "2022-01-01"), ("validTo", "2023-01-01")];
        check("on 7 May 2022", &from_to, Some("validFrom 2022-05-07..2022-05-08"));
        check("in 2023", &from_to, None);
        check("in 2021", &from_to, None);
        check("on 7 May 2023", &[("validFrom", "2022")], Some("validFrom 2023-05-07..2023-05-08"));
        check("on 7 May 2023", &[("validTo", "2022-03")], None);
        check("on 7 March 2022", &[("validTo", "2022-03")], Some("validTo 2022-03-07..2022-03-08"));
        let one_day = [("validFrom", "2023-05-07"), ("validTo", "2023-05-07")];
        check("on 7 May 2023", &one_day, Some("validFrom 2023-05-07..2023-05-08"));
        check("on 8 May 2023", &one_day, None);
        check(
            "in 2023",
            &[("validFrom", "2023"), ("validTo", "2023")],
            Some("validFrom 2023-01-01..2024-01-01"),
        );
    }

    #[test]
    fn no_other_date_counts_beside_a_validity() {
        let downloaded = ("downloaded", "2023-05-07");
        check("in 2023", &[("validFrom", "2022"), ("validTo", "2022"), downloaded], None);
        check("in 2023", &[("validTo", "2022-01-01"), downloaded], None);
        check("in 2021", &[("validTo", "2022-01-01"), downloaded], Some("validTo 2021-01-01..2022-01-01"));
        let unknown = [("validFrom", "2022-55"), downloaded];
        check("in 2023", &unknown, Some("downloaded 2023-01-01..2024-01-01"));
    }

    #[test]
    fn the_time_of_the_writing_counts_if_there_is_no_other_date() {
        check("in January 2026", &[], Some("createdAt 2026-01-01..2026-02-01"));
        check("in February 2026", &[], None);
        check("in January 2026", &[("date", "2023-05-20")], None);
        let no_dates =
            [("code", "2023-55"), ("size", "2023"), ("when", "2023-05-07 or later"), ("x", "20é3")];
        check("in January 2026", &no_dates, Some("createdAt 2026-01-01..2026-02-01"));
    }

    #[test]
    fn without_a_date_in_the_question_nothing_matches() {
        check("who led the team?", &[("validFrom", "2022-01-01")], None);
    }
}
