//! The text of a question without what it excludes.

use std::{borrow::Cow, iter, ops::Range};

use super::{Term, TextQuery, is_space, strip_exclusion};

/// Returns a question without its exclusions, for those who do not know them: an embedder, and a search for names. To
/// them, `-rotten` would be a word that is searched for.
pub fn included_text(question: &str) -> Cow<'_, str> {
    match without_parts(question, excluded_terms(question)) {
        Some(included) => Cow::Owned(included.trim().to_owned()),
        None => Cow::Borrowed(question),
    }
}

/// Returns whether a question excludes something and has nothing else that can be searched for on every engine: at
/// most punctuation, and stop words, which PostgreSQL does not index. Such a question would find nearly everything.
pub fn only_excludes(question: &str) -> bool {
    match included_text(question) {
        Cow::Owned(included) => TextQuery::parse(&included).terms().iter().all(Term::has_only_stop_words),
        Cow::Borrowed(_) => false,
    }
}

/// Returns a text that excludes nothing: its exclusions have no dash any more. It is for texts of people who write to
/// somebody, and not a query: who asks what `-v` does wants to read about it.
pub fn without_exclusion_signs(text: &str) -> Cow<'_, str> {
    let dashes = excluded_terms(text).map(|term| term.start..term.start + 1);
    without_parts(text, dashes).map_or(Cow::Borrowed(text), Cow::Owned)
}

/// The places of the terms that a question excludes, from their dashes on.
fn excluded_terms(question: &str) -> impl Iterator<Item = Range<usize>> {
    let mut rest = question;
    iter::from_fn(move || {
        loop {
            rest = rest.trim_start_matches(is_space);
            if rest.is_empty() {
                return None;
            }
            let (start, is_excluded) = (question.len() - rest.len(), strip_exclusion(rest).is_some());
            rest = after_term(rest);
            if is_excluded {
                return Some(start..question.len() - rest.len());
            }
        }
    })
}

/// Returns a text without some of its parts, which are in their order; `None` if there are none.
fn without_parts(text: &str, parts: impl Iterator<Item = Range<usize>>) -> Option<String> {
    let (mut remaining, mut copied) = (String::new(), 0);
    for part in parts {
        remaining.push_str(&text[copied..part.start]);
        copied = part.end;
    }
    (copied > 0).then(|| remaining + &text[copied..])
}

/// Returns what follows the term at the beginning of `text`, which is not empty. A term ends where
/// [`super::TextQuery::parse`] ends it; the star of a phrase belongs to it.
fn after_term(text: &str) -> &str {
    let start = strip_exclusion(text).unwrap_or(text);
    let word = match start.strip_prefix('"') {
        Some(quoted) => match quoted.split_once('"') {
            Some((_, after)) => return after.strip_prefix('*').unwrap_or(after),
            None => quoted,
        },
        None => start,
    };
    let end = word.find(|c| is_space(c) || c == '"').unwrap_or(word.len());
    &word[end..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_question_excludes_is_left_out_of_its_text() {
        let check = |question: &str, expected: &str| {
            assert_eq!(included_text(question), expected, "{question}");
        };
        check("apple pie -rotten", "apple pie");
        check("-rotten apple", "apple");
        check("apple -\"very rotten\"* pie", "apple  pie");
        check("Where was Ada born? -London's, in a town", "Where was Ada born?  in a town");
        check("\"red -green\" pears", "\"red -green\" pears");
        check("apple -\"very rotten", "apple  rotten");
        check("well-known --verbose - dash", "well-known --verbose - dash");
        check("pears\"-red\"", "pears\"-red\"");
        check("-rotten", "");
        check("", "");
        check("Über -Öl* Ä", "Über  Ä");
    }

    #[test]
    fn a_question_only_excludes_if_stop_words_and_punctuation_are_left() {
        for question in
            ["-rotten", "-rotten ?", "? -rotten - !", "the -rotten", "-\"too old\" \"of the\" to*", "-the"]
        {
            assert!(only_excludes(question), "{question}");
        }
        for question in
            ["rotten", "?", "the", "apple -rotten", "the apple -the", "-rotten appl*", "--rotten", ""]
        {
            assert!(!only_excludes(question), "{question}");
        }
    }

    #[test]
    fn the_text_of_a_question_excludes_nothing() {
        for question in ["a -b c", "-\"x y\" -z* q", "-a\"-b\" c -\"d", "-a,b -c.d e", "\"a\"-b c", "-\"-a b"]
        {
            for text in [included_text(question), without_exclusion_signs(question)] {
                assert_eq!(TextQuery::parse(&text).exclusions(), None, "{question}");
            }
        }
    }

    #[test]
    fn a_text_of_a_person_keeps_the_words_after_dashes() {
        let check = |text: &str, expected: &str| {
            assert_eq!(without_exclusion_signs(text), expected);
        };
        check("What does -v do?", "What does v do?");
        check("-5 degrees, or -\"minus five\"?", "5 degrees, or \"minus five\"?");
        check("a well-known list:\n- one --two", "a well-known list:\n- one --two");
        check("", "");
    }
}
