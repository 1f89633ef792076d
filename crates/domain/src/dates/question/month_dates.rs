//! Dates with a month.

use super::{PartialDate, Words, years::WORDS_BEFORE_YEAR};
use crate::{
    dates::{CalendarDate, parse_digits},
    text_query,
};

const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];
/// Beside one of these, `2010-11` are two years.
const WORDS_OF_TWO_YEARS: [&str; 8] =
    ["academic", "campaign", "edition", "financial", "fiscal", "school", "season", "seasons"];

impl Words {
    /// A date with a month, and the number of its words.
    pub(super) fn date_at(&self, index: usize) -> Option<(CalendarDate, usize)> {
        let first = self.text(index);
        // The time of a timestamp does not matter.
        let day = first.split_once('t').map_or(first, |(day, _)| day);
        if let Some(date) = CalendarDate::parse_iso(day) {
            let is_two_years = matches!(date, CalendarDate::Month(..)) && self.is_at_two_years(index);
            return (!is_two_years).then_some((date, 1));
        }
        if let Some(day) = parse_day(first) {
            let month_index = index + 1 + usize::from(self.text(index + 1) == "of");
            let month = parse_month(self.text(month_index))?;
            let year = parse_year(self.text(month_index + 1))?;
            let is_of_name = self.is_inside_name(index, month_index + 1);
            let date = CalendarDate::Day(year, month, day);
            return (!is_of_name).then_some((date, month_index + 2 - index));
        }
        let month = parse_month(first)?;
        if let (Some(day), Some(year)) = (parse_day(self.text(index + 1)), parse_year(self.text(index + 2))) {
            return Some((CalendarDate::Day(year, month, day), 3));
        }
        let year_index = index + 1 + usize::from(self.text(index + 1) == "of");
        let year = parse_year(self.text(year_index))?;
        Some((CalendarDate::Month(year, month), year_index + 1 - index))
    }

    /// The beginning of a range or a list without its year, and the number of its words.
    pub(super) fn partial_date_at(&self, index: usize) -> Option<(PartialDate, usize)> {
        let first = self.text(index);
        if let Some(day) = parse_day(first) {
            let month_index = index + 1 + usize::from(self.text(index + 1) == "of");
            return Some(match parse_month(self.text(month_index)) {
                Some(month) => (PartialDate::DayOfMonth(month, day), month_index + 1 - index),
                None => (PartialDate::Day(day), 1),
            });
        }
        let month = parse_month(first)?;
        Some(match parse_day(self.text(index + 1)) {
            Some(day) => (PartialDate::DayOfMonth(month, day), 2),
            None => (PartialDate::Month(month), 1),
        })
    }

    /// Whether `2010-11` stands beside a word that makes it two years.
    fn is_at_two_years(&self, index: usize) -> bool {
        let previous = self.words_before(index).next().filter(|_| !self.follows_break(index));
        let mut words = previous.into_iter().chain(self.joined_after(index));
        words.any(|word| WORDS_OF_TWO_YEARS.contains(&word))
    }

    /// Whether names stand directly in front of what may be a date and behind it. In `Windows 10 May 2020 Update`, 10 is
    /// no day.
    fn is_inside_name(&self, first: usize, last: usize) -> bool {
        let Some(before) = first.checked_sub(1).filter(|_| !self.follows_break(first)) else { return false };
        let text = self.text(before);
        let is_weekday = text.ends_with("day");
        let is_other = is_weekday || text_query::is_stop_word(text) || WORDS_BEFORE_YEAR.contains(&text);
        self.is_capitalised(before)
            && !is_other
            && self.joined_after(last).is_some()
            && self.is_capitalised(last + 1)
    }
}

/// Reads `7`, `07` or `7th`.
fn parse_day(text: &str) -> Option<i8> {
    let number =
        ["st", "nd", "rd", "th"].iter().find_map(|ending| text.strip_suffix(*ending)).unwrap_or(text);
    let day = parse_digits(number, 1).or_else(|| parse_digits(number, 2))?;
    i8::try_from(day).ok().filter(|day| (1..=31).contains(day))
}

/// Reads `may`, `september`, `sep` or `sept`.
fn parse_month(text: &str) -> Option<i8> {
    let is_short = text.len() == 3 || text == "sept";
    let index = MONTHS.iter().position(|month| *month == text || (is_short && month.starts_with(text)))?;
    i8::try_from(index + 1).ok()
}

/// Reads the year of a date that has a month.
fn parse_year(text: &str) -> Option<i16> {
    parse_digits(text, 4).filter(|year| (1000..=2999).contains(year))
}
