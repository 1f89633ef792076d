//! Questions to a model, and the formats in which its answer is found.

use emergent_domain::foreign_json;
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
        let value = foreign_json::first_value(&text[start..])?;
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

/// Reads a verdict with `parse` from a line of its own, such as `Verdict: PASS` or `Overall verdict - PASS`, or from the line
/// after a heading `Verdict`. Markup, symbols and quotes around it are ignored. Of several such lines the last one
/// counts, because models think before they answer.
pub fn find_verdict<T>(text: &str, parse: impl Fn(&str) -> Option<T>) -> Option<T> {
    let lines: Vec<&str> = text.lines().map(trim_symbols).filter(|line| !line.is_empty()).collect();
    for (position, line) in lines.iter().enumerate().rev() {
        match after_verdict_label(line) {
            None => {}
            // Below a heading there may be any text.
            Some("") => {
                if let Some(verdict) = lines.get(position + 1).and_then(|next| parse(next)) {
                    return Some(verdict);
                }
            }
            Some(value) => return parse(value),
        }
    }
    None
}

/// A line without markup, symbols and quotes at its ends. A question mark at the end stays, because a question is no
/// statement.
pub fn trim_symbols(line: &str) -> &str {
    let is_symbol = |c: char| !c.is_alphanumeric();
    line.trim_start_matches(is_symbol).trim_end_matches(|c: char| is_symbol(c) && c != '?')
}

/// What a line says after its label; empty for a heading.
fn after_verdict_label(line: &str) -> Option<&str> {
    let label_end = |text: &str, word: &str| {
        text.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word)).then_some(word.len())
    };
    let qualified = VERDICT_QUALIFIERS.iter().find_map(|word| label_end(line, word)).map(|end| &line[end..]);
    let label = qualified.filter(|rest| rest.starts_with(' ')).unwrap_or(line).trim_start();
    let rest = VERDICT_LABELS.iter().find_map(|word| label_end(label, word)).map(|end| &label[end..])?;
    let rest = rest.trim_start_matches(['*', '_', '`', '"', ' ']);
    match rest.strip_prefix([':', '-', '–', '—', '=']) {
        Some(value) => Some(trim_symbols(value)),
        None => rest.is_empty().then_some(rest),
    }
}

const VERDICT_QUALIFIERS: &[&str] = &["overall", "final", "my"];
/// The prompt of a review asks for an overall assessment.
const VERDICT_LABELS: &[&str] = &["verdict", "assessment"];

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
    fn a_verdict_stands_after_its_label_or_below_its_heading() {
        let verdict = |text| find_verdict(text, |value| (!value.contains(' ')).then(|| value.to_owned()));
        for (text, expected) in [
            ("Overall verdict: PASS", Some("PASS")),
            ("- **Final verdict:** `PASS`.", Some("PASS")),
            ("Verdict - PASS.", Some("PASS")),
            ("## Verdict\n\n**PASS**", Some("PASS")),
            ("Verdict:\nPASS\n\nVerdict:\nIt works well", Some("PASS")),
            ("Overall assessment: APPROVE", Some("APPROVE")),
            ("Verdict: one\nVerdict: two words", None),
            ("Verdicts: PASS", None),
            ("Overall: PASS", None),
            ("Verdict: PASS?", Some("PASS?")),
            ("Verdict", None),
        ] {
            assert_eq!(verdict(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn a_cut_text_says_so() {
        assert_eq!(truncate("  short ", 10), "short");
        assert_eq!(truncate("füñf wörter", 4), "füñf…");
    }
}
