//! Finds votes in what participants handed in or wrote.

use super::{TurnResult, Vote};
use crate::workflow::{
    keywords::{find_keywords, split_words},
    question::{find_json_object, truncate},
};

/// What can be voted for.
#[derive(Debug, Clone)]
pub(super) struct VoteOptions {
    names: Vec<String>,
    /// What each stands for, if that is more than its name.
    texts: Vec<String>,
    /// Feedback says it in words, as it was asked to.
    feedback: bool,
}

impl VoteOptions {
    pub fn from_names(names: &[impl AsRef<str>]) -> Self {
        Self::from_named_texts(names.iter().map(|name| (name.as_ref().to_owned(), String::new())))
    }

    /// Of two with one name the first is kept: nobody could vote for the second.
    pub fn from_named_texts(all: impl IntoIterator<Item = (String, String)>) -> Self {
        let mut options = Self { names: Vec::new(), texts: Vec::new(), feedback: false };
        for (name, text) in all {
            let name = name.trim().to_owned();
            if !name.is_empty() && !options.names.iter().any(|one| normalize(one) == normalize(&name)) {
                options.names.push(name);
                options.texts.push(text);
            }
        }
        options
    }

    /// What a reviewer may say.
    pub fn feedback() -> Self {
        Self { feedback: true, ..Self::from_names(&[APPROVED, SUGGEST_CHANGES]) }
    }

    /// The vote that was made with the tool. Feedback that says it clearly needs no tool.
    pub fn submitted_vote(&self, ended: &TurnResult) -> Option<Vote> {
        let vote = ended.vote.as_ref().and_then(|vote| self.normalize_vote(vote));
        let words = || match parse_feedback(&ended.text).filter(|_| self.feedback)? {
            Feedback::Approved => Some(APPROVED),
            Feedback::Changes => Some(SUGGEST_CHANGES),
        };
        vote.or_else(|| words().map(|option| Vote { option: option.to_owned(), ..Vote::default() }))
    }

    /// What unclear words count as: a reviewer who does not approve wants something changed.
    pub fn default_vote(&self, text: &str) -> Option<Vote> {
        let is_feedback = self.feedback && !text.trim().is_empty();
        is_feedback.then(|| Vote { option: SUGGEST_CHANGES.to_owned(), ..Vote::default() })
    }

    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The other way round: the last one given comes first.
    pub fn reversed(mut self) -> Self {
        self.names.reverse();
        self.texts.reverse();
        self
    }

    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.names.iter().zip(&self.texts).map(|(name, text)| (name.as_str(), text.as_str()))
    }

    pub fn text(&self, name: &str) -> &str {
        self.iter().find(|(one, _)| *one == name).map_or("", |(_, text)| text)
    }

    /// A vote with the option's own name; `None` when it is for something else.
    pub fn normalize_vote(&self, vote: &Vote) -> Option<Vote> {
        let option = self.match_option(&vote.option)?.to_owned();
        let confidence = vote.confidence.filter(|sure| sure.is_finite()).map(|sure| sure.clamp(0.0, 1.0));
        Some(Vote { option, confidence, reason: truncate(&vote.reason, 2_000) })
    }

    /// Which option is meant: its name in any dress, or its number in the list.
    fn match_option(&self, said: &str) -> Option<&str> {
        let said = normalize(said);
        let exact = self.names.iter().find(|name| normalize(name) == said);
        let number = || {
            let digits = said.trim_start_matches("option ").trim_start_matches('#').trim_end_matches('.');
            self.names.get(digits.parse::<usize>().ok()?.checked_sub(1)?)
        };
        exact.or_else(number).map(String::as_str)
    }

    /// The option a line begins with; of several the longest.
    fn match_line_start(&self, line: &str) -> Option<&str> {
        let line = normalize(line);
        let starts = |name: &&String| {
            let name = normalize(name);
            let rest = line.strip_prefix(&name);
            !name.is_empty() && rest.is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
        };
        self.names.iter().filter(starts).max_by_key(|name| name.len()).map(String::as_str)
    }
}

fn normalize(text: &str) -> String {
    let text = text.trim().trim_matches(|c: char| "*_`\"'“”‘’.:()[]<> ".contains(c));
    text.split(|c: char| c.is_whitespace() || c == '_' || c == '-')
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
        .to_lowercase()
}

/// The vote that somebody put into words: a JSON object, "VOTE: …", "I vote for …", or the one
/// option that is named at all.
pub(super) fn parse_vote(text: &str, options: &VoteOptions) -> Option<Vote> {
    let given = |option: &str| {
        Some(Vote { option: option.to_owned(), confidence: None, reason: truncate(text, 2_000) })
    };
    if let Some(value) = find_json_object(text, "option")
        && let Ok(vote) = serde_json::from_value::<Vote>(value)
        && let Some(vote) = options.normalize_vote(&vote)
    {
        return Some(vote);
    }
    for line in text.lines().rev() {
        let lower = line.to_lowercase();
        // Lowering a letter can change its length; such a line is left to the last way.
        if lower.len() != line.len() {
            continue;
        }
        for label in [
            "vote:",
            "vote for ",
            "vote is ",
            "choice:",
            "option:",
            "choose ",
            "decision:",
            "in favour of ",
            "in favor of ",
        ] {
            let Some(at) = lower.rfind(label) else { continue };
            let before = lower[..at].split_whitespace().next_back().unwrap_or_default();
            if matches!(before, "not" | "don't" | "cannot" | "can't" | "won't" | "never") {
                continue;
            }
            let said = line[at + label.len()..].trim_start_matches(['*', '_', ' ', '`', '"', ':']);
            let said = said.strip_prefix("the ").unwrap_or(said);
            if let Some(option) = options.match_line_start(said).or_else(|| options.match_option(said)) {
                return given(option);
            }
        }
    }
    given(single_mention(text, options)?)
}

/// The single option that a text names without denying it. Names of one or two letters are words
/// of every day too, so they count only behind a label.
fn single_mention<'o>(text: &str, options: &'o VoteOptions) -> Option<&'o str> {
    let words = split_words(text);
    let upper: Vec<(String, usize)> = options
        .names
        .iter()
        .enumerate()
        .filter(|(_, name)| name.chars().count() > 2)
        .map(|(at, name)| (normalize(name).to_uppercase(), at))
        .collect();
    let phrases: Vec<(&str, usize)> = upper.iter().map(|(name, at)| (name.as_str(), *at)).collect();
    let mut meant: Vec<usize> = find_keywords(&words, &phrases)
        .into_iter()
        .filter(|one| one.is_decisive())
        .map(|one| one.meaning)
        .collect();
    meant.dedup();
    match meant[..] {
        [one] => Some(&options.names[one]),
        _ => None,
    }
}

/// What a reviewer thinks of a proposal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Feedback {
    Approved,
    Changes,
}

pub(super) const APPROVED: &str = "APPROVED";
pub(super) const SUGGEST_CHANGES: &str = "SUGGEST_CHANGES";

/// `APPROVED` or `SUGGEST_CHANGES` in a feedback; `None` when neither is said, or both.
pub(super) fn parse_feedback(text: &str) -> Option<Feedback> {
    use Feedback::{Approved, Changes};
    const PHRASES: &[(&str, Feedback)] = &[
        ("APPROVED", Approved),
        ("APPROVE", Approved),
        ("SUGGEST CHANGES", Changes),
        ("SUGGESTED CHANGES", Changes),
        ("REQUEST CHANGES", Changes),
        ("CHANGES REQUESTED", Changes),
        ("NEEDS CHANGES", Changes),
    ];
    let words = split_words(text);
    let found = find_keywords(&words, PHRASES);
    let first = found.first().filter(|one| one.at == 0 && one.is_decisive());
    if let Some(first) = first {
        return Some(first.meaning);
    }
    if found.iter().any(|one| one.meaning == Approved && one.negated) {
        return Some(Changes);
    }
    let mut loud = found.iter().filter(|one| one.is_uppercase && one.is_decisive());
    let one = loud.next()?;
    loud.all(|other| other.meaning == one.meaning).then_some(one.meaning)
}

/// The points of a numbered or dotted list, each a name and what belongs to it:
/// `1. Name: what it is`.
pub(super) fn parse_list(text: &str) -> Vec<(String, String)> {
    let mut points: Vec<(String, String)> = Vec::new();
    for line in text.lines() {
        let bare = line.trim();
        let digits = bare.trim_start_matches(|c: char| c.is_ascii_digit());
        let numbered = (digits.len() < bare.len()).then(|| digits.strip_prefix(['.', ')'])).flatten();
        let dotted = (!line.starts_with(char::is_whitespace))
            .then(|| bare.strip_prefix("- ").or_else(|| bare.strip_prefix("* ")))
            .flatten();
        match numbered.or(dotted) {
            Some(point) if points.len() < MAX_LIST_ITEMS => {
                let point = point.trim();
                let (name, text) = point.split_once(": ").unwrap_or((point, ""));
                let name = name.trim_matches(|c: char| "*_`: ".contains(c));
                if !name.is_empty() {
                    points.push((truncate(name, 120), text.trim_matches(['*', ' ']).to_owned()));
                }
            }
            Some(_) => {}
            None if bare.is_empty() => {}
            // Lines below a point belong to it.
            None => {
                if let Some((_, text)) = points.last_mut() {
                    *text = format!("{text} {bare}").trim().to_owned();
                }
            }
        }
    }
    points
}

const MAX_LIST_ITEMS: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vote_is_found_in_words() {
        let options = VoteOptions::from_names(&["Tag entity", "flat tags", "no"]);
        for (text, expected) in [
            ("VOTE: Tag entity", Some("Tag entity")),
            ("I vote for the tag-entity, since it scales.", Some("Tag entity")),
            ("**Vote:** flat tags", Some("flat tags")),
            ("My vote: 2", Some("flat tags")),
            ("{\"option\": \"FLAT TAGS\", \"confidence\": 0.6}", Some("flat tags")),
            ("I do not vote for flat tags.\nVOTE: no", Some("no")),
            ("Flat tags are simplest; that is what I would take.", Some("flat tags")),
            ("Tag entity or flat tags, both work.", None),
            ("There is no clear winner.", None),
            ("not flat tags", None),
            ("", None),
        ] {
            assert_eq!(parse_vote(text, &options).map(|vote| vote.option).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn feedback_approves_or_does_not() {
        use Feedback::*;
        for (text, expected) in [
            ("APPROVED. Looks complete.", Some(Approved)),
            ("Approved", Some(Approved)),
            ("SUGGEST_CHANGES\n- add tag_type, then it can be APPROVED", Some(Changes)),
            ("I cannot say APPROVED yet.", Some(Changes)),
            ("Not approved.", Some(Changes)),
            ("Fine by me: APPROVED", Some(Approved)),
            ("Respond with APPROVED or SUGGEST_CHANGES", None),
            ("Looks good.", None),
        ] {
            assert_eq!(parse_feedback(text), expected, "{text}");
        }
    }

    #[test]
    fn points_have_a_name_and_a_text() {
        let text = "Clusters:\n1. **Tag entity**: a type of its own\n   with a colour\n2) Flat tags\n- Views: saved searches";
        let expected = [
            ("Tag entity", "a type of its own with a colour"),
            ("Flat tags", ""),
            ("Views", "saved searches"),
        ];
        let expected = expected.map(|(name, text)| (name.to_owned(), text.to_owned()));
        assert_eq!(parse_list(text), expected);
    }
}
