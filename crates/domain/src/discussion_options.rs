//! What a person can choose about a discussion that came to no decision.

use serde_json::{Value, json};

use crate::pack::edit_distance;

/// Accepts what was proposed last. A discussion with this option is about a proposal, and a person may write the outcome
/// in their own words instead.
pub const ACCEPT_PROPOSAL: &str = "accept the last proposal";
/// Accepts the result of a task as it is.
pub const APPROVED: &str = "APPROVED";
/// Wants the result to be changed. If a person chooses it in the review of a task's result, the task is done again.
pub const SUGGEST_CHANGES: &str = "SUGGEST_CHANGES";

/// Other words for [`APPROVED`].
const APPROVALS: [&str; 2] = ["approve", "accept"];
/// The fields of a decision that is an object, the most exact first.
const FIELDS: [&str; 3] = ["option", "decision", "text"];
/// The field for the outcome in own words.
const WORDS_FIELD: &str = "text";
/// A text is near an option if at most one of so many characters is wrong.
const CHARS_PER_SLIP: usize = 4;

/// Whether a decision may be something else than an option.
pub fn takes_own_words(options: &[String]) -> bool {
    options.is_empty() || options.iter().any(|option| option == ACCEPT_PROPOSAL)
}

/// The option that a text names. Upper and lower case, spaces, underscores and hyphens make no difference, unless two
/// options differ by nothing else.
pub fn find_option<'a>(options: &'a [String], text: &str) -> Option<&'a str> {
    let text = text.trim();
    let exact = options.iter().find(|option| *option == text);
    let folded = || options.iter().find(|option| option.to_lowercase() == text.to_lowercase());
    let alike = || {
        let letters = letters_of(text);
        let mut same = options.iter().filter(|option| !letters.is_empty() && letters_of(option) == letters);
        same.next().filter(|_| same.next().is_none())
    };
    let approval = || {
        let is_approval = APPROVALS.iter().any(|word| word.eq_ignore_ascii_case(text));
        options.iter().find(|option| is_approval && *option == APPROVED)
    };
    exact.or_else(folded).or_else(alike).or_else(approval).map(String::as_str)
}

/// The option that a text probably means, which is not the name of one: with a few wrong characters, or with words after
/// a colon. As the outcome in own words it would end a discussion that a person wanted to decide otherwise.
pub fn near_option<'a>(options: &'a [String], text: &str) -> Option<&'a str> {
    let before_colon = text.split_once(':').map(|(before, _)| before);
    [Some(text), before_colon].into_iter().flatten().find_map(|text| nearest(options, text))
}

fn nearest<'a>(options: &'a [String], text: &str) -> Option<&'a str> {
    let letters = letters_of(text);
    let distances = options.iter().filter_map(|option| {
        let of_option: String = letters_of(option).into_iter().collect();
        let length = of_option.chars().count();
        let allowed = length / CHARS_PER_SLIP;
        // The distance is at least the difference of the lengths, and a text may have megabytes.
        let is_comparable = !letters.is_empty() && length.abs_diff(letters.len()) <= allowed;
        let distance = is_comparable.then(|| edit_distance(&letters, &of_option))?;
        (distance <= allowed).then_some((distance, option))
    });
    distances.min_by_key(|(distance, _)| *distance).map(|(_, option)| option.as_str())
}

/// The characters of a text in lower case, without those between words.
fn letters_of(text: &str) -> Vec<char> {
    text.chars()
        .filter(|letter| !letter.is_whitespace() && !matches!(letter, '_' | '-'))
        .flat_map(char::to_lowercase)
        .collect()
}

/// What a decision says: its text, or the `option` of an object, else its `decision` or its `text`.
pub fn decision_text(decision: &Value) -> Option<&str> {
    match decision {
        Value::String(text) => Some(text),
        _ => FIELDS.iter().find_map(|name| decision.get(name)?.as_str()),
    }
}

/// The decision with the option that it names as it is written in `options`. Fails if it is none of them where it has to
/// be one, and if it is nearly one of them: words that are meant as they are stand in the `text` of an object.
pub fn check_decision(options: &[String], mut decision: Value) -> Result<Value, String> {
    let own_words = takes_own_words(options);
    let field = FIELDS.into_iter().find(|name| decision.get(name).is_some_and(Value::is_string));
    if own_words && field == Some(WORDS_FIELD) {
        return Ok(decision);
    }
    let Some(text) = decision_text(&decision) else {
        return if own_words { Ok(decision) } else { Err(format!("must be one of {}", quoted(options))) };
    };
    match (find_option(options, text), near_option(options, text)) {
        (Some(option), _) => {
            let option = json!(option);
            match field {
                Some(field) => decision[field] = option,
                None => decision = option,
            }
            Ok(decision)
        }
        (None, Some(near)) if own_words => Err(format!(
            "is nearly the option `{near}`: give the option itself, and what you want to add as the reason; words that \
             are meant as they are stand in an object, {}",
            json!({ WORDS_FIELD: "…" })
        )),
        (None, _) if own_words => Ok(decision),
        (None, _) => Err(format!("must be one of {}", quoted(options))),
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
    fn spaces_underscores_and_hyphens_make_no_difference() {
        let review = options(&[ACCEPT_PROPOSAL, SUGGEST_CHANGES]);
        for text in ["suggest changes", "Suggest-Changes", "SUGGESTCHANGES", "SUGGEST_CHANGES_"] {
            assert_eq!(find_option(&review, text), Some(SUGGEST_CHANGES), "{text}");
        }
        assert_eq!(find_option(&review, "Accept_the_last_proposal"), Some(ACCEPT_PROPOSAL));
        assert_eq!(find_option(&review, " _ "), None);
        assert_eq!(find_option(&options(&["a-b", "ab"]), "a b"), None, "it could be either");
    }

    #[test]
    fn a_misspelt_option_is_near_it_and_other_words_are_not() {
        let review = options(&[ACCEPT_PROPOSAL, SUGGEST_CHANGES]);
        for text in ["SUGGEST_CHANGE", "SUGEST CHANGES.", "suggest_chnages", "SUGGEST_CHANGES: add the dates"]
        {
            assert_eq!(near_option(&review, text), Some(SUGGEST_CHANGES), "{text}");
        }
        assert_eq!(near_option(&review, "accept last proposal"), Some(ACCEPT_PROPOSAL));
        for text in ["Take the second proposal.", "change it", "suggest changes to the layout", "", ":", "7"]
        {
            assert_eq!(near_option(&review, text), None, "{text}");
        }
        assert_eq!(near_option(&options(&["cat"]), "car"), None, "a short option has no room for a slip");
        let long = "x".repeat(4 << 20);
        assert_eq!(near_option(&review, &long), None);
    }

    #[test]
    fn a_decision_that_is_nearly_an_option_is_refused_unless_it_is_given_as_words() {
        let review = options(&[ACCEPT_PROPOSAL, SUGGEST_CHANGES]);
        let check = |decision: Value| check_decision(&review, decision);
        assert_eq!(check(json!("suggest changes")), Ok(json!(SUGGEST_CHANGES)));
        let kept = json!({ "option": SUGGEST_CHANGES, "text": "Add the dates." });
        assert_eq!(check(json!({ "option": "suggest-changes", "text": "Add the dates." })), Ok(kept));
        for decision in [json!("SUGGEST_CHANGE"), json!({ "option": "SUGGEST_CHANGE", "text": "Add it." })] {
            let refused = check(decision).unwrap_err();
            assert!(refused.contains("is nearly the option `SUGGEST_CHANGES`: "), "{refused}");
            assert!(refused.ends_with(r#"{"text":"…"}"#), "{refused}");
        }
        for decision in
            [json!({ "text": "SUGGEST_CHANGE" }), json!("Take the second."), json!({ "other": 1 })]
        {
            assert_eq!(check(decision.clone()), Ok(decision));
        }
        assert_eq!(check_decision(&[], json!("approve")), Ok(json!("approve")));
        let strict = check_decision(&options(&[APPROVED, SUGGEST_CHANGES]), json!("SUGGEST_CHANGE"));
        assert_eq!(strict, Err("must be one of `APPROVED`, `SUGGEST_CHANGES`".to_owned()));
    }

    #[test]
    fn the_option_of_an_object_counts_before_its_text() {
        assert_eq!(decision_text(&json!("rows")), Some("rows"));
        assert_eq!(decision_text(&json!({ "text": "Because.", "option": "rows" })), Some("rows"));
        assert_eq!(decision_text(&json!({ "text": "rows" })), Some("rows"));
        assert_eq!(decision_text(&json!({ "other": 1 })), None);
    }
}
