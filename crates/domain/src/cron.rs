//! Cron expressions: five fields, read here for the check of a definition and for the schedule
//! alike. Time zones are compiled in, so that every server agrees on them and nothing is read.
//!
//! What happens when clocks are put forward or back is decided by the hours a schedule names. One
//! that names hours means a time of day: it fires once a day, at the first moment after a gap that
//! swallowed its time, and at the first of two times that are called the same. One that takes
//! every hour means an interval: it goes by real time, without a hole and without a double.

mod field;
#[cfg(test)]
mod tests;

use std::{fmt, str::FromStr};

use jiff::{
    SignedDuration,
    civil::{Date, DateTime},
    tz::{AmbiguousOffset, TimeZone},
};

use crate::{pack::nearest_name, time::Timestamp};
use field::{Field, FieldSet};

/// 29 February on a certain weekday is at most 40 years away.
const SEARCH_DAYS: i32 = 41 * 366;
const MINUTE: SignedDuration = SignedDuration::from_mins(1);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cron {
    text: String,
    minutes: FieldSet,
    hours: FieldSet,
    days: FieldSet,
    months: FieldSet,
    weekdays: FieldSet,
    /// Both the day and the weekday are named: either will do.
    either_day: bool,
}

/// Why a text is no cron expression, and what would be one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct CronError(pub(crate) String);

impl FromStr for Cron {
    type Err = CronError;

    fn from_str(text: &str) -> Result<Self, CronError> {
        let fields: Vec<&str> = text.split_ascii_whitespace().collect();
        let [minutes, hours, days, months, weekdays] = fields[..] else {
            return Err(CronError(field_count_message(text, fields.len())));
        };
        let cron = Self {
            text: fields.join(" "),
            minutes: Field::MINUTE.parse(minutes)?,
            hours: Field::HOUR.parse(hours)?,
            days: Field::DAY.parse(days)?,
            months: Field::MONTH.parse(months)?,
            weekdays: Field::WEEKDAY.parse(weekdays)?,
            // As crontab(5) has it: a field that begins with a star leaves the day to the other.
            either_day: !days.starts_with('*') && !weekdays.starts_with('*'),
        };
        if !cron.either_day && !cron.months.iter().any(|month| cron.days.first() <= days_in_month(month)) {
            return Err(CronError(format!("`{text}` never comes: no month it names has such a day")));
        }
        Ok(cron)
    }
}

fn field_count_message(text: &str, count: usize) -> String {
    let macros = [
        ("@hourly", "0 * * * *"),
        ("@daily", "0 0 * * *"),
        ("@midnight", "0 0 * * *"),
        ("@weekly", "0 0 * * 0"),
        ("@monthly", "0 0 1 * *"),
        ("@yearly", "0 0 1 1 *"),
        ("@annually", "0 0 1 1 *"),
    ];
    let text = text.trim();
    if let Some((_, meant)) = macros.iter().find(|(word, _)| *word == text) {
        return format!("`{text}` is not taken here: write `{meant}`");
    }
    let seconds = if count == 6 { "; there is none for seconds" } else { "" };
    format!(
        "`{text}` has {count} fields, and five are needed: minute, hour, day of the month, month, weekday{seconds}"
    )
}

fn days_in_month(month: u8) -> u8 {
    match month {
        2 => 29,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

impl fmt::Display for Cron {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Cron {
    /// The first moment after this one, `None` when there is none within forty years.
    pub fn next(&self, after: Timestamp, zone: &Zone) -> Option<Timestamp> {
        let after = jiff::Timestamp::from_microsecond(after.as_micros()).ok()?;
        let found = if self.hours.is_full(Field::HOUR) {
            self.next_by_elapsed_time(after, &zone.0)
        } else {
            self.next_by_wall_clock(after, &zone.0)
        };
        found.map(|moment| Timestamp::from_micros(moment.as_microsecond()))
    }

    /// The newest moment that is not after `now`, as far as `from`, which is one.
    pub fn latest_due(&self, from: Timestamp, now: Timestamp, zone: &Zone) -> Timestamp {
        // Looks back ever further rather than walking up from `from`: a server may have been away
        // for years, and the schedule may be of every minute.
        let mut window = std::time::Duration::from_secs(60);
        loop {
            let start = now - window;
            if start <= from {
                return self.last_in_range(from, now, zone).unwrap_or(from);
            }
            if let Some(found) = self.last_in_range(start, now, zone) {
                return found;
            }
            window *= 2;
        }
    }

    fn last_in_range(&self, after: Timestamp, upto: Timestamp, zone: &Zone) -> Option<Timestamp> {
        let mut last = None;
        let mut next = self.next(after, zone);
        while let Some(moment) = next.filter(|moment| *moment <= upto) {
            last = Some(moment);
            next = self.next(moment, zone);
        }
        last
    }

    /// In the order of the clock on the wall, which is also the order of the moments it maps to.
    fn next_by_wall_clock(&self, after: jiff::Timestamp, zone: &TimeZone) -> Option<jiff::Timestamp> {
        let from = zone.to_datetime(after);
        let mut date = from.date();
        for _ in 0..SEARCH_DAYS {
            if self.matches_date(date) {
                for at in self.times(date).filter(|at| at.date() > from.date() || is_at_or_after(*at, from)) {
                    let moment = first_instant(zone, at)?;
                    if moment > after {
                        return Some(moment);
                    }
                }
            }
            date = date.tomorrow().ok()?;
        }
        None
    }

    fn times(&self, date: Date) -> impl Iterator<Item = DateTime> + '_ {
        let hours = self.hours.iter();
        hours.flat_map(move |hour| {
            self.minutes.iter().map(move |minute| date.at(hour as i8, minute as i8, 0, 0))
        })
    }

    /// Minute by minute in real time, in leaps where the clock on the wall does not jump.
    fn next_by_elapsed_time(&self, after: jiff::Timestamp, zone: &TimeZone) -> Option<jiff::Timestamp> {
        let minute = after.as_second().div_euclid(60) + 1;
        let mut moment = jiff::Timestamp::from_second(minute * 60).ok()?;
        let end = moment
            .checked_add(SignedDuration::from_hours(24 * i64::from(SEARCH_DAYS)))
            .unwrap_or(jiff::Timestamp::MAX);
        while moment < end {
            let (local, offset) = (zone.to_datetime(moment), zone.to_offset(moment));
            let (hour, minute) = (i64::from(local.hour()), i64::from(local.minute()));
            let leap = if !self.matches_date(local.date()) {
                24 * 60 - hour * 60 - minute
            } else {
                match self.minutes.iter().map(i64::from).find(|wanted| *wanted >= minute) {
                    Some(wanted) if wanted == minute => return Some(moment),
                    Some(wanted) => wanted - minute,
                    None => 60 - minute,
                }
            };
            let target = moment.checked_add(SignedDuration::from_mins(leap)).ok()?;
            moment =
                if zone.to_offset(target) == offset { target } else { moment.checked_add(MINUTE).ok()? };
        }
        None
    }

    fn matches_date(&self, date: Date) -> bool {
        let day = self.days.has(date.day() as u8);
        let weekday = self.weekdays.has(date.weekday().to_sunday_zero_offset() as u8);
        let fits = if self.either_day { day || weekday } else { day && weekday };
        fits && self.months.has(date.month() as u8)
    }
}

fn is_at_or_after(at: DateTime, from: DateTime) -> bool {
    (at.hour(), at.minute()) >= (from.hour(), from.minute())
}

/// When the clock on the wall first shows this time, or first shows a later one when it never does.
fn first_instant(zone: &TimeZone, at: DateTime) -> Option<jiff::Timestamp> {
    let ambiguous = zone.to_ambiguous_timestamp(at);
    match ambiguous.offset() {
        AmbiguousOffset::Gap { .. } => {
            // Read with the offset that holds after the gap, the time lies before the change.
            let before = ambiguous.earlier().ok()?;
            zone.following(before).next().map(|change| change.timestamp())
        }
        AmbiguousOffset::Unambiguous { .. } | AmbiguousOffset::Fold { .. } => ambiguous.earlier().ok(),
    }
}

/// A time zone by its IANA name.
#[derive(Debug, Clone, PartialEq)]
pub struct Zone(TimeZone);

impl Zone {
    pub fn utc() -> Self {
        Self(TimeZone::UTC)
    }
}

impl FromStr for Zone {
    /// What is wrong, reading on from the name of the field.
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "UTC" {
            return Ok(Self::utc());
        }
        jiff::tz::db().get(text).map(Self).map_err(|_| {
            let names: Vec<String> =
                jiff::tz::db().available().map(|name| name.as_str().to_owned()).collect();
            let unknown = crate::agent::unknown_name(
                "time zone",
                text,
                nearest_name(text, names.iter().map(String::as_str)),
            );
            format!("{unknown}; names look like `Europe/Berlin` or `UTC`")
        })
    }
}
