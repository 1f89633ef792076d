//! The names that a text mentions. Two texts with the same name are linked.
//!
//! A name is written in lower case with single spaces. Names come from two places: what an object is called, and
//! runs of capitalised words in its text. The second rule is one of English and depends on case: it finds nothing in
//! texts without capital letters. Nothing here depends on other objects, so a link never has to be computed again when
//! another object is written, renamed or deleted.

use crate::text_query;

/// A name has at most this many words.
const MAX_WORDS: usize = 8;
/// A single word with fewer characters is not a name: it would link texts that have nothing in common.
const MIN_CHARS: usize = 4;
/// A longer name is not followed: it names nothing that people write, and each link repeats it.
const MAX_BYTES: usize = 200;
/// Words in lower case that join two capitalised ones: `Bank of England`.
const JOINING_WORDS: [&str; 6] = ["of", "de", "the", "von", "van", "and"];

/// The normal form of what an object is called; `None` when it is too short or too long to link texts. What stands in
/// brackets at its end only tells it from others of the same name.
pub fn normal_name(name: &str) -> Option<String> {
    let name = match name.trim_end().strip_suffix(')').and_then(|rest| rest.rsplit_once('(')) {
        Some((before, _)) if !before.trim().is_empty() => before,
        _ => name,
    };
    let words: Vec<&str> = text_query::words(name).take(MAX_WORDS + 1).collect();
    is_name(&words).then(|| normalise(&words))
}

/// Whether a text contains a name in its normal form as whole words, in any case.
pub fn contains(text: &str, name: &str) -> bool {
    Question::new(text).contains(name)
}

/// A question, split into words once, because it is compared with many names.
pub struct Question<'a> {
    words: Vec<&'a str>,
    lower_case: Vec<String>,
}

impl<'a> Question<'a> {
    pub fn new(question: &'a str) -> Self {
        let words: Vec<&str> = text_query::words(question).collect();
        let lower_case = words.iter().map(|word| word.to_lowercase()).collect();
        Self { words, lower_case }
    }

    /// Whether the question has a name in its normal form as whole words, in any case.
    pub fn contains(&self, name: &str) -> bool {
        let name: Vec<&str> = name.split(' ').collect();
        let is_name = |run: &[String]| run.iter().zip(&name).all(|(word, part)| word == part);
        self.lower_case.windows(name.len()).any(is_name)
    }

    /// Whether the question has a word with a capital letter that is no stop word. Without one, it names nothing.
    pub fn may_name_something(&self) -> bool {
        self.words.iter().any(|word| is_capitalised(word) && !text_query::is_stop_word(word))
    }

    /// Whether the question names something that is called `name`: it has the name as whole words, and one of them is
    /// written with a capital letter. Stop words and the `common` names, which most texts have, do not count: they name
    /// nothing in particular.
    pub fn names(&self, name: &str, common: &[String]) -> bool {
        let Some(name) = normal_name(name) else { return false };
        let name: Vec<&str> = name.split(' ').collect();
        let is_specific = |word: &str| {
            is_capitalised(word) && !text_query::is_stop_word(word) && !common.iter().any(|name| name == word)
        };
        let runs = self.lower_case.windows(name.len()).zip(self.words.windows(name.len()));
        runs.into_iter().any(|(lower_case, words)| {
            lower_case.iter().zip(&name).all(|(word, part)| word == part)
                && words.iter().any(|word| is_specific(word))
        })
    }
}

/// The runs of capitalised words in a text, in the order in which they first occur, at most `max`. The words of a run
/// are separated by spaces or hyphens alone. Numbers continue a run, and so does one joining word before another
/// capitalised word.
pub fn mentioned_names(text: &str, max: usize) -> Vec<String> {
    let mut found = Vec::new();
    let mut run: Vec<&str> = Vec::new();
    let mut end = 0;
    let mut words = text_query::words(text).peekable();
    while let Some(word) = words.next() {
        let start = offset(text, word);
        let is_adjacent = text[end..start].chars().all(|c| c == ' ' || c == '-');
        end = start + word.len();
        let joins = is_adjacent
            && !run.is_empty()
            && JOINING_WORDS.contains(&word)
            && words.peek().is_some_and(|next| is_capitalised(next) && text[end..offset(text, next)] == *" ");
        if joins {
            run.push(word);
            continue;
        }
        let continues = !run.is_empty() && word.starts_with(|c: char| c.is_ascii_digit());
        let belongs = is_capitalised(word) || continues;
        if !belongs || !is_adjacent {
            add_run(&mut found, &run);
            run.clear();
            if found.len() >= max {
                break;
            }
        }
        if is_capitalised(word) || (belongs && is_adjacent) {
            run.push(word);
        }
    }
    add_run(&mut found, &run);
    found.truncate(max);
    found
}

/// Adds a run without the stop words at its beginning, such as the first word of a sentence.
fn add_run(found: &mut Vec<String>, run: &[&str]) {
    let first = run.iter().position(|word| !text_query::is_stop_word(word)).unwrap_or(run.len());
    let words = &run[first..];
    if is_name(words) {
        let name = normalise(words);
        if !found.contains(&name) {
            found.push(name);
        }
    }
}

fn is_name(words: &[&str]) -> bool {
    if words.iter().map(|word| word.len()).sum::<usize>() > MAX_BYTES {
        return false;
    }
    match words {
        [] => false,
        [word] => word.chars().count() >= MIN_CHARS && !text_query::is_stop_word(word),
        several => several.len() <= MAX_WORDS,
    }
}

fn normalise(words: &[&str]) -> String {
    words.iter().map(|word| word.to_lowercase()).collect::<Vec<_>>().join(" ")
}

fn is_capitalised(word: &str) -> bool {
    word.starts_with(char::is_uppercase)
}

/// Where a word begins that is a part of the text.
fn offset(text: &str, word: &str) -> usize {
    word.as_ptr().addr() - text.as_ptr().addr()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_capitalised_words_are_names() {
        let check = |text: &str, expected: &str| {
            assert_eq!(mentioned_names(text, 100).join(", "), expected, "{text}");
        };
        check("He met Ada Lovelace in London.", "ada lovelace, london");
        check("The Analytical Engine. Charles Babbage built it", "analytical engine, charles babbage");
        check("Who is Bo? What of it?", "");
        check("Jean-Luc Picard; Picard, and Picard", "jean luc picard, picard");
        check("the Bank of England and the City", "bank of england, city");
        check("Apollo 11 landed. 12 went", "apollo 11");
        check("Élan Ωmega, ÉCOLE", "élan ωmega, école");
        check("", "");
        check(&format!("{} and Ada", "Z".repeat(MAX_BYTES + 1)), "");
    }

    #[test]
    fn only_the_first_names_are_returned() {
        assert_eq!(mentioned_names("Anna, Berta, Clara and Dora", 2), ["anna", "berta"]);
    }

    #[test]
    fn a_name_has_a_normal_form_unless_it_would_link_everything() {
        let check = |name: &str, expected: Option<&str>| {
            assert_eq!(normal_name(name).as_deref(), expected, "{name}");
        };
        check("Analytical  Engine (machine)", Some("analytical engine"));
        check("(1815)", Some("1815"));
        check("It", None);
        check("Bo", None);
        check("a b c d e f g h i", None);
        check(&"Z".repeat(MAX_BYTES + 1), None);
        check("", None);
    }

    #[test]
    fn a_question_names_what_it_writes_with_a_capital_letter() {
        let check = |question: &str, name: &str, expected: bool| {
            let common = ["Grace".to_owned()];
            let words = Question::new(question);
            assert_eq!(words.names(name, &common), expected, "{name} in {question}");
            assert!(words.may_name_something() || !expected, "{question}");
        };
        check("Who built the Analytical Engine?", "Analytical Engine (machine)", true);
        check("Who built the Analytical engine?", "analytical-engine", true);
        check("Who built an analytical engine?", "Analytical Engine", false);
        check("What did Engineers build?", "Engine", false);
        check("What is it?", "What", false);
        check("What did Grace build?", "Grace", false);
        check("What did Grace Hopper build?", "Grace Hopper", true);
        check("", "Engine", false);
        check("Who?", "", false);
        assert!(!Question::new("What is an engine?").may_name_something());
    }

    #[test]
    fn a_text_contains_whole_words() {
        assert!(contains("Who built the Analytical Engine?", "analytical engine"));
        assert!(!contains("Analytical engineers", "analytical engine"));
    }
}
