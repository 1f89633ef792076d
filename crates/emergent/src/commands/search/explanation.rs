//! Says why a hit was found: by which words, how similar it is, which name led to it, and which of its dates matches.

use emergent_domain::{
    text_query::{self, Term, TextQuery},
    time::Timestamp,
};
use emergent_wire::search::{Channels, DateView};

use crate::{
    error::Result,
    output::{self, dim},
    text::shorten_ids,
};

/// Endings that the full-text index leaves out, longer ones first. The index knows more of them, so a word may be
/// missing in an explanation.
const ENDINGS: [&str; 7] = ["ing", "ies", "ed", "es", "s", "e", "y"];
/// A word keeps at least this many characters.
const MIN_STEM_CHARS: usize = 3;

/// The words of a question that are searched for.
pub(super) struct QuestionWords(Vec<Term>);

impl QuestionWords {
    pub(super) fn new(question: &str) -> Self {
        Self(TextQuery::parse(question).without_stop_words().without_exclusions().terms().to_vec())
    }

    /// The words and phrases of the question that a text has, in the order of the question.
    pub(super) fn found_in(&self, text: &str) -> Vec<String> {
        let words: Vec<String> = text_query::words(text).map(str::to_lowercase).collect();
        let stems: Vec<&str> = words.iter().map(|word| stem(word)).collect();
        let has = |term: &&Term| {
            let wanted: Vec<String> = term.words.iter().map(|word| word.to_lowercase()).collect();
            let is_there = |start: usize| {
                wanted.iter().enumerate().all(|(index, word)| {
                    match term.prefix && index + 1 == wanted.len() {
                        true => words[start + index].starts_with(word.as_str()),
                        false => stems[start + index] == stem(word),
                    }
                })
            };
            (0..(words.len() + 1).saturating_sub(wanted.len())).any(is_there)
        };
        let name = |term: &Term| format!("{}{}", term.words.join(" "), if term.prefix { "*" } else { "" });
        self.0.iter().filter(has).map(name).collect()
    }
}

/// A word without its ending.
fn stem(word: &str) -> &str {
    let mut stems = ENDINGS.iter().filter_map(|ending| word.strip_suffix(*ending));
    stems.find(|stem| stem.chars().count() >= MIN_STEM_CHARS).unwrap_or(word)
}

/// Prints why a hit was found, below its line. `from` is what has the name of the link as well.
pub(super) fn print(channels: &Channels, words: &[String], from: Option<&str>) -> Result<()> {
    lines(channels, words, from).into_iter().try_for_each(|(label, text)| {
        let text = if output::terminal_width().is_some() { shorten_ids(&text) } else { text };
        output::print_painted_item(&format!("     {label:<8}"), &text, dim)
    })
}

/// A label and a text for each way in which the hit was found.
fn lines(channels: &Channels, words: &[String], from: Option<&str>) -> Vec<(&'static str, String)> {
    let mut lines = Vec::new();
    if let Some(text) = &channels.text {
        let score = format!("score {:.3}", text.score);
        lines.push(match words.is_empty() {
            true => ("words", score),
            false => ("words", format!("{} ({score})", words.join(", "))),
        });
    }
    if let Some(vector) = &channels.vector {
        lines.push(("meaning", format!("similarity {:.3}", vector.score)));
    }
    if let Some(link) = &channels.link {
        let from = from.map_or_else(|| link.from.to_string(), str::to_owned);
        lines.push(("link", format!("the name \"{}\", which {from} has too", link.name)));
    }
    if let Some(date) = &channels.date {
        lines.push(("date", format!("`{}` matches the time {}", date.property, period(date))));
    }
    lines
}

/// The period of the question in days, such as `from 2023-05-01 to before 2023-06-01`.
fn period(date: &DateView) -> String {
    let day = |moment: Timestamp| moment.to_string().chars().take_while(|c| *c != 'T').collect::<String>();
    match (date.from.map(day), date.to.map(day)) {
        (Some(from), Some(to)) => format!("from {from} to before {to}"),
        (Some(from), None) => format!("since {from}"),
        (None, Some(to)) => format!("before {to}"),
        (None, None) => "of the question".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use emergent_wire::search::{Channel, LinkView};
    use uuid::Uuid;

    use super::*;

    #[test]
    fn the_words_of_a_question_are_found_in_other_forms() {
        let check = |question: &str, text: &str, expected: &[&str]| {
            assert_eq!(QuestionWords::new(question).found_in(text), expected, "{question}");
        };
        check(
            "Who wrote the notes on engines?",
            "Ada wrote a note about the Engine.",
            &["wrote", "notes", "engines"],
        );
        check("the city of Ada's birth", "Many cities. Ada!", &["city", "Ada"]);
        check("\"red pears\" plum* -rotten", "a plumage and red, pears", &["red pears", "plum*"]);
        check("\"red pears\"", "pears that are red", &[]);
        check("tea", "steam", &[]);
        check("tea", "", &[]);
    }

    #[test]
    fn each_way_of_finding_a_hit_is_a_line() {
        let link = LinkView { from: Uuid::nil(), name: "ada lovelace".to_owned() };
        let channel = |score: f64| Some(Channel { rank: 1, score });
        let may = |day: &str| Some(format!("{day}T00:00:00Z").parse().unwrap());
        let date = DateView { property: "met".to_owned(), from: may("2023-05-01"), to: may("2023-06-01") };
        let all = Channels {
            text: channel(2.5),
            vector: channel(0.61),
            link: Some(link),
            date: Some(date.clone()),
        };
        let words = ["engine".to_owned(), "notes".to_owned()];
        let expected = [
            ("words", "engine, notes (score 2.500)".to_owned()),
            ("meaning", "similarity 0.610".to_owned()),
            ("link", "the name \"ada lovelace\", which Note/ada has too".to_owned()),
            ("date", "`met` matches the time from 2023-05-01 to before 2023-06-01".to_owned()),
        ];
        assert_eq!(lines(&all, &words, Some("Note/ada")), expected);
        assert_eq!(period(&DateView { from: None, ..date.clone() }), "before 2023-06-01");
        assert_eq!(period(&DateView { to: None, ..date }), "since 2023-05-01");
        let by_words = Channels { text: channel(1.0), vector: None, link: None, date: None };
        assert_eq!(lines(&by_words, &[], None), [("words", "score 1.000".to_owned())]);
    }
}
