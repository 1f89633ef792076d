//! Estimates how expensive it is to match a pattern, from its text alone.
//!
//! Most patterns are matched in time proportional to the text, times the states of the pattern. Patterns
//! with look-around or backreferences are matched by backtracking, and are charged the square of the text.

/// The maximum number of patterns in one pack.
pub(super) const MAX_PATTERNS: usize = 1_000;
/// The maximum length of one pattern in characters.
pub(super) const MAX_PATTERN_CHARS: usize = 4_000;
/// The maximum number of states of all patterns of one pack. A state takes about a hundred bytes, and a
/// repetition such as `x{500}` has as many states as it has repetitions.
pub(super) const MAX_STATES: u64 = 50_000;
/// The maximum number of states of all patterns of a schema that stands alone: it is compiled where it is used, and
/// takes about ten microseconds for each state.
pub(super) const MAX_STATES_ALONE: u64 = 5_000;
/// How often the match of a pattern may go back. A match that would go back more often fails.
pub(super) const MAX_BACKTRACKS: usize = 5_000;
/// The steps that a match with [`MAX_BACKTRACKS`] takes.
const BACKTRACKING_STEPS: u64 = 10_000;
/// In a text this short, a match goes back less often.
const SHORT_TEXT: u64 = 8;
/// The steps of a match that backtracks in a short text.
const SHORT_BACKTRACKING_STEPS: u64 = 1_000;

/// What a match of a pattern costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PatternCost {
    /// The approximate number of states after all repetitions are expanded.
    pub states: u64,
    /// Whether the pattern needs backtracking.
    pub backtracks: bool,
}

impl PatternCost {
    pub fn estimate(pattern: &str) -> Self {
        Self { states: count_states(pattern), backtracks: needs_backtracking(pattern) }
    }

    /// Returns the number of steps to match a text with this many bytes.
    pub fn steps(self, text_bytes: usize) -> u64 {
        let bytes = text_bytes as u64;
        if self.backtracks {
            let base = if bytes <= SHORT_TEXT { SHORT_BACKTRACKING_STEPS } else { BACKTRACKING_STEPS };
            base + bytes.saturating_mul(bytes) / 4
        } else {
            1 + bytes.saturating_mul(self.states.max(4)) / 16
        }
    }
}

/// Recognises everything that the linear engine does not support. A pattern that is taken for one of
/// these by mistake only becomes more expensive.
fn needs_backtracking(pattern: &str) -> bool {
    const SIGNS: [&str; 12] =
        ["(?=", "(?!", "(?<=", "(?<!", "(?>", "(?(", "\\k", "\\g", "*+", "++", "?+", "}+"];
    let has_backreference = || {
        let bytes = pattern.as_bytes();
        bytes.windows(2).any(|pair| pair[0] == b'\\' && (b'1'..=b'9').contains(&pair[1]))
    };
    SIGNS.iter().any(|sign| pattern.contains(sign)) || has_backreference()
}

/// The states of a class of Unicode characters such as `\p{L}`.
const UNICODE_CLASS: u64 = 300;
/// The states of a class that includes most characters, such as `.` or `[^a]`.
const WIDE_CLASS: u64 = 12;

fn count_states(pattern: &str) -> u64 {
    let mut outer: Vec<u64> = Vec::new();
    // The size of the current group, and that of the last part of it, which a repetition multiplies.
    let (mut group, mut part) = (0_u64, 0_u64);
    let mut rest = pattern.chars();
    while let Some(c) = rest.next() {
        match c {
            '(' => {
                outer.push(group);
                (group, part) = (0, 0);
            }
            ')' => {
                part = group.max(1);
                group = outer.pop().unwrap_or(0).saturating_add(part);
            }
            '{' => {
                if let Some((count, length)) = repetition(rest.as_str()) {
                    group = group.saturating_add(part.saturating_mul(count.saturating_sub(1)));
                    part = part.saturating_mul(count.max(1));
                    rest = rest.as_str().get(length..).unwrap_or_default().chars();
                }
            }
            '*' | '+' | '?' | '|' => group = group.saturating_add(1),
            _ => {
                part = match c {
                    '\\' => escape(&mut rest),
                    '[' => class(&mut rest),
                    '.' => WIDE_CLASS,
                    other => other.len_utf8() as u64,
                };
                group = group.saturating_add(part);
            }
        }
    }
    // Groups that were not closed are not a valid pattern. Their sizes are added all the same.
    outer.into_iter().fold(group, u64::saturating_add)
}

/// Reads what follows a `{`: the highest count, and the length in bytes including the `}`. `None` if it is not
/// a repetition.
fn repetition(text: &str) -> Option<(u64, usize)> {
    let end = text.find('}')?;
    let (least, most) = match text[..end].split_once(',') {
        Some((least, "")) => (least, least),
        Some((least, most)) => (least, most),
        None => (&text[..end], &text[..end]),
    };
    let number = |text: &str| text.trim().parse::<u64>().ok();
    Some((number(most)?.max(number(least).unwrap_or(0)), end + 1))
}

fn escape(rest: &mut std::str::Chars<'_>) -> u64 {
    match rest.next() {
        Some('p' | 'P') => {
            if rest.as_str().starts_with('{') {
                rest.find(|c| *c == '}');
            }
            UNICODE_CLASS
        }
        Some('W' | 'D' | 'S') => WIDE_CLASS,
        // An end of a range of characters, which takes several states for their bytes.
        Some('u' | 'x') => 6,
        Some('w' | 'd' | 's') => 4,
        _ => 1,
    }
}

/// Reads a class up to its `]`.
fn class(rest: &mut std::str::Chars<'_>) -> u64 {
    let mut states = 1;
    let mut is_first = true;
    while let Some(c) = rest.next() {
        match c {
            ']' if !is_first => break,
            '^' if is_first => states += WIDE_CLASS,
            '\\' => states += escape(rest),
            c if !c.is_ascii() => states += 2,
            _ => {}
        }
        is_first = is_first && c == '^';
    }
    states
}

#[cfg(test)]
mod tests {
    use super::*;

    fn states(pattern: &str) -> u64 {
        PatternCost::estimate(pattern).states
    }

    #[test]
    fn repetitions_multiply_what_they_repeat() {
        assert_eq!(states("abc"), 3);
        assert_eq!(states("a{500}"), 500);
        assert_eq!(states("(ab){2,100}"), 200);
        assert_eq!(states("((a{100}){100}){100}"), 1_000_000);
        assert_eq!(states("a{2,}b"), 3);
        assert!(states(r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$") < 100);
        assert!(states(r"\p{L}{10}") >= 3_000);
        assert!(states(&"(a{1000}".repeat(100)) >= 100_000, "nothing overflows");
    }

    #[test]
    fn a_brace_that_is_not_a_repetition_is_a_character() {
        assert!(states("{x}") > 0);
        assert!(states("a{b}{99999999999999999999}") > 0);
        assert!(states("é{ü}") > 0);
    }

    #[test]
    fn look_around_and_backreferences_are_charged_the_square_of_the_text() {
        for pattern in [r"^(?=.*[A-Z]).+$", r"(a)\1", "(?<!x)y", "a++b"] {
            assert!(PatternCost::estimate(pattern).backtracks, "{pattern}");
        }
        for pattern in [r"^[a-z]+$", r"\d{4}-\d{2}", r"(?:a|b)+", r"\\d"] {
            assert!(!PatternCost::estimate(pattern).backtracks, "{pattern}");
        }
        let steps = |pattern| PatternCost::estimate(pattern).steps(100_000);
        assert!(steps("(?=a)b") > 1_000_000_000 && steps("[a-z]+") < 100_000);
    }
}
