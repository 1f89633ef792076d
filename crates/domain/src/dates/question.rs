//! Reads the dates of a question.
//!
//! The rules are English. Only explicit dates are read: `7 May 2023`, `May 7, 2023`, `May 2023`, `2023-05-07`,
//! `2023-05`, and years that the words around them show to be years. Relative ones, such as `last year`, depend on when
//! the question is asked and on what it is about, and `05/07/2023` is another day in another country: neither is read.

use super::{CalendarDate, Period, parse_digits};
use crate::text_query;

#[cfg(test)]
mod tests;

/// A question names at most this many periods; further ones are not read.
const MAX_PERIODS: usize = 4;
/// Only the beginning of a long question is read for dates.
const MAX_QUESTION_BYTES: usize = 4 << 10;

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
/// Four digits after one of these words are a year. Elsewhere they may be a number of things or of a room.
const WORDS_BEFORE_YEAR: [&str; 20] = [
    "in", "during", "since", "before", "after", "until", "till", "by", "of", "from", "year", "early", "late",
    "mid", "around", "spring", "summer", "autumn", "fall", "winter",
];
/// Words between `before` and its date: `before the year 2020`, `since early 2021`.
const SKIPPED_WORDS: [&str; 5] = ["the", "year", "early", "late", "mid"];
/// Words between the two dates of a range.
const RANGE_WORDS: [&str; 8] = ["and", "to", "until", "till", "through", "-", "–", "—"];

/// The periods that a question names, in their order, each once.
pub fn periods_in(question: &str) -> Vec<Period> {
    let words = Words::split(&question[..question.floor_char_boundary(MAX_QUESTION_BYTES)]);
    let mut periods: Vec<Period> = Vec::new();
    let mut index = 0;
    while index < words.0.len() && periods.len() < MAX_PERIODS {
        let found = words.range_at(index).or_else(|| words.related_period_at(index));
        let Some((period, length)) = found else {
            index += 1;
            continue;
        };
        if !periods.contains(&period) {
            periods.push(period);
        }
        index += length;
    }
    periods
}

/// A word of the question in lower case, without the punctuation around it.
struct Word {
    text: String,
    /// Whether punctuation, or the beginning of the question, stands before it.
    is_after_break: bool,
    is_before_break: bool,
    is_capitalised: bool,
}

/// Other signs belong to the word: `#2023` and `$2000` are no years.
fn is_punctuation(c: char) -> bool {
    "\"'“”‘’()[],.;:!?".contains(c)
}

struct Words(Vec<Word>);

impl Words {
    fn split(question: &str) -> Self {
        let mut words: Vec<Word> = Vec::new();
        for raw in question.split_whitespace() {
            let word = raw.trim_matches(is_punctuation);
            let (starts_with_break, ends_with_break) =
                (raw.starts_with(is_punctuation), raw.ends_with(is_punctuation));
            let word = word.strip_suffix("'s").or_else(|| word.strip_suffix("’s")).unwrap_or(word);
            if let Some(last) = words.last_mut().filter(|_| starts_with_break) {
                last.is_before_break = true;
            }
            let is_after_break = starts_with_break || words.last().is_none_or(|last| last.is_before_break);
            let is_capitalised = word.starts_with(char::is_uppercase);
            let text = word.to_lowercase();
            words.push(Word { text, is_after_break, is_before_break: ends_with_break, is_capitalised });
        }
        if let Some(last) = words.last_mut() {
            last.is_before_break = true;
        }
        Self(words)
    }

    /// The text of a word; empty if there is none.
    fn text(&self, index: usize) -> &str {
        self.0.get(index).map_or("", |word| word.text.as_str())
    }

    /// The period of `between 2020 and 2022`, `from 7 to 9 May 2023` or `between March and June 2021`, and the number of
    /// its words.
    fn range_at(&self, index: usize) -> Option<(Period, usize)> {
        if !["between", "from"].contains(&self.text(index)) {
            return None;
        }
        let start_index = index + 1;
        let whole_start = self.date_at(start_index).or_else(|| self.year_at(start_index));
        let (start, length) = match whole_start {
            Some((date, length)) => (PartialDate::Whole(date), length),
            None => self.partial_date_at(start_index)?,
        };
        let range_word = start_index + length;
        if !RANGE_WORDS.contains(&self.text(range_word)) {
            return None;
        }
        let end_index = range_word + 1 + usize::from(self.text(range_word + 1) == "the");
        let (end, length) = self.date_at(end_index).or_else(|| self.year_at(end_index))?;
        let (start, end_period) = (start.complete(end)?.period()?, end.period()?);
        // The two may be in the wrong order.
        let period = Period { from: start.from.min(end_period.from), to: start.to.max(end_period.to) };
        Some((period, end_index + length - index))
    }

    /// The period of one date, with the word before it: `before`, `after`, `since` or `until`.
    fn related_period_at(&self, index: usize) -> Option<(Period, usize)> {
        let (date, length) = self.date_at(index).or_else(|| self.certain_year_at(index))?;
        let Period { from, to } = date.period()?;
        let mut before = self.0[..index].iter().rev().map(|word| word.text.as_str());
        let related = before.find(|word| !SKIPPED_WORDS.contains(word));
        let period = match related {
            Some("before") => Period { from: None, to: from },
            Some("after") => Period { from: to, to: None },
            Some("since") => Period { from, to: None },
            Some("until" | "till" | "by") => Period { from: None, to },
            _ => Period { from, to },
        };
        Some((period, length))
    }

    /// A date with a month, and the number of its words.
    fn date_at(&self, index: usize) -> Option<(CalendarDate, usize)> {
        let first = self.text(index);
        // The time of a timestamp does not matter.
        let day = first.split_once('t').map_or(first, |(day, _)| day);
        if let Some(date) = CalendarDate::parse_iso(day) {
            return Some((date, 1));
        }
        if let Some(day) = parse_day(first) {
            let month_index = index + 1 + usize::from(self.text(index + 1) == "of");
            let month = parse_month(self.text(month_index))?;
            let year = parse_year(self.text(month_index + 1))?;
            return Some((CalendarDate::Day(year, month, day), month_index + 2 - index));
        }
        let month = parse_month(first)?;
        if let (Some(day), Some(year)) = (parse_day(self.text(index + 1)), parse_year(self.text(index + 2))) {
            return Some((CalendarDate::Day(year, month, day), 3));
        }
        let year_index = index + 1 + usize::from(self.text(index + 1) == "of");
        let year = parse_year(self.text(year_index))?;
        Some((CalendarDate::Month(year, month), year_index + 1 - index))
    }

    /// Four digits that may be a year.
    fn year_at(&self, index: usize) -> Option<(CalendarDate, usize)> {
        let year = parse_year(self.text(index)).filter(|year| (1900..=2099).contains(year))?;
        (!self.counts_things(index)).then_some((CalendarDate::Year(year), 1))
    }

    /// Four digits that are a year: after a word that says so, or on their own, as in `(2023)`.
    fn certain_year_at(&self, index: usize) -> Option<(CalendarDate, usize)> {
        let word = self.0.get(index)?;
        let is_alone = word.is_after_break && word.is_before_break;
        let follows = index.checked_sub(1).is_some_and(|before| {
            WORDS_BEFORE_YEAR.contains(&self.text(before)) && !self.0[before].is_before_break
        });
        if is_alone || follows { self.year_at(index) } else { None }
    }

    /// Whether a number is followed by what it counts, as in `1999 bottles`: a plural that is no name.
    fn counts_things(&self, index: usize) -> bool {
        let is_at_break = self.0.get(index).is_none_or(|word| word.is_before_break);
        let counted = self.0.get(index + 1).filter(|word| !is_at_break && !word.is_capitalised);
        counted.is_some_and(|word| {
            let is_plural = (word.text.len() > 3 && word.text.ends_with('s')) || word.text == "people";
            is_plural && !text_query::is_stop_word(&word.text)
        })
    }

    /// The beginning of a range without its year, and the number of its words.
    fn partial_date_at(&self, index: usize) -> Option<(PartialDate, usize)> {
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
}

/// The beginning of a range. What it lacks is said by the end: `7 to 9 May 2023`.
#[derive(Clone, Copy)]
enum PartialDate {
    Whole(CalendarDate),
    Month(i8),
    DayOfMonth(i8, i8),
    Day(i8),
}

impl PartialDate {
    fn complete(self, end: CalendarDate) -> Option<CalendarDate> {
        let end_month = match end {
            CalendarDate::Month(_, month) | CalendarDate::Day(_, month, _) => month,
            CalendarDate::Year(_) => 12,
        };
        // `from November to February 2021` begins in the year before.
        let year_of = |month: i8| if month > end_month { end.year() - 1 } else { end.year() };
        match (self, end) {
            (Self::Whole(date), _) => Some(date),
            (Self::Month(month), _) => Some(CalendarDate::Month(year_of(month), month)),
            (Self::DayOfMonth(month, day), _) => Some(CalendarDate::Day(year_of(month), month, day)),
            (Self::Day(day), CalendarDate::Day(year, month, _)) => Some(CalendarDate::Day(year, month, day)),
            (Self::Day(_), _) => None,
        }
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
