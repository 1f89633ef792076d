//! Reads the verdict a verifying run ended in: what it handed in, else what its words say.

use emergent_domain::{
    task::VerdictKind,
    verdict::{Verdict, VerdictWord},
};
use serde_json::Value;

use crate::{
    question::{cut, object_with},
    said::{Found, Word, find, words},
};

/// What a run says of what it looked at. `handed_in` is what it gave to `submit_verdict`; `text` is
/// read only when that says nothing. `None`: neither says anything that could be acted on.
pub fn verdict_of(kind: VerdictKind, handed_in: Option<&Value>, text: &str) -> Option<Verdict> {
    if kind == VerdictKind::None {
        return None;
    }
    if let Some(verdict) = handed_in.and_then(|value| structured(kind, value)) {
        return Some(verdict);
    }
    if let Some(verdict) = object_with(text, "verdict").and_then(|value| structured(kind, &value)) {
        return Some(verdict);
    }
    let word = said(kind, text)?;
    let issues = match listed(text, &["issue", "required change", "problem", "must fix", "fail"]) {
        found if !found.is_empty() || !word.sends_back() => found,
        // Whoever is sent back must know why; a verdict without a list has the reason in its words.
        _ => vec![cut(text, LONGEST_ISSUE)],
    };
    Some(Verdict {
        word,
        issues: if word.sends_back() { issues } else { Vec::new() },
        suggestions: listed(text, &["suggest", "improvement", "recommend", "follow-up"]),
        comments: listed(text, &["comment", "remark", "note"]),
        steps: Vec::new(),
        summary: cut(text, LONGEST_ISSUE),
    })
}

const LONGEST_ISSUE: usize = 2_000;

fn structured(kind: VerdictKind, value: &Value) -> Option<Verdict> {
    let found = value.get("verdict")?.as_str()?;
    let spoken = words(found);
    let found = find(&spoken, PHRASES);
    let [one] = &found[..] else { return None };
    let word = one.counts().then(|| of_kind(one.what, kind))??;
    let steps: Vec<Value> = list(value, "steps").to_vec();
    let mut issues = texts(value, "issues");
    issues.extend(texts(value, "required_changes"));
    if word.sends_back() && issues.is_empty() {
        issues = steps.iter().filter_map(broken).collect();
    }
    let summary = value.get("summary").and_then(Value::as_str).unwrap_or_default().to_owned();
    if word.sends_back() && issues.is_empty() && !summary.is_empty() {
        issues.push(summary.clone());
    }
    Some(Verdict {
        word,
        issues,
        suggestions: texts(value, "suggestions"),
        comments: texts(value, "comments"),
        steps,
        summary,
    })
}

/// A step of a test that failed, as an issue.
fn broken(step: &Value) -> Option<String> {
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

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// A list of texts. Models like to make objects of them.
fn texts(value: &Value, name: &str) -> Vec<String> {
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
        _ => list(value, name).iter().filter_map(text).filter(|text| !text.is_empty()).collect(),
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
fn of_kind(word: VerdictWord, kind: VerdictKind) -> Option<VerdictWord> {
    match (kind, word) {
        (kind, word) if word.kind() == kind => Some(word),
        (VerdictKind::Test, Approve) => Some(Pass),
        (VerdictKind::Test, RequestChanges) => Some(NeedsChanges),
        (VerdictKind::Review, Pass) => Some(Approve),
        (VerdictKind::Review, Fail | NeedsChanges) => Some(RequestChanges),
        _ => None,
    }
}

fn said(kind: VerdictKind, text: &str) -> Option<VerdictWord> {
    let words = words(text);
    let found = find(&words, PHRASES);
    match labelled(&words, &found) {
        Some(Label::Says(word)) => return of_kind(word, kind),
        // Who writes "verdict: not PASS" has said something, but not what.
        Some(Label::Denies) => return None,
        None => {}
    }
    // From here on only the words of its own kind: "comment" and "pass" are words of every day.
    let own: Vec<_> = found.iter().filter(|one| one.what.kind() == kind).copied().collect();
    if let Some(one) = own.iter().rfind(|one| one.counts() && is_alone(&words, one)) {
        return Some(one.what);
    }
    if let Some(first) = own.first().filter(|one| one.at == 0 && one.counts()) {
        let ends = words[first.len - 1].after.as_str();
        if first.loud || !ends.is_empty() {
            return Some(first.what);
        }
    }
    let mut loud = own.iter().filter(|one| one.loud && one.counts());
    let one = loud.next()?;
    loud.all(|other| other.what == one.what).then_some(one.what)
}

enum Label {
    Says(VerdictWord),
    Denies,
}

/// What the last "VERDICT: …" says that says anything.
fn labelled(words: &[Word], found: &[Found<VerdictWord>]) -> Option<Label> {
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
        if one.listed || !(signed || one.at == next) || !is_near(words, at, one.at) {
            continue;
        }
        return Some(if one.denied { Label::Denies } else { Label::Says(one.what) });
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
fn is_alone(words: &[Word], one: &Found<VerdictWord>) -> bool {
    let line = words[one.at].line;
    words.iter().filter(|word| word.line == line).count() == one.len
}

/// Points of lists below a heading, or after a line that ends in a colon, with one of these words.
fn listed(text: &str, headings: &[&str]) -> Vec<String> {
    let mut points = Vec::new();
    let mut wanted = false;
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let point = point(line);
        match point {
            Some(point) if wanted => points.push(cut(point, LONGEST_ISSUE)),
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
fn point(line: &str) -> Option<&str> {
    let bare = line.strip_prefix(['-', '•']).or_else(|| line.strip_prefix("* "));
    let numbered = || {
        let rest = line.trim_start_matches(|c: char| c.is_ascii_digit());
        (rest.len() < line.len()).then(|| rest.strip_prefix(['.', ')'])).flatten()
    };
    bare.or_else(numbered).map(str::trim).filter(|point| !point.is_empty())
}

#[cfg(test)]
mod tests;
