//! Reads the dates of a question.
//!
//! The rules are English. Only explicit dates are read: `7 May 2023`, `May 7, 2023`, `May 2023`, `2023-05-07`,
//! `2023-05`, and years that the words around them show to be years. Relative ones, such as `last year`, depend on when
//! the question is asked and on what it is about, and `05/07/2023` is another day in another country: neither is read.

use super::{CalendarDate, Period};

mod month_dates;
#[cfg(test)]
mod tests;
mod words;
mod years;

use words::Words;

/// A question names at most this many periods; further ones are not read.
const MAX_PERIODS: usize = 4;
/// Only the beginning of a long question is read for dates.
const MAX_QUESTION_BYTES: usize = 4 << 10;

/// Words between `before` and its date: `before the year 2020`, `since early 2021`.
const SKIPPED_WORDS: [&str; 5] = ["the", "year", "early", "late", "mid"];
/// Words between the two dates of a range, beside `between … and`.
const RANGE_WORDS: [&str; 7] = ["to", "until", "till", "through", "-", "–", "—"];
/// Words between dates of which each is meant.
const LIST_WORDS: [&str; 2] = ["and", "or"];

/// Periods, and the number of words that name them.
type Found = (Vec<Period>, usize);

/// The periods that a question names, in their order, each once.
pub fn periods_in(question: &str) -> Vec<Period> {
    let words = Words::split(&question[..question.floor_char_boundary(MAX_QUESTION_BYTES)]);
    let mut periods: Vec<Period> = Vec::new();
    let (mut index, mut end_of_date) = (0, None);
    while index < words.len() && periods.len() < MAX_PERIODS {
        let found = words
            .range_at(index)
            .or_else(|| words.list_at(index))
            .or_else(|| words.single_date_at(index))
            .or_else(|| words.further_year_at(index).filter(|_| end_of_date == Some(index)));
        let Some((found, length)) = found else {
            index += 1;
            continue;
        };
        for period in found {
            add(&mut periods, period);
        }
        index += length;
        end_of_date = Some(index);
    }
    periods.truncate(MAX_PERIODS);
    periods
}

/// Adds a period that is not there yet. `after 2019 and before 2022` is one period: as two, they would be all of time.
fn add(periods: &mut Vec<Period>, period: Period) {
    if periods.contains(&period) {
        return;
    }
    let is_open_at_another_side = |last: &Period| {
        let sides = (last.from, last.to, period.from, period.to);
        matches!(sides, (Some(_), None, None, Some(_)) | (None, Some(_), Some(_), None))
    };
    match periods.last_mut().filter(|last| is_open_at_another_side(last) && last.overlaps(period)) {
        Some(last) => *last = Period { from: last.from.or(period.from), to: last.to.or(period.to) },
        None => periods.push(period),
    }
}

/// The beginning of a range or of a list. What it lacks is said by the end: `7 to 9 May 2023`.
#[derive(Clone, Copy)]
enum PartialDate {
    Whole(CalendarDate),
    Month(i8),
    DayOfMonth(i8, i8),
    Day(i8),
}

impl PartialDate {
    /// The date before an end: `from November to February 2021` begins in the year before.
    fn complete_before(self, end: CalendarDate) -> Option<CalendarDate> {
        let end_month = match end {
            CalendarDate::Month(_, month) | CalendarDate::Day(_, month, _) => month,
            CalendarDate::Year(_) => 12,
        };
        let is_later_month =
            matches!(self, Self::Month(month) | Self::DayOfMonth(month, _) if month > end_month);
        self.complete(end, if is_later_month { end.year() - 1 } else { end.year() })
    }

    /// The date in the month of `other`, if it has none of its own, and in this year.
    fn complete(self, other: CalendarDate, year: i16) -> Option<CalendarDate> {
        match (self, other) {
            (Self::Whole(date), _) => Some(date),
            (Self::Month(month), _) => Some(CalendarDate::Month(year, month)),
            (Self::DayOfMonth(month, day), _) => Some(CalendarDate::Day(year, month, day)),
            (Self::Day(day), CalendarDate::Day(_, month, _)) => Some(CalendarDate::Day(year, month, day)),
            (Self::Day(_), _) => None,
        }
    }
}

/// The period from a date to another, with both. They may be in the wrong order.
fn range(start: PartialDate, end: CalendarDate) -> Option<Period> {
    let (start, end) = (start.complete_before(end)?.period()?, end.period()?);
    Some(Period { from: start.from.min(end.from), to: start.to.max(end.to) })
}

impl Words {
    /// The period of `between 2020 and 2022`, `from 7 to 9 May 2023` or `between early March and late June 2021`.
    fn range_at(&self, index: usize) -> Option<Found> {
        let is_between = self.text(index) == "between";
        if !is_between && self.text(index) != "from" {
            return None;
        }
        let start_index = self.after_skipped_words(index + 1);
        let whole_start = self.date_at(start_index).or_else(|| self.year_at(start_index));
        let (start, length) = match whole_start {
            Some((date, length)) => (PartialDate::Whole(date), length),
            None => self.partial_date_at(start_index)?,
        };
        let range_word = start_index + length;
        // `letters from 2019 and 2023` are of two years.
        let is_range = RANGE_WORDS.contains(&self.text(range_word));
        if !(is_range || (is_between && self.text(range_word) == "and")) {
            return None;
        }
        let end_index = self.after_skipped_words(range_word + 1);
        let (end, length) = self.date_at(end_index).or_else(|| self.year_at(end_index))?;
        Some((vec![range(start, end)?], end_index + length - index))
    }

    /// The periods of `May, June or July 2023` and `the 7th and the 9th of May 2023`, or the one of `7 to 9 May 2023`:
    /// only the last date is a whole one.
    fn list_at(&self, index: usize) -> Option<Found> {
        let mut dates = Vec::new();
        let mut end_index = index;
        let is_range = loop {
            let (date, length) = self.partial_date_at(end_index)?;
            dates.push(date);
            end_index += length;
            let is_range = RANGE_WORDS.contains(&self.text(end_index));
            if is_range || LIST_WORDS.contains(&self.text(end_index)) {
                end_index += 1 + usize::from(self.text(end_index + 1) == "the");
                if self.date_at(end_index).is_some() || is_range {
                    break is_range;
                }
            } else if !self.follows_comma(end_index) {
                return None;
            }
            if dates.len() == MAX_PERIODS {
                return None;
            }
        };
        let (end, length) = self.date_at(end_index)?;
        let mut periods = Vec::new();
        let last = if is_range { range(dates.pop()?, end)? } else { end.period()? };
        for date in dates {
            periods.push(date.complete(end, end.year())?.period()?);
        }
        periods.push(last);
        let periods = periods.into_iter().map(|period| self.related_period(index, period)).collect();
        Some((periods, end_index + length - index))
    }

    /// The period of one date, with the word before it.
    fn single_date_at(&self, index: usize) -> Option<Found> {
        let (date, length) = self.date_at(index).or_else(|| self.certain_year_at(index))?;
        Some((vec![self.related_period(index, date.period()?)], length))
    }

    /// The second year of `in 2022 and 2023` or `in 2022, 2023`. Must be called only behind a date.
    fn further_year_at(&self, index: usize) -> Option<Found> {
        let is_list_word = LIST_WORDS.contains(&self.text(index));
        if !is_list_word && !self.follows_comma(index) {
            return None;
        }
        let year_index = index + usize::from(is_list_word);
        let (year, length) = self.year_at(year_index)?;
        Some((vec![year.period()?], year_index + length - index))
    }

    /// What `before`, `after`, `since` or `until` in front of a date makes of its period.
    fn related_period(&self, index: usize, Period { from, to }: Period) -> Period {
        let related = self.words_before(index).find(|word| !SKIPPED_WORDS.contains(word));
        match related {
            Some("before") => Period { from: None, to: from },
            Some("after") => Period { from: to, to: None },
            Some("since") => Period { from, to: None },
            Some("until" | "till" | "by") => Period { from: None, to },
            _ => Period { from, to },
        }
    }

    /// The index of the first word that is not skipped.
    fn after_skipped_words(&self, index: usize) -> usize {
        let is_skipped = |index: &usize| SKIPPED_WORDS.contains(&self.text(*index));
        index + (index..self.len()).take_while(is_skipped).count()
    }
}
