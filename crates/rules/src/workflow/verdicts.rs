//! Reads the verdict a verifying run ended in: what it handed in, else what its words say.

use emergent_domain::{
    task::VerdictKind,
    verdict::{Verdict, VerdictWord},
};
use serde_json::Value;

use crate::workflow::{
    keywords::{KeywordMatch, Word, find_keywords, split_words},
    question::{find_json_object, truncate},
};

/// What a run says of what it looked at. `handed_in` is what it gave to `submit_verdict`; `text` is
/// read only when that says nothing. `None`: neither says anything that could be acted on.
pub fn parse_verdict(kind: VerdictKind, handed_in: Option<&Value>, text: &str) -> Option<Verdict> {
    if kind == VerdictKind::None {
        return None;
    }
    if let Some(verdict) = handed_in.and_then(|value| parse_submission(kind, value)) {
        return Some(verdict);
    }
    if let Some(verdict) = find_json_object(text, "verdict").and_then(|value| parse_submission(kind, &value))
    {
        return Some(verdict);
    }
    let word = find_verdict(kind, text)?;
    let issues = match list_items_under(text, &["issue", "required change", "problem", "must fix", "fail"]) {
        found if !found.is_empty() || !word.is_negative() => found,
        // Whoever is sent back must know why; a verdict without a list has the reason in its words.
        _ => vec![truncate(text, MAX_ISSUE_CHARS)],
    };
    Some(Verdict {
        word,
        issues: if word.is_negative() { issues } else { Vec::new() },
        suggestions: list_items_under(text, &["suggest", "improvement", "recommend", "follow-up"]),
        comments: list_items_under(text, &["comment", "remark", "note"]),
        steps: Vec::new(),
        summary: truncate(text, MAX_ISSUE_CHARS),
    })
}

const MAX_ISSUE_CHARS: usize = 2_000;

fn parse_submission(kind: VerdictKind, value: &Value) -> Option<Verdict> {
    let found = value.get("verdict")?.as_str()?;
    let spoken = split_words(found);
    let found = find_keywords(&spoken, PHRASES);
    let [one] = &found[..] else { return None };
    let word = one.is_decisive().then(|| for_kind(one.meaning, kind))??;
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

/// A step of a test that failed, as an issue.
fn failed_step_issue(step: &Value) -> Option<String> {
    let text = |name: &str| step.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    if !text("result")?.eq_ignore_ascii_case("fail") {
        return None;
    }
    let mut said = text("step").unwrap_or("a step failed").to_owned();
    for (sign, name) in [(": ", "issue"), (" Suggested fix: ", "suggested_fix")] {
        if let Some(more) = text(name) {
            said += sign;
            said += more;
        }
    }
    Some(said)
}

fn array_field<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// A list of texts. Models like to make objects of them.
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

use VerdictWord::{Approve, Comment, Fail, NeedsChanges, Pass, RequestChanges};

const PHRASES: &[(&str, VerdictWord)] = &[
    ("PASS", Pass),
    ("PASSED", Pass),
    ("PASSES", Pass),
    ("FAIL", Fail),
    ("FAILED", Fail),
    ("NEEDS CHANGES", NeedsChanges),
    ("NEEDS CHANGE", NeedsChanges),
    ("NEED CHANGES", NeedsChanges),
    ("CHANGES NEEDED", NeedsChanges),
    ("APPROVE", Approve),
    ("APPROVED", Approve),
    ("APPROVAL", Approve),
    ("LGTM", Approve),
    ("REQUEST CHANGES", RequestChanges),
    ("REQUESTING CHANGES", RequestChanges),
    ("REQUESTS CHANGES", RequestChanges),
    ("CHANGES REQUESTED", RequestChanges),
    ("CHANGES REQUIRED", RequestChanges),
    ("COMMENT", Comment),
];

/// A tester that approves has passed it, a reviewer that fails it wants changes.
fn for_kind(word: VerdictWord, kind: VerdictKind) -> Option<VerdictWord> {
    match (kind, word) {
        (kind, word) if word.kind() == kind => Some(word),
        (VerdictKind::Test, Approve) => Some(Pass),
        (VerdictKind::Test, RequestChanges) => Some(NeedsChanges),
        (VerdictKind::Review, Pass) => Some(Approve),
        (VerdictKind::Review, Fail | NeedsChanges) => Some(RequestChanges),
        _ => None,
    }
}

fn find_verdict(kind: VerdictKind, text: &str) -> Option<VerdictWord> {
    let words = split_words(text);
    let found = find_keywords(&words, PHRASES);
    match find_labelled(&words, &found) {
        Some(LabelledVerdict::Says(word)) => return for_kind(word, kind),
        // Who writes "verdict: not PASS" has said something, but not what.
        Some(LabelledVerdict::Denies) => return None,
        None => {}
    }
    // From here on only the words of its own kind: "comment" and "pass" are words of every day.
    let own: Vec<_> = found.iter().filter(|one| one.meaning.kind() == kind).copied().collect();
    if let Some(one) = own.iter().rfind(|one| one.is_decisive() && is_only_on_line(&words, one)) {
        return Some(one.meaning);
    }
    if let Some(first) = own.first().filter(|one| one.at == 0 && one.is_decisive()) {
        let ends = words[first.len - 1].after.as_str();
        if first.is_uppercase || !ends.is_empty() {
            return Some(first.meaning);
        }
    }
    let mut loud = own.iter().filter(|one| one.is_uppercase && one.is_decisive());
    let one = loud.next()?;
    loud.all(|other| other.meaning == one.meaning).then_some(one.meaning)
}

enum LabelledVerdict {
    Says(VerdictWord),
    Denies,
}

/// What the last "VERDICT: …" says that says anything.
fn find_labelled(words: &[Word], found: &[KeywordMatch<VerdictWord>]) -> Option<LabelledVerdict> {
    const LABELS: &[&str] = &["VERDICT", "ASSESSMENT", "DECISION", "CONCLUSION", "OVERALL"];
    for at in (0..words.len()).rev() {
        if !LABELS.contains(&words[at].upper.as_str()) {
            continue;
        }
        // "Verdict is PASS", "Verdict: PASS", "## Verdict\n\nPASS"; but a mere "a verdict" in a
        // sentence is no label, and neither is what follows a line further on.
        let next = at + 1;
        let line = match words.get(next) {
            Some(word) if word.line == words[at].line => word.line,
            Some(word) if is_last_of_line(words, at) => word.line,
            _ => continue,
        };
        let signed = words[at].after.contains([':', '=', '>', '→', '—', '–'])
            || words[next].line != words[at].line
            || words[next].upper == "IS";
        let Some(one) = found.iter().find(|one| one.at > at && words[one.at].line == line) else { continue };
        if one.is_alternative || !(signed || one.at == next) || !is_near(words, at, one.at) {
            continue;
        }
        return Some(if one.negated { LabelledVerdict::Denies } else { LabelledVerdict::Says(one.meaning) });
    }
    None
}

fn is_last_of_line(words: &[Word], at: usize) -> bool {
    words.get(at + 1).is_none_or(|next| next.line != words[at].line)
}

/// No sentence ends between the two, and nothing else is named: "## Verdict\n- Schema: PASS" says
/// what the schema is.
fn is_near(words: &[Word], label: usize, to: usize) -> bool {
    words[label..to].iter().all(|word| !word.after.contains(['.', ';', '!', '?']))
        && words[label + 1..to].iter().all(|word| !word.after.contains(':'))
}

/// Nothing else stands on its line.
fn is_only_on_line(words: &[Word], one: &KeywordMatch<VerdictWord>) -> bool {
    let line = words[one.at].line;
    words.iter().filter(|word| word.line == line).count() == one.len
}

/// Points of lists below a heading, or after a line that ends in a colon, with one of these words.
fn list_items_under(text: &str, headings: &[&str]) -> Vec<String> {
    let mut points = Vec::new();
    let mut wanted = false;
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let point = list_item(line);
        match point {
            Some(point) if wanted => points.push(truncate(point, MAX_ISSUE_CHARS)),
            Some(_) => {}
            None => {
                let head = line.trim_start_matches(['#', '*', ' ']).to_lowercase();
                let is_heading = line.starts_with('#') || head.trim_end_matches('*').ends_with(':');
                wanted = is_heading && headings.iter().any(|word| head.contains(word));
            }
        }
    }
    points
}

/// What a line says as a point of a list.
fn list_item(line: &str) -> Option<&str> {
    let bare = line.strip_prefix(['-', '•']).or_else(|| line.strip_prefix("* "));
    let numbered = || {
        let rest = line.trim_start_matches(|c: char| c.is_ascii_digit());
        (rest.len() < line.len()).then(|| rest.strip_prefix(['.', ')'])).flatten()
    };
    bare.or_else(numbered).map(str::trim).filter(|point| !point.is_empty())
}

#[cfg(test)]
mod tests;
