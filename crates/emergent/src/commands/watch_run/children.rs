//! Tracks the child runs of a run and describes each change of their status in a line.

use std::collections::HashMap;

use emergent_domain::run::RunStatus;
use emergent_wire::run::RunTreeView;
use uuid::Uuid;

use super::tree;
use crate::output::{dim, green, red};

/// The status of each descendant when the tree was last loaded.
#[derive(Default)]
pub struct Children(HashMap<Uuid, RunStatus>);

impl Children {
    /// A line for each descendant whose status has changed since the last call, indented by its depth.
    pub fn changes(&mut self, root: &RunTreeView) -> Vec<String> {
        let mut lines = Vec::new();
        self.collect_changes(root, 1, &mut lines);
        lines
    }

    fn collect_changes(&mut self, run: &RunTreeView, depth: usize, lines: &mut Vec<String>) {
        for child in &run.children {
            let previous = self.0.insert(child.id, child.status);
            if previous != Some(child.status) {
                lines.push(format!("{}{}", "  ".repeat(depth), line(child)));
            }
            self.collect_changes(child, depth + 1, lines);
        }
    }
}

fn line(child: &RunTreeView) -> String {
    let name = &child.agent_name;
    let mark = match child.status {
        RunStatus::Queued => return format!("◦ {name}  {}", dim("waits for its turn")),
        RunStatus::Running => return format!("▸ {name}  {}", dim("works")),
        RunStatus::Waiting => return format!("✋ {name}  {}", dim("waits for a person")),
        RunStatus::Completed => green("✓"),
        RunStatus::Paused => "⏸".to_owned(),
        RunStatus::Failed | RunStatus::Cancelled => red("✗"),
    };
    let took = tree::took(child.duration_ms).map(|took| format!("  {took}")).unwrap_or_default();
    format!("{mark} {name}  {}  {}{took}", child.status, tree::steps(child.step_count))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn child(id: u8, name: &str, status: &str, steps: i64, took: Option<i64>, children: Value) -> Value {
        json!({ "id": format!("0198c0de-0000-7000-8000-0000000000{id:02}"), "agentName": name,
            "status": status, "stepCount": steps, "durationMs": took, "children": children })
    }

    #[test]
    fn only_changed_children_get_a_line() {
        let mut children = Children::default();
        let tree = |status: &str, inner: Value| -> RunTreeView {
            let only_child = child(1, "a", status, 2, Some(1_200), inner);
            serde_json::from_value(child(0, "root", "running", 0, None, json!([only_child]))).unwrap()
        };
        assert_eq!(children.changes(&tree("running", json!([]))), ["  ▸ a  works"]);
        assert!(children.changes(&tree("running", json!([]))).is_empty());
        let inner = json!([child(2, "b", "failed", 1, None, json!([]))]);
        assert_eq!(
            children.changes(&tree("completed", inner)),
            ["  ✓ a  completed  2 steps  1.2s", "    ✗ b  failed  1 step"]
        );
    }
}
