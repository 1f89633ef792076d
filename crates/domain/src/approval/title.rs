//! The title of a request in lists and notices: the question, or the tool with the start of its input, so that two
//! calls of one tool can be told apart.

use serde_json::Value;

use super::Approval;
use crate::text::truncate;

/// How much of an input is part of a title.
const MAX_INPUT_CHARS: usize = 80;
/// How much of one field of several is.
const MAX_FIELD_CHARS: usize = 40;

impl Approval {
    /// The question, or the tool and a summary of its input: `entities_delete Note/old`.
    pub fn title(&self) -> String {
        match &self.question {
            Some(question) => question.text.clone(),
            None => format!("{} {}", self.tool, summary(&self.input)).trim_end().to_owned(),
        }
    }
}

/// The input of a call on one line: the value of an only field, and each field with its name otherwise.
fn summary(input: &Value) -> String {
    let text = match input {
        Value::Object(fields) if fields.len() == 1 => fields.values().map(one_line).collect(),
        Value::Object(fields) => {
            let field = |(name, value): (&String, &Value)| {
                format!("{name}: {}", truncate(&one_line(value), MAX_FIELD_CHARS))
            };
            // More fields than fit are not rendered.
            fields.iter().take(MAX_INPUT_CHARS).map(field).collect::<Vec<_>>().join(", ")
        }
        other => one_line(other),
    };
    truncate(&text, MAX_INPUT_CHARS)
}

fn one_line(value: &Value) -> String {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Null => return String::new(),
        other => other.to_string(),
    };
    // Words beyond the limit are never shown, so a long input is not copied.
    text.split_whitespace().take(MAX_INPUT_CHARS).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_input_of_a_call_is_summed_up_on_one_line() {
        assert_eq!(summary(&json!({ "ref": "Note/old" })), "Note/old");
        assert_eq!(summary(&json!({ "refs": ["Note/a", "Note/b"] })), r#"["Note/a","Note/b"]"#);
        assert_eq!(summary(&json!({ "type": "Note", "limit": 3 })), "limit: 3, type: Note");
        assert_eq!(summary(&json!({ "text": "one\n  two" })), "one two");
        assert_eq!(summary(&json!({})), "");
        assert_eq!(summary(&Value::Null), "");
        let long = summary(&json!({ "text": "ü".repeat(500) }));
        assert!(long.chars().count() <= MAX_INPUT_CHARS + 1 && long.ends_with('…'), "{long}");
        let several = summary(&json!({ "a": "x".repeat(500), "b": "y" }));
        assert!(several.contains("…, b: y"), "{several}");
    }
}
