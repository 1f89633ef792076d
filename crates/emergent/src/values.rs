//! JSON values as people read them: a line for each name, with nested values indented below it.

use console::measure_text_width;
use serde_json::{Map, Value};

use crate::{
    printable::{printable, printable_json, printable_line},
    text::{MIN_TEXT_COLUMNS, wrap, wrap_item},
};

/// How much deeper nested values are indented.
const INDENT: usize = 2;
/// Names are aligned up to this width.
const MAX_NAME_WIDTH: usize = 24;
/// Between a name and its value.
const GAP: &str = "  ";

/// The lines of the fields of an object: `name  value`. `width` is that of the terminal, if there is one.
pub fn field_lines(fields: &Map<String, Value>, indent: usize, width: Option<usize>) -> Vec<String> {
    let mut lines = Vec::new();
    push_fields(fields, indent, width, &mut lines);
    lines
}

fn push_fields(fields: &Map<String, Value>, indent: usize, width: Option<usize>, lines: &mut Vec<String>) {
    let names = fields.iter().filter(|(_, value)| text_of(value).is_some());
    let widest = names.map(|(name, _)| measure_text_width(&printable_line(name))).max().unwrap_or(0);
    for (name, value) in fields {
        let name = printable_line(name);
        match text_of(value) {
            Some(text) => {
                let padding = widest.min(MAX_NAME_WIDTH).saturating_sub(measure_text_width(&name));
                let label = format!("{:indent$}{name}{:padding$}{GAP}", "", "");
                push_text(&label, &text, width, lines);
            }
            None => {
                lines.push(format!("{:indent$}{name}", ""));
                push_nested(value, indent + INDENT, width, lines);
            }
        }
    }
}

/// The lines of a value that is no text.
fn push_nested(value: &Value, indent: usize, width: Option<usize>, lines: &mut Vec<String>) {
    match value {
        Value::Object(fields) => push_fields(fields, indent, width, lines),
        Value::Array(items) => {
            for item in items {
                let dash = format!("{:indent$}- ", "");
                match text_of(item) {
                    Some(text) => push_text(&dash, &text, width, lines),
                    None => {
                        let first = lines.len();
                        push_nested(item, indent + INDENT, width, lines);
                        // The dash stands in the indentation of the first line.
                        if let Some(line) = lines.get_mut(first) {
                            *line = format!("{dash}{}", line.trim_start());
                        }
                    }
                }
            }
        }
        other => push_text(&format!("{:indent$}", ""), &other.to_string(), width, lines),
    }
}

/// The text beside its label; below it where a narrow terminal has no room beside it.
fn push_text(label: &str, text: &str, width: Option<usize>, lines: &mut Vec<String>) {
    let Some(width) = width else { return lines.extend(wrap_item(label, text, usize::MAX)) };
    let label_width = measure_text_width(label);
    if label_width + MIN_TEXT_COLUMNS <= width || label_width + measure_text_width(text) <= width {
        return lines.extend(wrap_item(label, text, width));
    }
    lines.push(label.trim_end().to_owned());
    let indent = label.chars().take_while(|char| *char == ' ').count() + INDENT;
    let indent = indent.min(width.saturating_sub(MIN_TEXT_COLUMNS));
    lines.extend(wrap(text, width - indent).into_iter().map(|line| format!("{:indent$}{line}", "")));
}

/// A value that stands beside its name: a text, a number, or a list of words. `None` for one with lines of its own.
fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::String(text) if text.trim().is_empty() => {
            Some(printable_json(&value.to_string()).into_owned())
        }
        Value::String(text) => Some(printable(text).into_owned()),
        Value::Object(fields) if fields.is_empty() => Some("{}".to_owned()),
        Value::Array(items) if items.is_empty() => Some("[]".to_owned()),
        Value::Array(items) => {
            let words = items.iter().map(|item| match item {
                Value::String(text) if is_word(text) => Some(printable_line(text).into_owned()),
                Value::Number(_) | Value::Bool(_) | Value::Null => Some(item.to_string()),
                _ => None,
            });
            words.collect::<Option<Vec<_>>>().map(|words| words.join(", "))
        }
        Value::Object(_) => None,
        other => Some(other.to_string()),
    }
}

/// Whether a text can be told from the next one of a list in one line.
fn is_word(text: &str) -> bool {
    !text.trim().is_empty() && !text.contains([',', '\n'])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn lines(value: Value, width: Option<usize>) -> String {
        field_lines(value.as_object().unwrap(), 2, width).join("\n")
    }

    #[test]
    fn each_name_has_a_line_and_nested_values_are_indented() {
        let value = json!({ "name": "Ada King", "born": 1815, "fields": ["mathematics", "poetry"],
            "address": { "city": "London", "houses": [{ "street": "St James's Square", "no": 12 }, "another, older one"] },
            "note": "", "nothing": {} });
        let expected = [
            "  address",
            "    city  London",
            "    houses",
            "      - no      12",
            "        street  St James's Square",
            "      - another, older one",
            "  born     1815",
            "  fields   mathematics, poetry",
            "  name     Ada King",
            r#"  note     """#,
            "  nothing  {}",
        ];
        assert_eq!(lines(value, None), expected.join("\n"));
    }

    #[test]
    fn a_long_text_is_wrapped_beside_its_name() {
        let value = json!({ "why": "A long reason that does not fit", "id": 1 });
        assert_eq!(lines(value, Some(30)), "  id   1\n  why  A long reason that does\n       not fit");
    }

    #[test]
    fn a_text_without_room_beside_its_name_is_below_it() {
        let value = json!({ "outer": { "description": "A long text that does not fit" } });
        assert_eq!(
            lines(value, Some(30)),
            "  outer\n    description\n      A long text that does\n      not fit"
        );
    }

    #[test]
    fn a_text_does_not_control_the_terminal() {
        assert_eq!(lines(json!({ "a": "x\u{1b}[2Jy\nz" }), None), "  a  x\\u{1b}[2Jy\n     z");
        assert_eq!(lines(json!({ "a\n": ["x\r\u{202e}", 1] }), None), r"  a\n  x\r\u{202e}, 1");
    }
}
