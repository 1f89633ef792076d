//! The text of an object that full-text search and embeddings index.

use serde_json::{Map, Value};

/// The text that names the object, and its other text.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct IndexedText {
    pub name: String,
    pub body: String,
}

/// Properties that name an object. A match in them ranks higher than a match in other properties.
pub const NAME_PROPERTIES: [&str; 4] = ["name", "title", "label", "topic"];

/// Collects all strings of an object, except the states, ids and timestamps that the server itself
/// writes (see `unindexed_properties`).
pub fn indexed_text(
    type_: &str,
    key: Option<&str>,
    labels: &[String],
    properties: &Map<String, Value>,
) -> IndexedText {
    let mut text = IndexedText { name: key.unwrap_or_default().to_owned(), body: labels.join(" ") };
    // The system message repeats the prompt of the agent in every session, and would match every
    // search for its words.
    if type_ == "SessionMessage" && properties.get("role").is_some_and(|role| role == "system") {
        return text;
    }
    let left_out = unindexed_properties(type_);
    for (property, value) in properties {
        if left_out.contains(&property.as_str()) {
            continue;
        }
        let into = if NAME_PROPERTIES.contains(&property.as_str()) { &mut text.name } else { &mut text.body };
        push_strings(into, value);
    }
    text
}

/// States, ids and timestamps that the server writes at every step of a workflow. Filters find
/// them, and nobody searches for them by words. Indexing them would add a unique word per value and
/// rewrite the index at every status change. The result of a task is found through its `output`.
fn unindexed_properties(type_: &str) -> &'static [&'static str] {
    match type_ {
        "SpecTask" => &[
            "status",
            "priority",
            "assigned_agent",
            "verdict",
            "workflow_id",
            "run_id",
            "summary",
            "needs_person",
            "metrics",
        ],
        // The task of a session is the beginning of its first message, which is indexed.
        "Session" => &[
            "status",
            "run_id",
            "retry_of",
            "earlier_sessions",
            "task_context",
            "started_at",
            "completed_at",
        ],
        "SessionMessage" => &["role", "run_id", "timestamp", "tool_calls"],
        "Discussion" => &["status", "run_id", "task_id", "settings", "phase"],
        "DiscussionEntry" => &["run_id", "timestamp", "entry_type", "phase"],
        "TestResult" | "CodeReview" => &["run_id"],
        _ => &[],
    }
}

/// Appends every string inside a value. The recursion is bounded, because writes limit the nesting
/// to [`crate::object::limits::DEPTH`].
fn push_strings(into: &mut String, value: &Value) {
    match value {
        Value::String(text) => {
            if !into.is_empty() {
                into.push('\n');
            }
            into.push_str(text);
        }
        Value::Array(items) => items.iter().for_each(|item| push_strings(into, item)),
        Value::Object(map) => map.values().for_each(|item| push_strings(into, item)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn text(type_: &str, properties: Value) -> IndexedText {
        let Value::Object(properties) = properties else { panic!("not an object") };
        indexed_text(type_, Some("k"), &["l".to_owned()], &properties)
    }

    #[test]
    fn every_string_is_words_and_names_weigh_more() {
        let actual =
            text("Person", json!({ "name": "Ada", "status": "busy", "deep": { "x": ["a", 1, "b"] } }));
        assert_eq!(actual, IndexedText { name: "k\nAda".into(), body: "l\na\nb\nbusy".into() });
    }

    #[test]
    fn a_task_that_moves_on_has_the_words_it_had() {
        let pending = json!({ "title": "T", "description": "D", "status": "pending" });
        let moved = json!({
            "title": "T", "description": "D", "status": "in_progress", "assigned_agent": "coder",
            "run_id": "0190", "metrics": { "start_time": "2026-01-01T00:00:00Z" },
        });
        assert_eq!(text("SpecTask", pending), text("SpecTask", moved));
    }

    #[test]
    fn of_a_session_what_was_said_is_words_and_the_agents_prompt_is_not() {
        let message =
            json!({ "role": "assistant", "content": "done", "run_id": "0190", "timestamp": "2026" });
        assert_eq!(text("SessionMessage", message).body, "l\ndone");
        assert_eq!(text("SessionMessage", json!({ "role": "system", "content": "You are" })).body, "l");
        let session = json!({ "agent_name": "coder", "task_context": "Do it.", "retry_reason": "It failed.",
                    "earlier_sessions": ["0190"] });
        assert_eq!(text("Session", session).body, "l\ncoder\nIt failed.", "the first message has the task");
    }
}
