//! Reads the verdict that a verifying run ended with.
//!
//! A verdict is what the run submitted with `submit_verdict`, else a JSON object in its answer, else a
//! line such as `VERDICT: PASS` or `Overall verdict - PASS`, or the word alone below a heading `Verdict`. Other text
//! is not interpreted: a sentence can deny, quote or list the words of a verdict. A run without a verdict is asked for it once more.

use emergent_domain::{
    task::VerdictKind,
    verdict::{Verdict, VerdictWord},
};
use serde_json::Value;

use crate::workflow::question::{find_json_object, find_verdict, truncate};

const MAX_ISSUE_CHARS: usize = 2_000;

/// Returns the verdict of a run, or `None` if it gave none that could be read. `submission` is the
/// input of its newest call of `submit_verdict`, `text` its answer.
pub fn parse_verdict(kind: VerdictKind, submission: Option<&Value>, text: &str) -> Option<Verdict> {
    if kind == VerdictKind::None {
        return None;
    }
    let from_json = |value: &Value| parse_submission(kind, value);
    submission
        .and_then(from_json)
        .or_else(|| find_json_object(text, "verdict").as_ref().and_then(from_json))
        .or_else(|| parse_line(kind, text))
}

fn parse_submission(kind: VerdictKind, value: &Value) -> Option<Verdict> {
    let word = parse_word(kind, value.get("verdict")?.as_str()?)?;
    let steps: Vec<Value> = array_field(value, "steps").to_vec();
    let mut issues = string_list_field(value, "issues");
    issues.extend(string_list_field(value, "required_changes"));
    if word.is_negative() && issues.is_empty() {
        issues = steps.iter().filter_map(failed_step_issue).collect();
    }
    let summary = value.get("summary").and_then(Value::as_str).unwrap_or_default().to_owned();
    if word.is_negative() && issues.is_empty() && !summary.is_empty() {
        issues.push(summary.clone());
    }
    Some(Verdict {
        word,
        issues,
        suggestions: string_list_field(value, "suggestions"),
        comments: string_list_field(value, "comments"),
        steps,
        summary,
    })
}

fn parse_line(kind: VerdictKind, text: &str) -> Option<Verdict> {
    let word = find_verdict(text, |value| parse_word(kind, value))?;
    let summary = truncate(text, MAX_ISSUE_CHARS);
    // The tasks that are sent back must know why, and the reason is somewhere in the text.
    let issues = if word.is_negative() { vec![summary.clone()] } else { Vec::new() };
    Some(Verdict { word, issues, suggestions: Vec::new(), comments: Vec::new(), steps: Vec::new(), summary })
}

/// Starts the line of an answer that is a verdict.
pub const VERDICT_LABEL: &str = "VERDICT";

/// The words of a verdict of this kind.
pub fn verdict_words(kind: VerdictKind) -> Vec<&'static str> {
    VerdictWord::ALL.iter().filter(|word| word.kind() == kind).map(|word| word.as_str()).collect()
}

/// Exactly one word of a verdict, in any case, with `_`, `-` or a space between its parts.
fn parse_word(kind: VerdictKind, text: &str) -> Option<VerdictWord> {
    let text = text.trim().trim_end_matches(['.', '!']).replace([' ', '-'], "_").to_uppercase();
    let word = VerdictWord::ALL.iter().copied().find(|word| word.as_str() == text)?;
    for_kind(word, kind)
}

/// Models mix up the two kinds: a tester that approves means PASS, a reviewer that fails something
/// requests changes.
fn for_kind(word: VerdictWord, kind: VerdictKind) -> Option<VerdictWord> {
    match (kind, word) {
        (kind, word) if word.kind() == kind => Some(word),
        (VerdictKind::Test, VerdictWord::Approve) => Some(VerdictWord::Pass),
        (VerdictKind::Test, VerdictWord::RequestChanges) => Some(VerdictWord::NeedsChanges),
        (VerdictKind::Review, VerdictWord::Pass) => Some(VerdictWord::Approve),
        (VerdictKind::Review, VerdictWord::Fail | VerdictWord::NeedsChanges) => {
            Some(VerdictWord::RequestChanges)
        }
        _ => None,
    }
}

/// A step of a test that failed, as an issue.
fn failed_step_issue(step: &Value) -> Option<String> {
    let text = |name: &str| step.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    if !text("result")?.eq_ignore_ascii_case("fail") {
        return None;
    }
    let mut issue = text("step").unwrap_or("a step failed").to_owned();
    for (sign, name) in [(": ", "issue"), (" Suggested fix: ", "suggested_fix")] {
        if let Some(more) = text(name) {
            issue += sign;
            issue += more;
        }
    }
    Some(issue)
}

fn array_field<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// A list of texts. Models often write objects instead.
fn string_list_field(value: &Value, name: &str) -> Vec<String> {
    let text = |item: &Value| match item {
        Value::String(text) => Some(text.trim().to_owned()),
        Value::Object(map) => ["issue", "description", "text", "comment", "message"]
            .iter()
            .find_map(|name| map.get(*name).and_then(Value::as_str).map(str::to_owned))
            .or_else(|| Some(item.to_string())),
        _ => None,
    };
    match value.get(name) {
        Some(Value::String(text)) if !text.trim().is_empty() => vec![text.trim().to_owned()],
        _ => array_field(value, name).iter().filter_map(text).filter(|text| !text.is_empty()).collect(),
    }
}

#[cfg(test)]
mod tests;
