//! Draws a run and its child runs as a tree.

use emergent_domain::{run::RunStatus, text::counted};
use emergent_wire::run::RunTreeView;

use crate::output::{bold, dim, duration, green, red};

/// One line for each run, the root first.
pub fn tree_lines(root: &RunTreeView) -> Vec<String> {
    let mut lines = vec![label(root)];
    push_children(root, "", &mut lines);
    lines
}

fn push_children(run: &RunTreeView, indent: &str, lines: &mut Vec<String>) {
    for (index, child) in run.children.iter().enumerate() {
        let is_last = index + 1 == run.children.len() && !run.truncated;
        let (branch, continuation) = if is_last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        lines.push(format!("{indent}{branch}{}", label(child)));
        push_children(child, &format!("{indent}{continuation}"), lines);
    }
    if run.truncated {
        lines.push(format!("{indent}└─ {}", dim("… more, which are not shown")));
    }
}

fn label(run: &RunTreeView) -> String {
    let mut label =
        format!("{}  {}  {}", bold(&run.agent_name), coloured_status(run.status), steps(run.step_count));
    if let Some(took) = took(run.duration_ms) {
        label.push_str(&format!("  {took}"));
    }
    label.push_str(&format!("  {}", dim(&run.id.to_string())));
    if let Some(next) = run.resumed_as {
        label.push_str(&format!("  → resumed as {next}"));
    }
    label
}

/// The duration of a run or tool call as text; `None` before it has ended.
pub fn took(duration_ms: Option<i64>) -> Option<String> {
    duration_ms.and_then(|millis| u64::try_from(millis).ok()).map(duration)
}

/// `1 step` or `N steps`.
pub fn steps(count: i64) -> String {
    counted(count, "step")
}

fn coloured_status(status: RunStatus) -> String {
    match status {
        RunStatus::Completed => green(status.as_str()),
        RunStatus::Failed | RunStatus::Cancelled => red(status.as_str()),
        RunStatus::Queued | RunStatus::Running | RunStatus::Waiting | RunStatus::Paused => status.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const ID: &str = "0198c0de-0000-7000-8000-000000000000";

    #[test]
    fn every_run_is_drawn_below_its_parent() {
        let run = |name: &str, children: Value| {
            json!({ "id": ID, "agentName": name, "status": "completed", "stepCount": 1,
                "durationMs": 1_500, "children": children })
        };
        let inner = run("b", json!([run("c", json!([]))]));
        let root = run("a", json!([inner, run("d", json!([]))]));
        let lines = tree_lines(&serde_json::from_value(root).unwrap());
        let names: Vec<_> = lines.iter().map(|line| line.split("  completed").next().unwrap()).collect();
        assert_eq!(names, ["a", "├─ b", "│  └─ c", "└─ d"]);
        assert_eq!(lines[3], format!("└─ d  completed  1 step  1.5s  {ID}"));
    }
}
