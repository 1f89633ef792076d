//! Reads votes, and the lists that options are made of.

use super::{TurnResult, Vote};
use crate::workflow::question::{find_json_object, find_labelled_line, find_verdict, trim_symbols, truncate};

/// What can be voted for.
#[derive(Debug, Clone)]
pub(super) struct VoteOptions {
    names: Vec<String>,
    /// What each stands for, if that is more than its name.
    texts: Vec<String>,
    /// True for the feedback on a proposal, which may start with its option.
    feedback: bool,
}

impl VoteOptions {
    pub fn from_names(names: &[impl AsRef<str>]) -> Self {
        Self::from_named_texts(names.iter().map(|name| (name.as_ref().to_owned(), String::new())))
    }

    /// Of two options with one name the first is kept, because no vote could name the second.
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

    /// The options of a reviewer.
    pub fn feedback() -> Self {
        Self { feedback: true, ..Self::from_names(&[APPROVED, SUGGEST_CHANGES]) }
    }

    /// The vote of a turn: what it submitted with `submit_vote`, else a JSON object with `option` in its
    /// answer, else a line `VOTE: option`. Feedback may also start with `APPROVED` or `SUGGEST_CHANGES`, as its
    /// prompt says, or have one of them after `Verdict:`. Other text is not interpreted.
    pub fn vote_of(&self, turn: &TurnResult) -> Option<Vote> {
        let submitted = turn.vote.as_ref().and_then(|vote| self.normalize_vote(vote));
        submitted.or_else(|| self.parse_answer(&turn.text))
    }

    fn parse_answer(&self, text: &str) -> Option<Vote> {
        if let Some(value) = find_json_object(text, "option")
            && let Ok(vote) = serde_json::from_value::<Vote>(value)
            && let Some(vote) = self.normalize_vote(&vote)
        {
            return Some(vote);
        }
        if let Some(value) = find_labelled_line(text, VOTE_LABEL) {
            let option = self.match_option(value).or_else(|| self.match_line_start(value))?;
            return Some(Vote { option: option.to_owned(), confidence: None, reason: truncate(text, 2_000) });
        }
        let option = parse_feedback(text).filter(|_| self.feedback)?;
        Some(Vote { option: option.to_owned(), ..Vote::default() })
    }

    /// What an answer without a vote counts as: a reviewer who does not approve suggests changes.
    pub fn default_vote(&self, text: &str) -> Option<Vote> {
        let is_feedback = self.feedback && !text.trim().is_empty();
        is_feedback.then(|| Vote { option: SUGGEST_CHANGES.to_owned(), ..Vote::default() })
    }

    /// Whether these are the options of a reviewer.
    pub fn is_feedback(&self) -> bool {
        self.feedback
    }

    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The same options in reverse order.
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
        let confidence = vote.confidence.filter(|value| value.is_finite()).map(|value| value.clamp(0.0, 1.0));
        Some(Vote { option, confidence, reason: truncate(&vote.reason, 2_000) })
    }

    /// The option with this name, without regard to case and separators, or with this number.
    fn match_option(&self, text: &str) -> Option<&str> {
        let text = normalize(text);
        let exact = self.names.iter().find(|name| normalize(name) == text);
        let number = || {
            let digits = text.trim_start_matches("option ").trim_start_matches('#').trim_end_matches('.');
            self.names.get(digits.parse::<usize>().ok()?.checked_sub(1)?)
        };
        exact.or_else(number).map(String::as_str)
    }

    /// The option that a line starts with; of several the longest, because one name may start another.
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

/// What a reviewer thinks of a proposal.
pub(super) use emergent_domain::discussion_options::{APPROVED, SUGGEST_CHANGES};

/// The option of a reviewer's answer: after `Verdict:`, else the first word of its first line. Markup, symbols and quotes
/// before it, and its case, do not matter.
fn parse_feedback(text: &str) -> Option<&'static str> {
    let first_line = text.lines().map(trim_symbols).find(|line| !line.is_empty());
    find_verdict(text, leading_feedback).or_else(|| leading_feedback(first_line?))
}

/// The option that a line starts with. An approval that the same line denies or makes depend on something is none.
fn leading_feedback(line: &str) -> Option<&'static str> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let lowercase = line.to_lowercase();
    let words: Vec<&str> = lowercase.split(|c| !is_part(c)).filter(|word| !word.is_empty()).collect();
    match words.as_slice() {
        ["suggest_changes", ..] | ["suggest", "changes", ..] => Some(SUGGEST_CHANGES),
        // Such as `Approved? No.` and `Approved: false`.
        ["approved", "no" | "false"] => None,
        ["approved", next, ..] if NO_APPROVAL.contains(next) => None,
        ["approved", ..] if lowercase.contains("suggest_changes") => None,
        ["approved", ..] => Some(APPROVED),
        _ => None,
    }
}

/// Words after which `approved` is no approval yet.
const NO_APPROVAL: &[&str] =
    &["not", "never", "if", "once", "when", "after", "unless", "until", "pending", "provided", "subject"];

/// Starts the line of an answer that is a vote.
const VOTE_LABEL: &str = "VOTE";

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

    fn vote_of(options: &VoteOptions, text: &str) -> Option<String> {
        let turn = TurnResult { ok: true, text: text.to_owned(), vote: None };
        options.vote_of(&turn).map(|vote| vote.option)
    }

    #[test]
    fn a_vote_is_a_json_object_or_a_line_of_its_own() {
        let options = VoteOptions::from_names(&["Tag entity", "flat tags", "no"]);
        for (text, expected) in [
            ("VOTE: Tag entity", Some("Tag entity")),
            ("It scales.\n**Vote:** flat-tags", Some("flat tags")),
            ("VOTE: flat tags, since they are simple", Some("flat tags")),
            ("VOTE: 2", Some("flat tags")),
            ("{\"option\": \"FLAT TAGS\", \"confidence\": 0.6}", Some("flat tags")),
            ("I do not vote for flat tags.\nVOTE: no", Some("no")),
            ("I vote for the tag-entity, since it scales.", None),
            ("Flat tags are simplest; that is what I would take.", None),
            ("VOTE: neither", None),
            ("There is no clear winner.", None),
            ("", None),
        ] {
            assert_eq!(vote_of(&options, text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn an_approval_counts_in_its_usual_forms() {
        let options = VoteOptions::feedback();
        for (text, expected) in [
            ("**APPROVED**\nLooks complete.", Some(APPROVED)),
            ("Approved. Looks complete.", Some(APPROVED)),
            ("\"APPROVED\" ok", Some(APPROVED)),
            ("# APPROVED", Some(APPROVED)),
            ("✅ APPROVED", Some(APPROVED)),
            ("Verdict: APPROVED", Some(APPROVED)),
            ("It has all that is needed.\n\n## Verdict\n\nApproved, no changes needed.", Some(APPROVED)),
            ("APPROVED: no issues found", Some(APPROVED)),
            ("**Suggest changes**: rename it", Some(SUGGEST_CHANGES)),
            ("Verdict: SUGGEST_CHANGES", Some(SUGGEST_CHANGES)),
            ("SUGGEST_CHANGES\nVerdict: APPROVED once it is renamed", Some(SUGGEST_CHANGES)),
            ("Not approved.", None),
            ("Verdict: not approved", None),
            ("Approved? No.", None),
            ("Approved: false", None),
            ("Approved if the index is added.", None),
            ("APPROVED or SUGGEST_CHANGES", None),
            ("Unapproved", None),
            ("APPROVED_BY: nobody", None),
            ("It cannot be approved.", None),
        ] {
            assert_eq!(vote_of(&options, text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn feedback_may_start_with_its_option() {
        let options = VoteOptions::feedback();
        for (text, expected) in [
            ("APPROVED. Looks complete.", Some(APPROVED)),
            ("APPROVED", Some(APPROVED)),
            ("SUGGEST_CHANGES\n- add tag_type, then it can be APPROVED", Some(SUGGEST_CHANGES)),
            ("Fine by me.\nVOTE: APPROVED", Some(APPROVED)),
            ("I cannot say APPROVED yet.", None),
            ("Looks good.", None),
        ] {
            assert_eq!(vote_of(&options, text).as_deref(), expected, "{text}");
        }
        let plain = VoteOptions::from_names(&[APPROVED, SUGGEST_CHANGES]);
        assert_eq!(vote_of(&plain, "APPROVED. Looks complete."), None);
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
