//! What a model is asked when code alone does not decide, and how its answer is found in its words.

use serde_json::Value;

/// One question to a model. Whoever asks it falls back on code when the answer cannot be read.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    pub system: String,
    pub prompt: String,
    /// What the answer has to be an instance of.
    pub schema: Value,
}

/// The last JSON object in a text that has this field, and whole lines or a fence around it.
pub fn find_json_object(text: &str, field: &str) -> Option<Value> {
    // From behind, because models think aloud before they answer. Each `{` is tried once; a text
    // of nothing but braces is given up on soon.
    text.match_indices('{').rev().take(200).find_map(|(at, _)| {
        let value = serde_json::Deserializer::from_str(&text[at..]).into_iter::<Value>().next()?.ok()?;
        value.get(field).is_some().then_some(value)
    })
}

/// A text's beginning, with a mark where something was left out.
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
    fn a_cut_text_says_so() {
        assert_eq!(truncate("  short ", 10), "short");
        assert_eq!(truncate("füñf wörter", 4), "füñf…");
    }
}
