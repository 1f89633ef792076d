//! Years without a month: four digits that are a year, and neither an amount nor the number of a room.

use super::{LIST_WORDS, RANGE_WORDS, SKIPPED_WORDS, Words};
use crate::{
    dates::{CalendarDate, parse_digits},
    text_query,
};

/// Four digits after one of these words are a year. Elsewhere they may be a number of things or of a room.
pub(super) const WORDS_BEFORE_YEAR: [&str; 20] = [
    "in", "during", "since", "before", "after", "until", "till", "by", "of", "from", "year", "early", "late",
    "mid", "around", "spring", "summer", "autumn", "fall", "winter",
];
/// After these, four digits are a year whatever follows: `in 2023 sales rose`.
const WORDS_OF_TIME: [&str; 4] = ["in", "during", "since", "year"];
/// Words that are no plural although they end in `s`, beside stop words.
const NO_PLURALS: [&str; 6] = ["always", "besides", "perhaps", "sometimes", "towards", "versus"];
/// What follows an amount.
#[rustfmt::skip]
const UNITS: [&str; 42] = [
    "eur", "euro", "usd", "dollar", "gbp", "chf", "jpy", "cents", "€", "$", "£", "¥",
    "mm", "cm", "m", "km", "ft", "g", "kg", "t", "ml", "l", "ms", "s", "min", "h",
    "bytes", "kb", "mb", "gb", "tb", "kib", "mib", "gib", "px", "hz", "mhz", "ghz", "w", "kw",
    "%", "percent",
];

impl Words {
    /// Four digits that may be a year, and the number of their words.
    pub(super) fn year_at(&self, index: usize) -> Option<(CalendarDate, usize)> {
        let year = parse_digits(self.text(index), 4).filter(|year| (1900..=2099).contains(year))?;
        (!self.is_amount(index)).then_some((CalendarDate::Year(year), 1))
    }

    /// Four digits that are a year: after a word that says so, or on their own, as in `(2023)`.
    pub(super) fn certain_year_at(&self, index: usize) -> Option<(CalendarDate, usize)> {
        let is_alone = self.begins_part(index) && self.ends_at_break(index);
        let says_year = |word: &str| WORDS_BEFORE_YEAR.contains(&word);
        let follows = !self.follows_break(index) && self.words_before(index).next().is_some_and(says_year);
        if is_alone || follows { self.year_at(index) } else { None }
    }

    /// Whether a number says how much of something there is: of a unit, or of what a plural names.
    fn is_amount(&self, index: usize) -> bool {
        let last = self.last_number(index);
        let Some(counted) = self.joined_after(last) else { return false };
        if UNITS.contains(&counted) {
            return true;
        }
        let is_plural = counted.len() > 3 && counted.ends_with('s') && !counted.ends_with("ss");
        (is_plural || counted == "people")
            && !self.is_capitalised(last + 1)
            && !NO_PLURALS.contains(&counted)
            && !text_query::is_stop_word(counted)
            && !self.follows_word_of_time(index)
    }

    /// The last number of `1900 to 2000 words`, in which the first one counts the same.
    fn last_number(&self, mut index: usize) -> usize {
        let joins = |word: &str| RANGE_WORDS.contains(&word) || LIST_WORDS.contains(&word);
        while self.joined_after(index).is_some_and(joins) && self.is_number(index + 2) {
            index += 2;
        }
        index
    }

    fn follows_word_of_time(&self, mut index: usize) -> bool {
        while index > 2 && LIST_WORDS.contains(&self.text(index - 1)) && self.is_number(index - 2) {
            index -= 2;
        }
        let mut words = self.words_before(index);
        let nearest = words.find(|word| WORDS_OF_TIME.contains(word) || !SKIPPED_WORDS.contains(word));
        nearest.is_some_and(|word| WORDS_OF_TIME.contains(&word))
    }

    fn is_number(&self, index: usize) -> bool {
        parse_digits(self.text(index), 4).is_some()
    }
}
