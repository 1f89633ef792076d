//! What happened, in a line: for whoever reads along without a terminal.

use serde_json::Value;

use super::{Dag, text};
use crate::output::first_line;

const MAX_LINE_CHARS: usize = 160;

impl Dag {
    /// The event as a line; nothing for one that says nothing to people.
    pub fn describe_event(&self, event: &Value) -> Option<String> {
        let data = &event["data"];
        let task = event["taskId"].as_str().map(|id| self.name(id)).unwrap_or_default();
        let agent = text(&data["agent"]);
        let why = first_line(text(&data["reason"]), MAX_LINE_CHARS);
        let because = if why.is_empty() { String::new() } else { format!(": {why}") };
        Some(match text(&event["type"]) {
            "workflow_started" => format!("▸ {}", first_line(text(&data["description"]), MAX_LINE_CHARS)),
            "planning_started" => "▸ planning".to_owned(),
            "plan_made" => format!("✓ planned{because}"),
            "plan_refused" => format!("↻ the plan was not taken{because}"),
            "task_added" => format!("+ {}", data["key"].as_str().unwrap_or(task)),
            "task_started" => {
                let attempt = data["attempt"].as_i64().filter(|attempt| *attempt > 1);
                let attempt = attempt.map(|attempt| format!(", attempt {attempt}")).unwrap_or_default();
                format!("▸ {task}  {agent}{attempt}{because}")
            }
            "task_resumed" => format!("▸ {task}  {agent} goes on{because}"),
            "task_completed" => format!("✓ {task}{because}"),
            "task_failed" => format!("✗ {task}{because}"),
            "task_skipped" => format!("⊘ {task}{because}"),
            "task_paused" => format!("⏸ {task}{because}"),
            "task_asked_again" => format!("↻ {task} is asked again{because}"),
            "task_waiting" => format!("· {task}{because}"),
            "task_retried" => format!("↻ {task} is tried again{because}"),
            "task_sent_back" => format!("↻ {task} is sent back{because}"),
            "task_reopened" => format!("↻ {task} is open again{because}"),
            "task_verdict" => format!("⚖ {task}  {}{because}", text(&data["verdict"])),
            "discussion_started" => {
                format!("  {task}  discussion: {}", first_line(text(&data["topic"]), MAX_LINE_CHARS))
            }
            "discussion_entry" => {
                let said = first_line(text(&data["text"]), MAX_LINE_CHARS);
                format!("  {task}  {agent} ({}): {said}", text(&data["entryType"]))
            }
            "discussion_resolved" => {
                format!("  {task}  decided: {}", first_line(text(&data["text"]), MAX_LINE_CHARS))
            }
            "discussion_escalated" => format!("⚑ {task}  the discussion did not come to an end{because}"),
            "discussion_decided" => format!("  {task}  a person decided{because}"),
            "escalated" => format!("⚑ a person has to say how it goes on{because}"),
            "workflow_resumed" => format!("▸ goes on{because}"),
            "workflow_ended" => match text(&data["status"]) {
                "completed" => format!("✓ completed{because}"),
                other => format!("✗ {other}{because}"),
            },
            _ => return None,
        })
    }
}
