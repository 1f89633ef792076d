//! What the runs below a run do, told as it changes.

use std::collections::HashMap;

use serde_json::Value;

use super::{text, tree};
use crate::output::{dim, duration, green, red};

/// Remembers how each child was when it was last looked at.
#[derive(Default)]
pub struct Children(HashMap<String, String>);

impl Children {
    /// A line for each child that began or ended since the last look, indented by its depth.
    pub fn changes(&mut self, root: &Value) -> Vec<String> {
        let mut lines = Vec::new();
        self.collect_changes(root, 1, &mut lines);
        lines
    }

    fn collect_changes(&mut self, run: &Value, depth: usize, lines: &mut Vec<String>) {
        for child in run["children"].as_array().into_iter().flatten() {
            let (id, status) = (text(&child["id"]).to_owned(), text(&child["status"]).to_owned());
            let before = self.0.insert(id, status.clone());
            if before.as_ref() != Some(&status) {
                lines.push(format!("{}{}", "  ".repeat(depth), line(child, &status)));
            }
            self.collect_changes(child, depth + 1, lines);
        }
    }
}

fn line(child: &Value, status: &str) -> String {
    let name = text(&child["agentName"]);
    match status {
        "queued" => format!("◦ {name}  {}", dim("waits for its turn")),
        "running" => format!("▸ {name}  {}", dim("works")),
        ended => {
            let mark = match ended {
                "completed" => green("✓"),
                "paused" => "⏸".to_owned(),
                _ => red("✗"),
            };
            let took = child["durationMs"].as_u64().map(|millis| format!("  {}", duration(millis)));
            format!(
                "{mark} {name}  {ended}  {}{}",
                tree::steps(&child["stepCount"]),
                took.unwrap_or_default()
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_changed_is_told() {
        let mut children = Children::default();
        let tree = |status: &str, inner: Value| {
            json!({ "children": [{ "id": "1", "agentName": "a", "status": status,
            "stepCount": 2, "durationMs": 1_200, "children": inner }] })
        };
        assert_eq!(children.changes(&tree("running", json!([]))), ["  ▸ a  works"]);
        assert!(children.changes(&tree("running", json!([]))).is_empty());
        let inner =
            json!([{ "id": "2", "agentName": "b", "status": "failed", "stepCount": 1, "children": [] }]);
        assert_eq!(
            children.changes(&tree("completed", inner)),
            ["  ✓ a  completed  2 steps  1.2s", "    ✗ b  failed  1 step"]
        );
    }
}
