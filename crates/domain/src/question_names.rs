//! Names in a question that say little because most texts have them.
//!
//! In the notes of one team or the messages of two people, the same few names are everywhere. Words weigh
//! little in a text search when they are common, but an embedding gives a name the same weight everywhere,
//! and every text with the name becomes similar to the question. Such names are left out of the text that
//! is embedded; the text search keeps them.

use std::collections::HashSet;

use crate::text_query;

/// At most this many words of a question are looked up.
const MAX_CANDIDATES: usize = 8;
/// Of fewer texts it is not known which names are common.
const MIN_TEXTS: usize = 20;

/// Returns the words of a question that could be names: those with a capital letter that are no stop words.
pub fn candidates(question: &str) -> Vec<String> {
    let mut found = Vec::new();
    for word in text_query::words(question) {
        let is_name = word.chars().next().is_some_and(char::is_uppercase) && word.chars().nth(1).is_some();
        if is_name && !text_query::is_stop_word(word) && !found.iter().any(|name| name == word) {
            found.push(word.to_owned());
            if found.len() == MAX_CANDIDATES {
                break;
            }
        }
    }
    found
}

/// Whether a name that `with_name` of `texts` texts have is in more than a tenth of them.
pub fn is_common(with_name: usize, texts: usize) -> bool {
    texts >= MIN_TEXTS && with_name > texts / 10
}

/// Returns the question without these words. A question that would have only stop words left is returned
/// as it is.
pub fn without(question: &str, common: &[String]) -> String {
    let common: HashSet<&str> = common.iter().map(String::as_str).collect();
    let words: Vec<&str> = text_query::words(question).filter(|word| !common.contains(word)).collect();
    // The `s` of a possessive is a stop word too.
    if common.is_empty() || words.iter().all(|word| text_query::is_stop_word(word)) {
        return question.to_owned();
    }
    let mut rest = String::with_capacity(question.len());
    let mut last = 0;
    for word in text_query::words(question).filter(|word| common.contains(word)) {
        let start = word.as_ptr().addr() - question.as_ptr().addr();
        rest.push_str(&question[last..start]);
        last = start + word.len();
        let after = &question[last..];
        let possessive = ["'s", "’s"].into_iter().find(|ending| after.starts_with(ending));
        last += possessive.map_or(0, str::len);
    }
    rest.push_str(&question[last..]);
    rest.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_with_a_capital_letter_are_candidates_unless_they_are_stop_words() {
        let check = |question: &str, expected: &str| assert_eq!(candidates(question).join(" "), expected);
        check("What did Ada's friend tell Grace Hopper, Ada?", "Ada Grace Hopper");
        check("How do I do it in the DB?", "DB");
        check("Was Élan Ωmega there", "Élan Ωmega");
        check("", "");
    }

    #[test]
    fn a_name_is_common_in_more_than_a_tenth_of_enough_texts() {
        assert!(is_common(11, 100));
        assert!(!is_common(10, 100));
        assert!(!is_common(10, 10), "ten texts are too few to tell");
    }

    #[test]
    fn common_names_leave_the_question_with_their_possessive() {
        let check = |question: &str, names: &str, expected: &str| {
            let names: Vec<String> = names.split_whitespace().map(str::to_owned).collect();
            assert_eq!(without(question, &names), expected);
        };
        check("Which hobby does Ada's friend have?", "Ada", "Which hobby does friend have?");
        check("Ada, and Adam’s hobby", "Ada", ", and Adam’s hobby");
        check("What did Ada do?", "Ada", "What did Ada do?");
        check("What did Ada paint?", "", "What did Ada paint?");
    }
}
