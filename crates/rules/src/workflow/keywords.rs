//! Finds a word of decision in what somebody wrote: `PASS`, `NEEDS_CHANGES`, `APPROVED`.
//!
//! People and models write such words in every dress (`**Needs changes**`, `needs-changes`), deny
//! them ("not PASS") and list them ("PASS or FAIL"). A word that is denied or listed decides nothing.

/// A word of a text, in capitals, without what stands around it.
#[derive(Debug)]
pub(crate) struct Word<'a> {
    pub upper: String,
    /// As it was written.
    pub text: &'a str,
    pub line: usize,
    /// What stands between it and the next one on its line, without spaces and emphasis.
    pub after: String,
}

/// The words of a text. `_` and `-` separate, so that `NEEDS_CHANGES` is two like `needs changes`.
pub(crate) fn split_words(text: &str) -> Vec<Word<'_>> {
    let mut words = Vec::new();
    for (line, content) in text.lines().enumerate() {
        let mut rest = content;
        while let Some(start) = rest.find(|c: char| c.is_alphanumeric()) {
            let word = &rest[start..];
            // An apostrophe is part of a word, so that "doesn't" is one.
            let inside = |c: char| c.is_alphanumeric() || matches!(c, '\'' | '’');
            let end = word.find(|c| !inside(c)).unwrap_or(word.len());
            let text = word[..end].trim_end_matches(['\'', '’']);
            rest = &word[end..];
            let gap = rest.find(|c: char| c.is_alphanumeric()).unwrap_or(rest.len());
            let after = rest[..gap].chars().filter(|c| !c.is_whitespace() && !"*_`\"'-".contains(*c));
            words.push(Word {
                upper: text.to_uppercase().replace('’', "'"),
                text,
                line,
                after: after.collect(),
            });
        }
    }
    words
}

/// What one of several known phrases was found to mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KeywordMatch<T> {
    pub meaning: T,
    /// The first of its words, and how many there are.
    pub at: usize,
    pub len: usize,
    pub negated: bool,
    /// One of several that were offered: "PASS or FAIL", "PASS/FAIL".
    pub is_alternative: bool,
    /// Written in capitals, as a decision is and a sentence is not.
    pub is_uppercase: bool,
}

impl<T> KeywordMatch<T> {
    pub fn is_decisive(&self) -> bool {
        !self.negated && !self.is_alternative
    }
}

/// Every place where one of the phrases stands. Phrases are in capitals, words apart by spaces;
/// where two begin at one word, the longer one is meant.
pub(crate) fn find_keywords<T: Copy + PartialEq>(
    words: &[Word],
    phrases: &[(&str, T)],
) -> Vec<KeywordMatch<T>> {
    let mut found: Vec<KeywordMatch<T>> = Vec::new();
    let mut at = 0;
    while at < words.len() {
        let hit = phrases
            .iter()
            .filter_map(|(phrase, what)| Some((match_phrase(words, at, phrase)?, *what)))
            .max_by_key(|(len, _)| *len);
        let Some((len, what)) = hit else {
            at += 1;
            continue;
        };
        found.push(KeywordMatch {
            meaning: what,
            at,
            len,
            negated: is_negated(words, at) || is_hypothetical(words, at + len),
            is_alternative: false,
            is_uppercase: words[at..at + len].iter().all(|word| !word.text.chars().any(char::is_lowercase)),
        });
        at += len;
    }
    for one in 1..found.len() {
        let (before, after) = (found[one - 1], found[one]);
        if before.meaning != after.meaning && is_alternative(words, before, after) {
            found[one - 1].is_alternative = true;
            found[one].is_alternative = true;
        }
    }
    found
}

fn match_phrase(words: &[Word], at: usize, phrase: &str) -> Option<usize> {
    let parts: Vec<&str> = phrase.split(' ').collect();
    let here = words.get(at..at + parts.len())?;
    let same_line = here.iter().all(|word| word.line == here[0].line);
    (same_line && here.iter().zip(&parts).all(|(word, part)| word.upper == **part)).then_some(parts.len())
}

/// "PASS, FAIL or NEEDS_CHANGES", "PASS/FAIL", "either PASS or FAIL": nothing but a comma, a
/// stroke or an "or" between the two.
fn is_alternative(words: &[Word], before: KeywordMatch<impl Copy>, after: KeywordMatch<impl Copy>) -> bool {
    let end = before.at + before.len;
    if words[end - 1].line != words[after.at].line {
        return false;
    }
    let sign = words[end - 1].after.as_str();
    let only_signs = |sign: &str| sign.chars().all(|c| ",/|()[]:;".contains(c));
    match &words[end..after.at] {
        [] => only_signs(sign) && sign.contains([',', '/', '|']),
        [or] => or.upper == "OR" && only_signs(sign),
        _ => false,
    }
}

/// "A PASS would be premature".
fn is_hypothetical(words: &[Word], next: usize) -> bool {
    let line = next.checked_sub(1).map(|last| words[last].line);
    words.get(next).is_some_and(|word| {
        Some(word.line) == line && ["WOULD", "COULD", "MIGHT"].contains(&word.upper.as_str())
    })
}

/// Whether one of the few words before says no, in the same sentence.
fn is_negated(words: &[Word], at: usize) -> bool {
    const NO: &[&str] = &[
        "NOT", "NO", "NEVER", "CANNOT", "CAN'T", "WON'T", "DON'T", "DOESN'T", "DIDN'T", "ISN'T", "WOULDN'T",
        "COULDN'T", "WITHOUT", "NEITHER", "NOR", "HARDLY", "FAILS", "UNLESS", "UNTIL",
    ];
    let line = words[at].line;
    for back in 1..=4 {
        let Some(word) = at.checked_sub(back).map(|at| &words[at]) else { return false };
        if word.line != line || word.after.contains(['.', ';', '!', '?', ':', ',', '—', '–']) {
            return false;
        }
        if NO.contains(&word.upper.as_str()) {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[(&str, bool)]) {
        let phrases = [("PASS", "pass"), ("FAIL", "fail"), ("NEEDS CHANGES", "changes")];
        let found = find_keywords(&split_words(text), &phrases);
        let found: Vec<_> = found.iter().map(|one| (one.meaning, one.is_decisive())).collect();
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn a_word_counts_unless_it_is_denied_or_offered() {
        check("PASS", &[("pass", true)]);
        check("**Needs-changes**: see below", &[("changes", true)]);
        check("This is not a PASS.", &[("pass", false)]);
        check("No. PASS", &[("pass", true)]);
        check("PASS or FAIL", &[("pass", false), ("fail", false)]);
        check("PASS, FAIL, or NEEDS_CHANGES", &[("pass", false), ("fail", false), ("changes", false)]);
        check("[PASS/FAIL]", &[("pass", false), ("fail", false)]);
        check("1. schema: PASS\n2. names: FAIL", &[("pass", true), ("fail", true)]);
        check("It doesn't really pass", &[("pass", false)]);
        check("a passage that failed", &[]);
    }
}
