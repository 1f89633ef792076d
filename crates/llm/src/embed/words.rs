//! The words of a text as the built-in embedder sees them: in lower case, without accents.

use std::sync::LazyLock;

use icu_normalizer::properties::{CanonicalDecompositionBorrowed, Decomposed};

/// All characters in one list with the ends of the words beside it, so that a text needs two
/// allocations.
#[derive(Default)]
pub struct Words {
    letters: Vec<char>,
    ends: Vec<usize>,
}

impl Words {
    pub fn split(text: &str) -> Self {
        let mut words =
            Self { letters: Vec::with_capacity(text.len()), ends: Vec::with_capacity(text.len() / 4) };
        for c in text.chars() {
            if c.is_ascii_alphanumeric() {
                words.letters.push(c.to_ascii_lowercase());
            } else if c.is_ascii() {
                words.end();
            } else {
                c.to_lowercase().for_each(|c| words.take(c));
            }
        }
        words.end();
        words
    }

    pub fn iter(&self) -> impl Iterator<Item = &[char]> {
        (0..self.ends.len()).map(|index| self.get(index))
    }

    pub fn get(&self, index: usize) -> &[char] {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.letters[start..self.ends[index]]
    }

    fn take(&mut self, c: char) {
        if is_accent(c) {
            return;
        }
        if is_sign(c) {
            self.end();
            self.letters.push(c);
            self.end();
        } else if c.is_alphanumeric() {
            self.letters.push(without_accent(c));
        } else {
            self.end();
        }
    }

    fn end(&mut self) {
        if self.letters.len() > self.ends.last().copied().unwrap_or(0) {
            self.ends.push(self.letters.len());
        }
    }
}

/// Chinese and Japanese have no spaces: each character is a word, and pairs of neighbours provide the
/// rest.
fn is_sign(c: char) -> bool {
    matches!(u32::from(c), 0x3040..=0x30ff | 0x3400..=0x4dbf | 0x4e00..=0x9fff | 0xf900..=0xfaff | 0x20000..=0x3ffff)
}

fn is_accent(c: char) -> bool {
    matches!(c, '\u{300}'..='\u{36f}')
}

/// Only for Latin, Greek and Cyrillic, whose accents people often omit when they type. In other scripts
/// a mark makes a different letter.
fn without_accent(c: char) -> char {
    if !matches!(u32::from(c), 0xc0..0x530 | 0x1e00..0x2000) {
        return c;
    }
    let table = CanonicalDecompositionBorrowed::new();
    let mut base = c;
    loop {
        match table.decompose(base) {
            Decomposed::Expansion(first, _) | Decomposed::Singleton(first) => base = first,
            Decomposed::Default => return base,
        }
    }
}

/// Words that say little about the subject of a text. Only English is covered, as agents mostly write
/// English; common words of other languages keep their weight.
pub fn is_stop_word(word: &[char]) -> bool {
    static SORTED: LazyLock<Vec<u64>> = LazyLock::new(|| {
        let letters: Vec<char> = STOP_WORDS.chars().collect();
        let mut packed: Vec<u64> = letters.split(|c| *c == ' ').filter_map(pack).collect();
        packed.sort_unstable();
        packed
    });
    pack(word).is_some_and(|word| SORTED.binary_search(&word).is_ok())
}

/// Packs up to eight ASCII letters into one number, which is quick to compare.
fn pack(word: &[char]) -> Option<u64> {
    let short = word.len() <= 8 && word.iter().all(char::is_ascii);
    short.then(|| word.iter().fold(0, |packed, &c| packed << 8 | c as u64))
}

const STOP_WORDS: &str = "a about after all also an and any are as at be because been before being both but by \
can could d did do does doing done each for from had has have having he her here hers him his how i if in into is it \
its just ll m may me might more most must my no nor not of off on once only or other our ours out over own re s same \
shall she should so some such t than that the their theirs them then there these they this those through to too under \
until up us ve very was we were what when where which while who whom whose why will with would you your yours";

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let words: Vec<String> = Words::split(text).iter().map(|word| word.iter().collect()).collect();
        assert_eq!(words.join(" "), expected);
    }

    #[test]
    fn words_end_at_everything_that_is_no_letter_or_digit() {
        check("agent_runs: 3.5 (don't)", "agent runs 3 5 don t");
        check("  ", "");
    }

    #[test]
    fn accents_go_but_letters_of_other_scripts_stay() {
        check("Ếlan ÅNGSTRÖM İstanbul Ёлка", "elan angstrom istanbul елка");
        check("が हिन्दी", "が हिन दी");
    }

    #[test]
    fn each_chinese_or_japanese_sign_is_a_word() {
        check("Rust知識グラ", "rust 知 識 グ ラ");
    }

    #[test]
    fn common_words_are_known_in_full_only() {
        let is_stop = |word: &str| is_stop_word(&word.chars().collect::<Vec<_>>());
        assert!(is_stop("the") && is_stop("yours") && is_stop("through"));
        assert!(!is_stop("theory") && !is_stop("") && !is_stop("graph"));
    }
}
