//! A tree of runs, drawn with lines.

use serde_json::Value;

use crate::output::{bold, dim, duration, green, red};

/// One line for each run, the root first.
pub fn tree_lines(root: &Value) -> Vec<String> {
    let mut lines = vec![label(root)];
    push_children(root, "", &mut lines);
    lines
}

fn push_children(run: &Value, indent: &str, lines: &mut Vec<String>) {
    let children = run["children"].as_array().map(Vec::as_slice).unwrap_or_default();
    let cut = run["truncated"] == true;
    for (at, child) in children.iter().enumerate() {
        let last = at + 1 == children.len() && !cut;
        let (branch, next) = if last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        lines.push(format!("{indent}{branch}{}", label(child)));
        push_children(child, &format!("{indent}{next}"), lines);
    }
    if cut {
        lines.push(format!("{indent}└─ {}", dim("… more, which are not shown")));
    }
}

fn label(run: &Value) -> String {
    let text = |name: &str| run[name].as_str().unwrap_or_default();
    let mut label = format!(
        "{}  {}  {}",
        bold(text("agentName")),
        coloured_status(text("status")),
        steps(&run["stepCount"])
    );
    if let Some(millis) = run["durationMs"].as_u64() {
        label.push_str(&format!("  {}", duration(millis)));
    }
    label.push_str(&format!("  {}", dim(text("id"))));
    if let Some(next) = run["resumedAs"].as_str() {
        label.push_str(&format!("  → resumed as {next}"));
    }
    label
}

pub fn steps(count: &Value) -> String {
    match count.as_u64() {
        Some(1) => "1 step".to_owned(),
        count => format!("{} steps", count.unwrap_or(0)),
    }
}

pub fn coloured_status(status: &str) -> String {
    match status {
        "completed" => green(status),
        "failed" | "cancelled" => red(status),
        _ => status.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_run_hangs_on_its_parent() {
        let run = |name: &str, children: Value| {
            json!({ "id": format!("id-{name}"), "agentName": name,
            "status": "completed", "stepCount": 1, "durationMs": 1_500, "children": children })
        };
        let inner = run("b", json!([run("c", json!([]))]));
        let lines = tree_lines(&run("a", json!([inner, run("d", json!([]))])));
        let names: Vec<_> = lines.iter().map(|line| line.split("  completed").next().unwrap()).collect();
        assert_eq!(names, ["a", "├─ b", "│  └─ c", "└─ d"]);
        assert_eq!(lines[3], "└─ d  completed  1 step  1.5s  id-d");
    }
}
