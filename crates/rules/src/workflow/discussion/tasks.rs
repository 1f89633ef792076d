//! Tasks that a decision asks for: `{ "tasks": [{ "key", "title", … }] }` at the end of its words.

use emergent_domain::task::{NewTask, Priority, VerdictKind};
use serde_json::Value;

use crate::workflow::question::find_json_object;

const MAX_TASKS: usize = 50;

/// The tasks that these texts ask for. One that several ask for is made once.
pub(super) fn requested_tasks<'t>(texts: impl IntoIterator<Item = &'t str>) -> Vec<NewTask> {
    let mut tasks: Vec<NewTask> = Vec::new();
    for text in texts {
        let Some(value) = find_json_object(text, "tasks") else { continue };
        for task in parse_tasks(value.get("tasks")) {
            if tasks.len() < MAX_TASKS && !tasks.iter().any(|one| one.key == task.key) {
                tasks.push(task);
            }
        }
    }
    // A name that stands for none of them is one of the workflow's own, and is left as it is.
    tasks
}

/// What can be made of a list of tasks; one without a title is left out.
pub(super) fn parse_tasks(list: Option<&Value>) -> Vec<NewTask> {
    let list = list.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let mut tasks: Vec<NewTask> = Vec::new();
    for task in list.iter().filter_map(parse_task).take(MAX_TASKS) {
        if !tasks.iter().any(|one| one.key == task.key) {
            tasks.push(task);
        }
    }
    tasks
}

fn parse_task(value: &Value) -> Option<NewTask> {
    let text = |names: [&str; 2]| {
        let found = names.iter().find_map(|name| value.get(*name).and_then(Value::as_str));
        found.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
    };
    let list = |names: [&str; 2]| -> Vec<String> {
        let found = names.iter().find_map(|name| value.get(*name).and_then(Value::as_array));
        let all = found.map(Vec::as_slice).unwrap_or_default();
        all.iter().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let title = match value {
        Value::String(title) => Some(title.trim().to_owned()).filter(|title| !title.is_empty()),
        _ => text(["title", "name"]),
    }?;
    Some(NewTask {
        key: text(["key", "id"]).unwrap_or_else(|| key_from_title(&title)),
        description: text(["description", "details"]).unwrap_or_default(),
        kind: text(["kind", "type"]).unwrap_or_default(),
        tags: list(["tags", "labels"]),
        priority: text(["priority", "urgency"]).and_then(|word| Priority::parse(&word)).unwrap_or_default(),
        assigned_agent: text(["assigned_agent", "assignedAgent"]),
        blocked_by: list(["blocked_by", "blockedBy"]),
        verdict: text(["verdict", "verdict_kind"])
            .and_then(|word| VerdictKind::parse(&word))
            .unwrap_or_default(),
        verifies: list(["verifies", "checks"]),
        title,
        ..NewTask::default()
    })
}

/// A name out of a title: `Add cycle detection` is `add-cycle-detection`.
fn key_from_title(title: &str) -> String {
    let words = title.to_lowercase();
    let words = words.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.take(8).collect::<Vec<_>>().join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decision_asks_for_tasks_once_each() {
        let text = "We add it.\n```json\n{\"tasks\": [{\"title\": \"Add cycle detection\", \"kind\": \"implement\", \
                    \"blockedBy\": [\"design\"]}, {\"title\": \"\"}, \"Write it up\"]}\n```";
        let tasks = requested_tasks([text, text]);
        let keys: Vec<_> = tasks.iter().map(|task| task.key.as_str()).collect();
        assert_eq!(keys, ["add-cycle-detection", "write-it-up"]);
        assert_eq!(
            (tasks[0].kind.as_str(), &tasks[0].blocked_by[..]),
            ("implement", &["design".to_owned()][..])
        );
        assert!(requested_tasks(["no tasks at all", "{\"tasks\": 3}"]).is_empty());
    }
}
