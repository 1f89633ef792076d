//! Estimates token counts without a tokenizer.
//!
//! Models count differently, and their vocabularies are large downloads. The estimate is close for
//! prose, and rather too high than too low for everything else:
//!
//! - An ASCII word of up to 8 characters is one token. A longer word, or one with other letters, is
//!   one token per 4 characters, rounded up.
//! - A Chinese, Japanese or Korean character is one token.
//! - Every other visible character is one token. A run of the same character (`-----`) is one token
//!   per 4, rounded up.
//! - Whitespace is not counted.
//!
//! The count is additive: splitting a text at whitespace, or between two atoms, never changes the
//! sum. Chunking relies on this.

/// Estimates the number of tokens of a text, as the module documentation describes.
pub fn count_tokens(text: &str) -> usize {
    atoms(text).map(|atom| atom.tokens).sum()
}

/// A range of text that is only split if it is longer than a whole chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Atom {
    pub start: usize,
    pub end: usize,
    pub tokens: usize,
    /// Whether a line may break before the atom even without a space, as in Chinese.
    pub breakable: bool,
}

/// Long words and runs of one character have one token per this many characters.
pub(crate) const CHARS_PER_TOKEN: usize = 4;
/// An ASCII word of up to this many characters is one token.
const MAX_SHORT_WORD_CHARS: usize = 8;

/// Returns the atoms of a text in order. The text between them is whitespace.
pub(crate) fn atoms(text: &str) -> impl Iterator<Item = Atom> {
    let mut remaining = text.char_indices().peekable();
    std::iter::from_fn(move || {
        let (start, first) = remaining.by_ref().find(|&(_, c)| !c.is_whitespace())?;
        let class = char_class(first);
        let mut end = start + first.len_utf8();
        let mut chars = 1;
        let mut is_ascii = first.is_ascii();
        while let Some((index, c)) = remaining.next_if(|&(_, c)| class.continues_with(c)) {
            end = index + c.len_utf8();
            chars += 1;
            is_ascii &= c.is_ascii();
        }
        Some(Atom {
            start,
            end,
            tokens: class.tokens(chars, is_ascii),
            breakable: matches!(class, Class::Ideograph),
        })
    })
}

/// The class of a character decides which following characters belong to the same atom.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Word,
    Ideograph,
    /// Any other visible character.
    Mark(char),
}

/// Returns the class of a visible character.
fn char_class(c: char) -> Class {
    match c {
        'a'..='z' | 'A'..='Z' | '0'..='9' => Class::Word,
        _ if is_ideograph(c) => Class::Ideograph,
        _ if c.is_alphanumeric() => Class::Word,
        _ => Class::Mark(c),
    }
}

/// Han, kana and Hangul: scripts without spaces, or with one syllable per character.
fn is_ideograph(c: char) -> bool {
    matches!(c,
        '\u{3005}'..='\u{3007}'
        | '\u{3040}'..='\u{30ff}'
        | '\u{3100}'..='\u{31ff}'
        | '\u{3400}'..='\u{4dbf}'
        | '\u{4e00}'..='\u{9fff}'
        | '\u{ac00}'..='\u{d7af}'
        | '\u{f900}'..='\u{faff}'
        | '\u{ff66}'..='\u{ff9f}'
        | '\u{20000}'..='\u{3ffff}')
}

impl Class {
    fn continues_with(self, c: char) -> bool {
        match self {
            Class::Word => char_class(c) == Class::Word,
            Class::Mark(mark) => mark == c,
            Class::Ideograph => false,
        }
    }

    fn tokens(self, chars: usize, is_ascii: bool) -> usize {
        match self {
            Class::Word if is_ascii && chars <= MAX_SHORT_WORD_CHARS => 1,
            _ => chars.div_ceil(CHARS_PER_TOKEN),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, tokens: usize) {
        assert_eq!(count_tokens(text), tokens, "{text:?}");
    }

    #[test]
    fn a_word_is_a_token_and_so_is_its_punctuation() {
        check("", 0);
        check(" \n\t", 0);
        check("The cat sat.", 4);
        check("(3.14)", 5);
    }

    #[test]
    fn a_long_word_is_several_tokens() {
        check("absolute", 1);
        check("knowledge", 3);
        check("привет", 2);
    }

    #[test]
    fn a_chinese_or_japanese_character_is_a_token() {
        check("知识图谱。", 5);
        check("ナレッジ", 4);
    }

    #[test]
    fn a_run_of_dashes_is_one_token_per_four() {
        check("----------------", 4);
    }

    #[test]
    fn english_prose_has_about_four_tokens_for_three_words() {
        let prose = "Agents read the knowledge graph before they act, and they write what they \
            learned back into it. A later run then starts from better information than the \
            one before, which is the whole point of keeping a shared memory between them.";
        let words = prose.split_whitespace().count() as f64;
        let ratio = count_tokens(prose) as f64 / words;
        assert!((1.1..1.6).contains(&ratio), "{ratio}");
    }
}
