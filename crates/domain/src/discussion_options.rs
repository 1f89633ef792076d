//! What a person can choose about a discussion that came to no decision.

use serde_json::Value;

/// Accepts what was proposed last. A discussion with this option is about a proposal, and a person may write the outcome
/// in their own words instead.
pub const ACCEPT_PROPOSAL: &str = "accept the last proposal";
/// Accepts the result of a task as it is.
pub const APPROVED: &str = "APPROVED";
/// Wants the result to be changed. If a person chooses it in the review of a task's result, the task is done again.
pub const SUGGEST_CHANGES: &str = "SUGGEST_CHANGES";

/// Other words for [`APPROVED`].
const APPROVALS: [&str; 2] = ["approve", "accept"];

/// Whether a decision may be something else than an option.
pub fn takes_own_words(options: &[String]) -> bool {
    options.is_empty() || options.iter().any(|option| option == ACCEPT_PROPOSAL)
}

/// The option that a text names. Upper and lower case make no difference, unless two options differ by nothing else.
pub fn find_option<'a>(options: &'a [String], text: &str) -> Option<&'a str> {
    let text = text.trim();
    let exact = options.iter().find(|option| *option == text);
    let folded = || options.iter().find(|option| option.to_lowercase() == text.to_lowercase());
    let approval = || {
        let is_approval = APPROVALS.iter().any(|word| word.eq_ignore_ascii_case(text));
        options.iter().find(|option| is_approval && *option == APPROVED)
    };
    exact.or_else(folded).or_else(approval).map(String::as_str)
}

/// What a decision says: its text, or the `option` of an object, else its `decision` or its `text`.
pub fn decision_text(decision: &Value) -> Option<&str> {
    match decision {
        Value::String(text) => Some(text),
        _ => ["option", "decision", "text"].iter().find_map(|name| decision.get(name)?.as_str()),
    }
}

/// The options of a discussion as a message names them.
pub fn quoted(options: &[String]) -> String {
    format!("`{}`", options.join("`, `"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn options(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn own_words_are_for_discussions_about_a_proposal_and_for_those_without_options() {
        assert!(takes_own_words(&[]));
        assert!(takes_own_words(&options(&[ACCEPT_PROPOSAL, SUGGEST_CHANGES])));
        assert!(!takes_own_words(&options(&[APPROVED, SUGGEST_CHANGES])));
    }

    #[test]
    fn an_option_is_named_in_upper_or_lower_case() {
        let review = options(&[APPROVED, SUGGEST_CHANGES]);
        assert_eq!(find_option(&review, " suggest_changes "), Some(SUGGEST_CHANGES));
        assert_eq!(find_option(&review, "Approve"), Some(APPROVED));
        assert_eq!(find_option(&review, "BLAH"), None);
        let alike = options(&["a", "A"]);
        assert_eq!((find_option(&alike, "A"), find_option(&alike, "a")), (Some("A"), Some("a")));
        assert_eq!(find_option(&options(&["rows"]), "approve"), None);
    }

    #[test]
    fn the_option_of_an_object_counts_before_its_text() {
        assert_eq!(decision_text(&json!("rows")), Some("rows"));
        assert_eq!(decision_text(&json!({ "text": "Because.", "option": "rows" })), Some("rows"));
        assert_eq!(decision_text(&json!({ "text": "rows" })), Some("rows"));
        assert_eq!(decision_text(&json!({ "other": 1 })), None);
    }
}
