//! Finds the ends of sentences, accurately enough to split text between them.
//!
//! An error has little effect, because a chunk then only starts a little early or late. The rules
//! are therefore the common ones, without a model of any language.

use std::ops::Range;

/// Returns the sentences of one paragraph, in order and without surrounding whitespace.
///
/// All visible text belongs to one of them. A list item starts a new sentence.
pub(crate) fn sentences(text: &str) -> impl Iterator<Item = Range<usize>> {
    let mut position = 0;
    std::iter::from_fn(move || {
        let rest = &text[position..];
        let start = position + (rest.len() - rest.trim_start().len());
        if start == text.len() {
            return None;
        }
        let end = start + first_sentence_end(&text[start..]);
        position = end;
        Some(start..start + text[start..end].trim_end().len())
    })
}

/// Returns the end of the first sentence of a text that begins with a visible character.
fn first_sentence_end(text: &str) -> usize {
    let mut chars = text.char_indices().peekable();
    while let Some((index, c)) = chars.next() {
        let after = index + c.len_utf8();
        match c {
            '\n' if begins_list_item(&text[after..]) => return index,
            '。' | '！' | '？' | '｡' => {
                return after + length_while(&text[after..], |c| is_end_mark(c) || is_closing_mark(c));
            }
            _ if is_end_mark(c) => {
                let marks_end = after + length_while(&text[after..], is_end_mark);
                let end = marks_end + length_while(&text[marks_end..], is_closing_mark);
                while chars.peek().is_some_and(|&(next, _)| next < end) {
                    chars.next();
                }
                let is_single_dot = c == '.' && marks_end == after;
                if is_sentence_end(&text[..index], is_single_dot, &text[end..]) {
                    return end;
                }
            }
            _ => {}
        }
    }
    text.len()
}

/// Returns whether a sentence ends between `before` and `after`. `is_single_dot` is true
/// if a single dot separates them.
fn is_sentence_end(before: &str, is_single_dot: bool, after: &str) -> bool {
    if !after.starts_with(char::is_whitespace) {
        return after.is_empty();
    }
    match after.trim_start().chars().next() {
        None => true,
        Some(next) if next.is_lowercase() => false,
        Some(next) => !is_single_dot || !is_abbreviation(before, next),
    }
}

/// Returns whether the dot after `before` belongs to its last word rather than to the sentence.
fn is_abbreviation(before: &str, next: char) -> bool {
    let Some(word) = last_word(before) else {
        return false;
    };
    let lower = word.to_lowercase();
    let before_number = next.is_numeric();
    let mut chars = word.chars();
    match (chars.next(), chars.next()) {
        // An initial, as in J. R. R. Tolkien.
        (Some(letter), None) if letter.is_uppercase() => return true,
        // The number of a list item, as in `12. Then rest`, is the whole sentence so far.
        (Some(digit), _) if digit.is_ascii_digit() => return before.trim_start().len() == word.len(),
        _ => {}
    }
    // Words with inner dots: e.g. i.e. U.S. Ph.D.
    let has_inner_dots = word.contains('.')
        && word.split('.').all(|part| part.len() <= 2 && part.chars().all(char::is_alphabetic));
    has_inner_dots
        || TITLES.contains(&lower.as_str())
        || before_number && NUMBER_ABBREVIATIONS.contains(&lower.as_str())
}

/// Words that are abbreviated before any word: Dr. Jones, cf. Smith.
const TITLES: [&str; 22] = [
    "mr", "mrs", "ms", "dr", "prof", "sr", "jr", "st", "rev", "gen", "col", "sgt", "capt", "lt", "hon", "vs",
    "cf", "viz", "approx", "al", "mme", "bzw",
];

/// Words that are abbreviated only before a number: Fig. 3, No. 5, Jan. 12.
const NUMBER_ABBREVIATIONS: [&str; 24] = [
    "no", "nr", "fig", "figs", "p", "pp", "vol", "ch", "sec", "eq", "art", "para", "ver", "jan", "feb",
    "mar", "apr", "jun", "jul", "aug", "sep", "sept", "oct", "nov",
];

/// Returns the last word of a text, unless it is longer than any abbreviation.
fn last_word(text: &str) -> Option<&str> {
    let mut start = text.len();
    for (index, c) in text.char_indices().rev().take(MAX_ABBREVIATION_CHARS + 1) {
        if c.is_whitespace() || "([{\"'“‘«".contains(c) {
            return Some(&text[start..]);
        }
        start = index;
    }
    (start == 0).then_some(text)
}

const MAX_ABBREVIATION_CHARS: usize = 10;

/// The most digits of the number of a list item; more are a year or another number.
const MAX_ITEM_DIGITS: usize = 4;

fn begins_list_item(line: &str) -> bool {
    let line = line.trim_start_matches([' ', '\t']);
    if line.starts_with(['-', '*', '+', '•', '–', '·']) {
        return line.chars().nth(1).is_some_and(char::is_whitespace);
    }
    let digits = length_while(line, |c| c.is_ascii_digit());
    (1..=MAX_ITEM_DIGITS).contains(&digits)
        && line[digits..].starts_with(['.', ')'])
        && line[digits + 1..].starts_with(char::is_whitespace)
}

fn is_end_mark(c: char) -> bool {
    matches!(c, '.' | '!' | '?' | '…' | '؟' | '।' | '。' | '！' | '？' | '｡')
}

fn is_closing_mark(c: char) -> bool {
    matches!(c, '"' | '\'' | ')' | ']' | '}' | '”' | '’' | '»' | '」' | '』' | '）' | '】' | '》')
}

/// Returns the length in bytes of the start of the text whose characters match.
fn length_while(text: &str, matches: impl Fn(char) -> bool) -> usize {
    text.find(|c| !matches(c)).unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `|` marks the start of a new sentence.
    fn check(marked: &str) {
        let text = marked.replace('|', "");
        let actual: Vec<_> = sentences(&text).map(|range| &text[range]).collect();
        let expected: Vec<_> = marked.split('|').map(str::trim).collect();
        assert_eq!(actual, expected);
    }

    #[test]
    fn a_sentence_ends_with_its_punctuation() {
        check("One here.| Two there!| Three?| Four");
        check("He said \"no.\"| She left.| (So it went.)| Then…| Silence.");
        check("What?!| Really.");
    }

    #[test]
    fn a_lowercase_word_continues_the_sentence() {
        check("\"Why?\" she asked.| Nobody knew.");
        check("Ask for e.g. tea or coffee.| Or juice.");
    }

    #[test]
    fn abbreviations_and_initials_do_not_end_a_sentence() {
        check("Mr. Smith met Dr. Jones, i.e. Paul.| They spoke.");
        check("J. R. R. Tolkien wrote it.| We read it.");
        check("See Fig. 3 and No. 5 of Smith et al. There it is.| Good.");
        check("They answered no.| It was over.");
        check("The U.S. Army came.| It left.");
    }

    #[test]
    fn the_dots_inside_of_a_number_do_not_end_a_sentence() {
        check("Pi is 3.14 or so.| Version 1.2.3 is out.");
        check("It was 1999.| Then came 2000.");
    }

    #[test]
    fn chinese_and_japanese_sentences_need_no_space_between_them() {
        check("我们读书。|你写字！|「好。」|他说");
        check("「はい。」|と言った。");
    }

    #[test]
    fn a_list_item_begins_a_sentence() {
        check("Bring:\n|- tea\n|- milk\n  |- cold milk\n|1. Boil it\n|2. Drink it");
        check("a line\nthat goes on\n-5 degrees");
    }
}
