//! BERT's way from a text to pieces of words: clean, split, then the longest known piece
//! from the left, again and again. Follows the `tokenizers` library sign for sign, since
//! a model knows only the pieces it was trained on. (Marks and punctuation that Unicode
//! gained after version 8 are letters to that library; no vocabulary has them anyway.)

use std::collections::HashMap;

use icu_normalizer::DecomposingNormalizerBorrowed;
use icu_properties::{CodePointMapData, props::GeneralCategory as Category};

pub struct WordPiece {
    pub vocabulary: HashMap<String, u32>,
    /// Marks a piece that continues a word: `##`.
    pub continuing: String,
    pub unknown: u32,
    pub longest_word: usize,
}

impl WordPiece {
    /// Adds the pieces of one word; a word with any unknown part is unknown as a whole.
    pub fn split(&self, word: &str, tokens: &mut Vec<u32>) {
        let before = tokens.len();
        let complete = word.chars().count() <= self.longest_word && self.pieces(word, tokens).is_some();
        if !complete {
            tokens.truncate(before);
            tokens.push(self.unknown);
        }
    }

    fn pieces(&self, word: &str, tokens: &mut Vec<u32>) -> Option<()> {
        let mut rest = word.to_owned();
        let mut mark = 0;
        while rest.len() > mark {
            let ends = rest.char_indices().map(|(at, c)| at + c.len_utf8()).filter(|end| *end > mark);
            let (end, token) = ends.rev().find_map(|end| Some((end, *self.vocabulary.get(&rest[..end])?)))?;
            tokens.push(token);
            rest = format!("{}{}", self.continuing, &rest[end..]);
            mark = self.continuing.len();
        }
        Some(())
    }
}

/// What happens to a text before it is split.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TextCleaner {
    pub clean_text: bool,
    pub chinese: bool,
    pub strip_accents: bool,
    pub lowercase: bool,
}

impl TextCleaner {
    pub fn apply(&self, text: &str) -> String {
        let mut cleaned = String::with_capacity(text.len());
        for c in text.chars() {
            match c {
                _ if self.clean_text && is_noise(c) => {}
                _ if self.clean_text && c.is_whitespace() => cleaned.push(' '),
                _ if self.chinese && is_chinese(c) => cleaned.extend([' ', c, ' ']),
                _ => cleaned.push(c),
            }
        }
        if self.strip_accents && !cleaned.is_ascii() {
            let decomposed = DecomposingNormalizerBorrowed::new_nfd().normalize(&cleaned);
            cleaned = decomposed.chars().filter(|c| category(*c) != Category::NonspacingMark).collect();
        }
        if self.lowercase {
            // Sign by sign: `str::to_lowercase` would write a final sigma its own way.
            cleaned = cleaned.chars().flat_map(char::to_lowercase).collect();
        }
        cleaned
    }
}

/// Words between spaces, with each punctuation mark as a word of its own.
pub fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split_whitespace().flat_map(|word| {
        word.split_inclusive(is_punctuation).flat_map(|part| {
            let mark = part.chars().next_back().filter(|c| is_punctuation(*c)).map_or(0, char::len_utf8);
            let (letters, mark) = part.split_at(part.len() - mark);
            [letters, mark].into_iter().filter(|piece| !piece.is_empty())
        })
    })
}

fn category(c: char) -> Category {
    CodePointMapData::<Category>::new().get(c)
}

fn is_noise(c: char) -> bool {
    match c {
        '\t' | '\n' | '\r' => false,
        '\0' | '\u{fffd}' => true,
        _ => matches!(category(c), Category::Control | Category::Format | Category::PrivateUse),
    }
}

fn is_punctuation(c: char) -> bool {
    use Category::*;
    c.is_ascii_punctuation()
        || matches!(
            category(c),
            ConnectorPunctuation
                | DashPunctuation
                | OpenPunctuation
                | ClosePunctuation
                | InitialPunctuation
                | FinalPunctuation
                | OtherPunctuation
        )
}

/// The blocks BERT's authors chose, gaps included.
fn is_chinese(c: char) -> bool {
    matches!(
        u32::from(c),
        0x4e00..=0x9fff
            | 0x3400..=0x4dbf
            | 0x20000..=0x2a6df
            | 0x2a700..=0x2b73f
            | 0x2b740..=0x2b81f
            | 0x2b920..=0x2ceaf
            | 0xf900..=0xfaff
            | 0x2f800..=0x2fa1f
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let cleaning = TextCleaner { clean_text: true, chinese: true, strip_accents: true, lowercase: true };
        let cleaned = cleaning.apply(text);
        assert_eq!(words(&cleaned).collect::<Vec<_>>().join(" "), expected);
    }

    #[test]
    fn a_text_falls_apart_at_spaces_marks_and_chinese_signs() {
        check("Hey friend!\tHow are-you?!?", "hey friend ! how are - you ? ! ?");
        check("日本 語です", "日 本 語 てす");
        check("$5…»x«", "$ 5 … » x «");
    }

    #[test]
    fn accents_case_and_invisible_signs_go() {
        check("Ünïcode\u{200b}\u{0} RÉSUMÉ ΣΊΣΥΦΟΣ", "unicode resume σισυφοσ");
    }

    #[test]
    fn the_longest_known_piece_wins() {
        let known = ["[UNK]", "un", "##aff", "##able", "##a", "##ff", "u"];
        let pieces = WordPiece {
            vocabulary: known.iter().map(|piece| piece.to_string()).zip(0..).collect(),
            continuing: "##".into(),
            unknown: 0,
            longest_word: 12,
        };
        let split = |word| {
            let mut tokens = vec![];
            pieces.split(word, &mut tokens);
            tokens
        };
        assert_eq!(split("unaffable"), [1, 2, 3]);
        assert_eq!(split("unaff"), [1, 2]);
        assert_eq!(split("unaffordable"), [0]);
        assert_eq!(split("unaffunaffunaff"), [0]);
    }
}
