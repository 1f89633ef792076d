//! One field of a cron expression: numbers, names, ranges, steps, and lists of them.

use super::CronError;

/// The set of numbers that a field matches, one bit per number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FieldSet(u64);

impl FieldSet {
    pub fn has(self, number: u8) -> bool {
        self.0 & (1 << number) != 0
    }

    pub fn iter(self) -> impl Iterator<Item = u8> {
        (0..64).filter(move |number| self.has(*number))
    }

    /// Returns the smallest number. A parsed field matches at least one number.
    pub fn first(self) -> u8 {
        self.0.trailing_zeros() as u8
    }

    pub fn is_full(self, field: Field) -> bool {
        (field.min..=field.max).all(|number| self.has(number))
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Field {
    name: &'static str,
    min: u8,
    max: u8,
    /// Names for the numbers, beginning at `min`.
    names: &'static [&'static str],
}

const MONTHS: &[&str] = &["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
const WEEKDAYS: &[&str] = &["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

impl Field {
    pub const MINUTE: Self = Self { name: "minute", min: 0, max: 59, names: &[] };
    pub const HOUR: Self = Self { name: "hour", min: 0, max: 23, names: &[] };
    pub const DAY: Self = Self { name: "day of the month", min: 1, max: 31, names: &[] };
    pub const MONTH: Self = Self { name: "month", min: 1, max: 12, names: MONTHS };
    /// Both 0 and 7 mean Sunday.
    pub const WEEKDAY: Self = Self { name: "weekday", min: 0, max: 7, names: WEEKDAYS };

    pub fn parse(self, text: &str) -> Result<FieldSet, CronError> {
        let mut set = text.split(',').try_fold(0, |set, part| Ok(set | self.part(part)?))?;
        if self.max == 7 && set & (1 << 7) != 0 {
            set = set & !(1 << 7) | 1;
        }
        Ok(FieldSet(set))
    }

    fn part(self, part: &str) -> Result<u64, CronError> {
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => (range, Some(self.step(part, step)?)),
            None => (part, None),
        };
        let last = if self.max == 7 { 6 } else { self.max };
        let (from, to) = match range.split_once('-') {
            _ if range == "*" => (self.min, last),
            Some((from, to)) => {
                let (from, to) = (self.number(part, from)?, self.number(part, to)?);
                // `FRI-SUN` ends on a Sunday, which is 7 here rather than 0.
                (from, if self.max == 7 && to == 0 && from > 0 { 7 } else { to })
            }
            None => {
                let from = self.number(part, range)?;
                (from, if step.is_some() { last.max(from) } else { from })
            }
        };
        if from > to {
            let reason = format!(
                "is a range that ends before it starts; write two ranges, such as `{from}-{last},{}-{to}`",
                self.min
            );
            return Err(self.error(part, &reason));
        }
        Ok((from..=to).step_by(step.unwrap_or(1)).fold(0, |set, number| set | 1 << number))
    }

    fn number(self, part: &str, text: &str) -> Result<u8, CronError> {
        let word = self.names.iter().position(|word| word.eq_ignore_ascii_case(text));
        let digits = text.len() <= 2 && !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let number = match word {
            Some(index) => u8::try_from(index).ok().map(|index| index + self.min),
            None => text.parse().ok().filter(|_| digits),
        };
        number.filter(|number| (self.min..=self.max).contains(number)).ok_or_else(|| {
            let words = match self.names {
                [first, .., last] => format!(" or {first} to {last}"),
                _ => String::new(),
            };
            self.error(
                part,
                &format!("must be {} to {}{words}, `*`, a range `a-b` or a step `*/n`", self.min, self.max),
            )
        })
    }

    fn step(self, part: &str, text: &str) -> Result<usize, CronError> {
        let max = usize::from(self.max - self.min);
        let step = text.parse().ok().filter(|step| (1..=max).contains(step));
        step.ok_or_else(|| self.error(part, &format!("has a step that is not 1 to {max}")))
    }

    fn error(self, part: &str, reason: &str) -> CronError {
        CronError(format!("the {} `{part}` {reason}", self.name))
    }
}
