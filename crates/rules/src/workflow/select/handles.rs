//! What an agent's author says it is for: `config.handles: { kinds, tags, patterns, work }`.
//!
//! `kinds` and `tags` are compared with those of the task. A pattern is looked for in title and
//! description, without regard to case; `*` stands for anything within them. `work` has sentences that
//! describe the agent's work in plain words; they are part of its profile.

use emergent_domain::task::Task;
use serde_json::{Map, Value};

use super::AgentCard;

/// Each of these outweighs whatever a description happens to say.
const KIND_SCORE: f64 = 8.0;
/// For a task without a kind, whose title or key starts with one: a verb says less than a kind that somebody set.
const IMPLIED_KIND_SCORE: f64 = 1.0;
const TAG_SCORE: f64 = 6.0;
const PATTERN_SCORE: f64 = 10.0;

/// The text of a task in which patterns are looked for.
pub(super) fn searched_text(task: &Task) -> String {
    format!("{}\n{}", task.title, task.description).to_lowercase()
}

/// `text` is the [`searched_text`] of the task, which is the same for all agents.
pub(super) fn score(task: &Task, text: &str, agent: &AgentCard) -> (f64, Vec<String>) {
    let list = |name: &str| handles_list(&agent.config, name);
    let (mut score, mut reasons) = (0.0, Vec::new());
    if !task.kind.is_empty() && list("kinds").iter().any(|kind| kind.eq_ignore_ascii_case(&task.kind)) {
        score += KIND_SCORE;
        reasons.push(format!("it handles tasks of kind `{}`", task.kind));
    }
    if task.kind.is_empty()
        && let Some(word) = implied_kinds(task)
            .into_iter()
            .find(|word| list("kinds").iter().any(|kind| kind.eq_ignore_ascii_case(word)))
    {
        score += IMPLIED_KIND_SCORE;
        reasons.push(format!("it handles tasks of kind `{word}`, with which the task starts"));
    }
    let known: Vec<String> = list("tags").into_iter().chain(agent.tags.iter().cloned()).collect();
    if let Some(tag) = task.tags.iter().find(|tag| known.iter().any(|one| one.eq_ignore_ascii_case(tag))) {
        score += TAG_SCORE;
        reasons.push(format!("it handles the tag `{tag}`"));
    }
    if let Some(pattern) =
        list("patterns").iter().find(|pattern| matches_pattern(&pattern.to_lowercase(), text))
    {
        score += PATTERN_SCORE;
        reasons.push(format!("it handles `{pattern}`"));
    }
    (score, reasons)
}

/// The first words of the title and of the key, which mostly name the work: `Design the tables`, `design-tables`.
fn implied_kinds(task: &Task) -> Vec<&str> {
    let has_key = task.key != task.id.to_string();
    let key = first_word(&task.key).filter(|_| has_key);
    first_word(&task.title).into_iter().chain(key).collect()
}

fn first_word(text: &str) -> Option<&str> {
    let text = &text[text.find(char::is_alphanumeric)?..];
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    Some(&text[..end])
}

/// The sentences in which an author describes an agent's work.
pub(super) fn work(config: &Map<String, Value>) -> Vec<String> {
    handles_list(config, "work")
}

/// Every text of a configuration that is about the agent's work.
pub(super) fn described_work(config: &Map<String, Value>) -> Vec<String> {
    let tags = string_list(config.get("tags"));
    [handles_list(config, "kinds"), handles_list(config, "tags"), work(config), tags].concat()
}

fn handles_list(config: &Map<String, Value>, name: &str) -> Vec<String> {
    string_list(config.get("handles").and_then(|handles| handles.get(name)))
}

/// Whether the parts of a pattern stand in the text, in their order.
pub(super) fn matches_pattern(pattern: &str, text: &str) -> bool {
    let mut rest = text;
    let mut any = false;
    for part in pattern.split('*').map(str::trim).filter(|part| !part.is_empty()) {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
        any = true;
    }
    any
}

pub(super) fn string_list(value: Option<&Value>) -> Vec<String> {
    let list = value.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    list.iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::matches_pattern;

    #[test]
    fn a_pattern_stands_in_a_text_in_its_order() {
        assert!(matches_pattern("invoice", "check the invoice"));
        assert!(matches_pattern("check*invoice", "check the invoice"));
        assert!(!matches_pattern("invoice*check", "check the invoice"));
        assert!(!matches_pattern("*", "anything"));
    }
}
