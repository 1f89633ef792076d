//! Questions to a model, and the formats in which its answer is found.

use serde_json::Value;

/// One question to a model. The rules decide if the answer cannot be read.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    pub system: String,
    pub prompt: String,
    /// The JSON schema of the answer.
    pub schema: Value,
}

/// The last JSON object in a text that has this field.
pub fn find_json_object(text: &str, field: &str) -> Option<Value> {
    // From the end, because models think before they answer. The number of tries is limited, so that a
    // text of nothing but braces does not take long.
    text.match_indices('{').rev().take(200).find_map(|(start, _)| {
        let value = serde_json::Deserializer::from_str(&text[start..]).into_iter::<Value>().next()?.ok()?;
        value.get(field).is_some().then_some(value)
    })
}

/// What stands after a label on a line of its own, such as `VERDICT: PASS`. Markdown around it is
/// ignored. Of several such lines the last one counts, because models think before they answer.
pub fn find_labelled_line<'t>(text: &'t str, label: &str) -> Option<&'t str> {
    const MARKDOWN: &[char] = &['*', '_', '`', '#', '>', '-', ' ', '\t'];
    text.lines().rev().find_map(|line| {
        let line = line.trim_start_matches(MARKDOWN);
        let (found, rest) = line.split_at_checked(label.len())?;
        let value = rest.trim_start_matches(['*', '_', '`', ' ']).strip_prefix(':')?;
        found.eq_ignore_ascii_case(label).then(|| value.trim_matches(MARKDOWN))
    })
}

/// The beginning of a text, with a mark if something was left out.
pub fn truncate(text: &str, chars: usize) -> String {
    let text = text.trim();
    match text.char_indices().nth(chars) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", text[..end].trim_end()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_last_object_with_the_field_is_the_answer() {
        let text = "Perhaps {\"agent\": \"a\"}? No:\n```json\n{\"agent\": \"b\", \"why\": {\"x\": 1}}\n```";
        assert_eq!(find_json_object(text, "agent"), Some(json!({ "agent": "b", "why": { "x": 1 } })));
        assert_eq!(find_json_object("{{{{", "agent"), None);
        assert_eq!(find_json_object("{\"other\": 1}", "agent"), None);
    }

    #[test]
    fn a_label_counts_at_the_start_of_a_line() {
        let vote = |text| find_labelled_line(text, "VOTE");
        assert_eq!(vote("I thought about it.\nVOTE: sqlite"), Some("sqlite"));
        assert_eq!(vote("**Vote:** sqlite"), Some("sqlite"));
        assert_eq!(vote("VOTE: one\nOn reflection:\nVOTE: two"), Some("two"));
        assert_eq!(vote("My VOTE: sqlite"), None);
        assert_eq!(vote("voter: sqlite"), None);
        assert_eq!(vote("Vöte: sqlite"), None);
    }

    #[test]
    fn a_cut_text_says_so() {
        assert_eq!(truncate("  short ", 10), "short");
        assert_eq!(truncate("füñf wörter", 4), "füñf…");
    }
}
