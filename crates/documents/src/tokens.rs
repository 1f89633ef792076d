//! Counts tokens without a tokenizer.
//!
//! Models count differently and their vocabularies are large downloads, so this is an estimate
//! made to be close for prose and high rather than low for everything else:
//!
//! * an ASCII word of up to 8 characters is one token; a longer one, or one with other letters,
//!   is one token per 4 characters begun;
//! * a Chinese, Japanese or Korean character is one token;
//! * every other visible character is one token, where a run of the same one (`-----`) is one
//!   token per 4 begun;
//! * whitespace is free.
//!
//! The count is additive: cutting a text at whitespace, or between two atoms, never changes the
//! sum. Chunking relies on it.

/// Estimates how many tokens a language model makes of a text, as described above.
pub fn count_tokens(text: &str) -> usize {
    atoms(text).map(|atom| atom.tokens).sum()
}

/// A stretch of text that is not broken unless it is longer than a whole chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Atom {
    pub start: usize,
    pub end: usize,
    pub tokens: usize,
    /// A line may end before it even without a space, as in Chinese.
    pub breakable: bool,
}

pub(crate) const CHARS_PER_TOKEN: usize = 4;
const SHORT_WORD: usize = 8;

/// The atoms of a text in order; what is between them is whitespace.
pub(crate) fn atoms(text: &str) -> impl Iterator<Item = Atom> {
    let mut rest = text.char_indices().peekable();
    std::iter::from_fn(move || {
        let (start, first) = rest.by_ref().find(|&(_, c)| !c.is_whitespace())?;
        let class = class(first);
        let mut end = start + first.len_utf8();
        let mut chars = 1;
        let mut ascii = first.is_ascii();
        while let Some((at, c)) = rest.next_if(|&(_, c)| class.continues_with(c)) {
            end = at + c.len_utf8();
            chars += 1;
            ascii &= c.is_ascii();
        }
        Some(Atom {
            start,
            end,
            tokens: class.tokens(chars, ascii),
            breakable: matches!(class, Class::Ideograph),
        })
    })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Word,
    Ideograph,
    Mark(char),
}

/// The class of a visible character.
fn class(c: char) -> Class {
    match c {
        'a'..='z' | 'A'..='Z' | '0'..='9' => Class::Word,
        _ if is_ideograph(c) => Class::Ideograph,
        _ if c.is_alphanumeric() => Class::Word,
        _ => Class::Mark(c),
    }
}

/// Han, kana and Hangul: the scripts written without spaces, or with a syllable a character.
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
            Class::Word => class(c) == Class::Word,
            Class::Mark(mark) => mark == c,
            Class::Ideograph => false,
        }
    }

    fn tokens(self, chars: usize, ascii: bool) -> usize {
        match self {
            Class::Word if ascii && chars <= SHORT_WORD => 1,
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
    fn a_long_word_counts_in_pieces() {
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
    fn a_rule_of_dashes_is_not_one_token_each() {
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
