//! Cron expressions with five fields. The same parser validates a definition and computes its
//! schedule. The time zone database is compiled in, so all servers agree on it and no file is read
//! at runtime.
//!
//! The hour field decides how a schedule behaves when daylight saving time starts or ends. A
//! schedule that names hours means a time of day. It fires once a day: if its time falls into the
//! skipped hour, it fires at the first moment after the gap, and if its time occurs twice, it fires
//! at the first occurrence. A schedule with every hour means an interval. It follows elapsed time,
//! without a gap and without a duplicate.

mod field;
#[cfg(test)]
mod tests;

use std::{fmt, str::FromStr};

use jiff::{
    SignedDuration,
    civil::{Date, DateTime},
    tz::{AmbiguousOffset, TimeZone},
};

use crate::{pack::nearest_name, text, time::Timestamp};
use field::{Field, FieldSet};

/// The search horizon: 29 February falls on a given weekday at least once in 40 years.
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
    /// True if both the day of the month and the weekday are restricted. A date then matches if
    /// either of them matches.
    either_day: bool,
}

/// Explains why a text is not a valid cron expression, and how to correct it.
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
            // This is the rule of crontab(5): if either field starts with a star, a date must match
            // both fields.
            either_day: !days.starts_with('*') && !weekdays.starts_with('*'),
        };
        if !cron.either_day && !cron.months.iter().any(|month| cron.days.first() <= days_in_month(month)) {
            return Err(CronError(format!("`{text}` never fires: none of its months has such a day")));
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
    if let Some((_, replacement)) = macros.iter().find(|(word, _)| *word == text) {
        return format!("`{text}` is not supported: write `{replacement}`");
    }
    let seconds = if count == 6 { "; seconds are not supported" } else { "" };
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
    /// Returns the first firing time after `after`, or `None` if there is none within forty years.
    pub fn next(&self, after: Timestamp, zone: &Zone) -> Option<Timestamp> {
        let after = jiff::Timestamp::from_microsecond(after.as_micros()).ok()?;
        let next = if self.hours.is_full(Field::HOUR) {
            self.next_by_elapsed_time(after, &zone.0)
        } else {
            self.next_by_wall_clock(after, &zone.0)
        };
        next.map(|moment| Timestamp::from_micros(moment.as_microsecond()))
    }

    /// Returns the latest firing time up to `now`. `from` must be a firing time, and is returned if
    /// no later one exists.
    pub fn latest_due(&self, from: Timestamp, now: Timestamp, zone: &Zone) -> Timestamp {
        // The search window starts at `now` and doubles backwards. A forward search from `from`
        // could take very long, because the server may have been down for years and the schedule
        // may fire every minute.
        let mut window = std::time::Duration::from_secs(60);
        loop {
            let start = now - window;
            if start <= from {
                return self.last_in_range(from, now, zone).unwrap_or(from);
            }
            if let Some(latest) = self.last_in_range(start, now, zone) {
                return latest;
            }
            window *= 2;
        }
    }

    fn last_in_range(&self, after: Timestamp, up_to: Timestamp, zone: &Zone) -> Option<Timestamp> {
        let mut last = None;
        let mut next = self.next(after, zone);
        while let Some(moment) = next.filter(|moment| *moment <= up_to) {
            last = Some(moment);
            next = self.next(moment, zone);
        }
        last
    }

    /// Searches in the order of local times, which is also the order of the instants they map to.
    fn next_by_wall_clock(&self, after: jiff::Timestamp, zone: &TimeZone) -> Option<jiff::Timestamp> {
        let from = zone.to_datetime(after);
        let mut date = from.date();
        for _ in 0..SEARCH_DAYS {
            if self.matches_date(date) {
                for time in
                    self.times(date).filter(|time| time.date() > from.date() || is_at_or_after(*time, from))
                {
                    let moment = first_instant(zone, time)?;
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

    /// Searches minute by minute in elapsed time, and skips ahead where the local clock does not
    /// jump.
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
                match self.minutes.iter().map(i64::from).find(|candidate| *candidate >= minute) {
                    Some(candidate) if candidate == minute => return Some(moment),
                    Some(candidate) => candidate - minute,
                    None => 60 - minute,
                }
            };
            let target = moment.checked_add(SignedDuration::from_mins(leap)).ok()?;
            moment = if zone.to_offset(target) == offset {
                target
            } else {
                // The local clock jumps on the way. No minute before the jump matches.
                let jump = zone.following(moment).next().map_or(target, |change| change.timestamp());
                let jump = jiff::Timestamp::from_second(jump.as_second().div_euclid(60) * 60).ok()?;
                jump.min(target).max(moment.checked_add(MINUTE).ok()?)
            };
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

fn is_at_or_after(time: DateTime, from: DateTime) -> bool {
    (time.hour(), time.minute()) >= (from.hour(), from.minute())
}

/// Returns the first instant at which the local clock shows this time. If a gap skips the time,
/// returns the first instant after the gap.
fn first_instant(zone: &TimeZone, time: DateTime) -> Option<jiff::Timestamp> {
    let ambiguous = zone.to_ambiguous_timestamp(time);
    match ambiguous.offset() {
        AmbiguousOffset::Gap { .. } => {
            // Interpreted with the offset that applies after the gap, the time lies before the
            // transition.
            let before = ambiguous.earlier().ok()?;
            zone.following(before).next().map(|change| change.timestamp())
        }
        AmbiguousOffset::Unambiguous { .. } | AmbiguousOffset::Fold { .. } => ambiguous.earlier().ok(),
    }
}

/// A time zone, identified by its IANA name.
#[derive(Debug, Clone, PartialEq)]
pub struct Zone(TimeZone);

impl Zone {
    pub fn utc() -> Self {
        Self(TimeZone::UTC)
    }
}

/// No name of a time zone is longer.
const MAX_ZONE_BYTES: usize = 64;

impl FromStr for Zone {
    /// The problem as the rest of a sentence that begins with the field name.
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "UTC" {
            return Ok(Self::utc());
        }
        // The message does not repeat such a text, and it is compared with nothing.
        if text.len() > MAX_ZONE_BYTES {
            return Err(format!(
                "is longer than {MAX_ZONE_BYTES} bytes; names look like `Europe/Berlin` or `UTC`"
            ));
        }
        jiff::tz::db().get(text).map(Self).map_err(|_| {
            let names: Vec<String> =
                jiff::tz::db().available().map(|name| name.as_str().to_owned()).collect();
            let unknown = crate::agent::unknown_name(
                "time zone",
                text,
                nearest_name(text, names.iter().map(String::as_str)),
            );
            text::append(&unknown, "; ", "names look like `Europe/Berlin` or `UTC`")
        })
    }
}
