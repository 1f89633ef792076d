//! The words of a text, reduced so that forms of the same word are equal.

/// Words that say nothing about the subject of a text: function words, and verbs such as "make" and
/// "get" whose meaning is in the words after them.
const STOP_WORDS: &str = "a about after all also am an and any are as at be because been before being both but by \
can could did do does doing done each for from get gets give gives got had has have having he her here him his how i \
if in into is it its just let make makes making may me might more most must my need needs new no nor not of off on \
once only or other our out over own please put same shall she should so some such take than that the their them then \
there these they thing things this those through to too under until up us use used using very want wants was we were \
what when where which while who whom whose why will with would you your \
agent agents";

/// A word as it stands in a text, in lower case, and its stem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Word {
    pub text: String,
    pub stem: String,
}

/// The words of a text in their order, without stop words.
pub(super) fn significant_words(text: &str) -> Vec<Word> {
    let lower = text.to_lowercase();
    let words = lower.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words
        .filter(|word| !is_stop_word(word))
        .map(|word| Word { text: word.to_owned(), stem: stem(word) })
        .collect()
}

fn is_stop_word(word: &str) -> bool {
    use std::{collections::HashSet, sync::LazyLock};
    static ALL: LazyLock<HashSet<&str>> = LazyLock::new(|| STOP_WORDS.split_whitespace().collect());
    // A single letter is what remains of "don't" or "it's".
    (word.len() == 1 && !word.starts_with(|c: char| c.is_ascii_digit())) || ALL.contains(word)
}

/// Removes the ending of an English word. The result need not be a word: it only has to be the same for
/// the forms of one word. Words of other languages mostly stay as they are.
pub(super) fn stem(word: &str) -> String {
    // Longer endings first, so that "verify" and "verification" lose all of theirs.
    const ENDINGS: &[&str] = &[
        "ifications",
        "ification",
        "isations",
        "ications",
        "isation",
        "ication",
        "ations",
        "ifying",
        "ation",
        "ators",
        "ating",
        "ising",
        "ified",
        "ifies",
        "ates",
        "ated",
        "ator",
        "ings",
        "ised",
        "iser",
        "ises",
        "ions",
        "ate",
        "ify",
        "ing",
        "ise",
        "ers",
        "ors",
        "ion",
        "ies",
        "ied",
        "is",
        "er",
        "or",
        "ed",
        "es",
        "s",
        "e",
        "y",
    ];
    // British and American spelling: "summarise" and "summarize".
    let mut word = word.to_lowercase().replace('z', "s");
    // A finding is a result; to find something is another matter.
    if matches!(word.as_str(), "finding" | "findings") {
        return "finding".to_owned();
    }
    let shortened = ENDINGS.iter().find_map(|ending| {
        let short = word.strip_suffix(ending)?;
        (short.chars().count() >= 3).then_some(short.len())
    });
    word.truncate(shortened.unwrap_or(word.len()));
    // "planning" and "plan".
    let letters: Vec<char> = word.chars().collect();
    if let [.., a, b] = letters[..]
        && a == b
        && letters.len() > 4
        && !"aeiousl".contains(b)
    {
        word.pop();
    }
    word
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_of_a_word_have_one_stem() {
        for forms in [
            "summarise summarize summariser summarising",
            "plan planning planner plans",
            "extract extracts extraction extractor",
            "review reviews reviewer reviewing",
            "implement implements implemented",
            "specify specified specification spec",
            "verify verifies verification",
            "migrate migrating migration",
            "create creates creation",
            "analyse analyze analysis",
            "entity entities",
        ] {
            let all: Vec<String> = forms.split(' ').map(stem).collect();
            assert!(all.iter().all(|one| *one == all[0]), "{all:?}");
        }
    }

    #[test]
    fn stop_words_and_punctuation_are_left_out() {
        let words = |text| significant_words(text).into_iter().map(|word| word.text).collect::<Vec<_>>();
        assert_eq!(words("Please don't make a plan, it's done."), ["don", "plan"]);
        assert_eq!(words("web_search v2 3"), ["web", "search", "v2", "3"]);
        assert!(words("").is_empty());
    }

    #[test]
    fn letters_of_other_scripts_do_not_break_a_word() {
        for word in ["größe", "知識", "é", "ёлка", "naïves"] {
            assert!(!stem(word).is_empty(), "{word}");
        }
    }
}
