//! Products and plans as people read them: a plan is a diff.

use serde_json::Value;

use crate::{
    error::Result,
    output::{self, bold, dim, first_line, green, red},
};

const MAX_WIDTH: usize = 100;
/// More of a long text than this is not shown.
const MAX_LINES: usize = 12;

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn names(value: &Value) -> String {
    let all: Vec<&str> = value.as_array().into_iter().flatten().map(text).collect();
    if all.is_empty() { "–".to_owned() } else { all.join(" ") }
}

fn yellow(text: &str) -> String {
    if output::use_colour() { format!("\x1b[33m{text}\x1b[0m") } else { text.to_owned() }
}

pub fn print_products(products: &[Value]) -> Result<()> {
    let rows: Vec<_> = products
        .iter()
        .map(|product| {
            let source = &product["source"];
            let from = if source["at"].is_string() { text(&source["at"]) } else { text(&source["kind"]) };
            vec![
                text(&product["name"]).to_owned(),
                text(&product["version"]).to_owned(),
                from.to_owned(),
                text(&product["updatedAt"]).to_owned(),
                first_line(text(&product["description"]), 60),
            ]
        })
        .collect();
    output::print_table(&["NAME", "VERSION", "FROM", "SINCE", "DESCRIPTION"], &rows)
}

pub fn print_updates(found: &[Value]) -> Result<()> {
    let rows: Vec<_> = found
        .iter()
        .map(|update| {
            let state = match (update["available"] == true, update["error"].as_str()) {
                (true, _) => format!("emergent product upgrade {}", text(&update["name"])),
                (false, None) => "up to date".to_owned(),
                (false, Some(why)) => first_line(why, MAX_WIDTH),
            };
            let latest = update["latest"].as_str().unwrap_or("–");
            vec![
                text(&update["name"]).to_owned(),
                text(&update["version"]).to_owned(),
                latest.to_owned(),
                state,
            ]
        })
        .collect();
    output::print_table(&["NAME", "VERSION", "LATEST", ""], &rows)
}

pub fn print_product(product: &Value) -> Result<()> {
    output::print_line(&format!("{}  {}", bold(text(&product["name"])), text(&product["version"])))?;
    let source = &product["source"];
    let packs = product["packs"].as_array().into_iter().flatten();
    let packs: Vec<_> =
        packs.map(|pack| format!("{}@{}", text(&pack["name"]), text(&pack["version"]))).collect();
    for (name, value) in [
        ("description", text(&product["description"]).to_owned()),
        ("from", format!("{} {}", text(&source["kind"]), text(&source["at"]))),
        ("installed", text(&product["installedAt"]).to_owned()),
        ("agents", names(&product["agents"])),
        ("packs", if packs.is_empty() { "–".to_owned() } else { packs.join(" ") }),
        ("servers", names(&product["servers"])),
        ("jobs", names(&product["schedules"])),
        ("prompts", names(&product["prompts"])),
    ] {
        output::print_line(&format!("  {name:<12} {value}"))?;
    }
    for change in product["ownChanges"].as_array().into_iter().flatten() {
        let agent = text(&change["agent"]);
        if change["deleted"] == true {
            output::print_line(&yellow(&format!("\n! the agent {agent} was deleted by hand")))?;
            continue;
        }
        output::print_line(&yellow(&format!("\n! the agent {agent} was changed by hand")))?;
        field_lines(&change["fields"]).iter().try_for_each(|line| output::print_line(line))?;
    }
    Ok(())
}

/// A plan as a diff, line by line.
pub fn plan_lines(plan: &Value) -> Vec<String> {
    let (from, to) = (plan["from"].as_str(), plan["to"].as_str());
    let versions = match (from, to) {
        (Some(from), Some(to)) if from != to => format!("{from} → {to}"),
        (Some(version), _) | (None, Some(version)) => version.to_owned(),
        (None, None) => String::new(),
    };
    let mut lines =
        vec![format!("{}  {versions}  {}", bold(text(&plan["name"])), dim(text(&plan["direction"])))];
    let steps = plan["steps"].as_array().map_or(&[][..], Vec::as_slice);
    let mut kept = 0;
    for step in steps {
        let label = format!("{} {}", text(&step["what"]).replace('_', " "), text(&step["name"]));
        match text(&step["change"]) {
            "add" => lines.push(green(&format!("+ {label}"))),
            "remove" => lines.push(red(&format!("- {label}"))),
            "update" => {
                lines.push(yellow(&format!("~ {label}")));
                lines.extend(field_lines(&step["fields"]));
            }
            _ => kept += 1,
        }
    }
    match (kept, steps.len()) {
        (0, 0) => lines.push(dim("  nothing to do")),
        (0, _) => {}
        (kept, _) => lines.push(dim(&format!("  {kept} unchanged"))),
    }
    for warning in plan["warnings"].as_array().into_iter().flatten() {
        lines.push(yellow(&format!("! {}", text(&warning["message"]))));
    }
    lines
}

fn field_lines(fields: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    for field in fields.as_array().into_iter().flatten() {
        lines.push(dim(&format!("    {}", text(&field["pointer"]))));
        let (before, after) = (value_lines(&field["before"]), value_lines(&field["after"]));
        // What both begin and end with is not what changed.
        let same = before.iter().zip(&after).take_while(|(one, other)| one == other).count();
        let rest = before.len().min(after.len()) - same;
        let tail = before.iter().rev().zip(after.iter().rev()).take(rest).take_while(|(a, b)| a == b).count();
        let part = |lines: &[String]| lines[same..lines.len() - tail].to_vec();
        for (mark, side, colour) in
            [("-", part(&before), red as fn(&str) -> String), ("+", part(&after), green)]
        {
            let cut = side.len().saturating_sub(MAX_LINES);
            lines.extend(side.iter().take(MAX_LINES).map(|line| colour(&format!("    {mark} {line}"))));
            if cut > 0 {
                lines.push(dim(&format!("      … {cut} more lines")));
            }
        }
    }
    lines
}

/// A value as lines; nothing when it is not there.
fn value_lines(value: &Value) -> Vec<String> {
    let cut = |line: &str| {
        let mut text: String = line.chars().take(MAX_WIDTH).collect();
        if line.chars().nth(MAX_WIDTH).is_some() {
            text.push('…');
        }
        text
    };
    match value {
        Value::Null => Vec::new(),
        Value::String(text) if text.is_empty() => vec!["\"\"".to_owned()],
        Value::String(text) => text.lines().map(cut).collect(),
        other => vec![cut(&other.to_string())],
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_plan_reads_as_a_diff() {
        let lines = plan_lines(&json!({
            "name": "acme.support", "from": "1.0.0", "to": "2.0.0", "direction": "upgrade",
            "steps": [
                { "what": "agent", "name": "old", "change": "remove", "fields": [] },
                { "what": "agent", "name": "triage", "change": "update", "fields": [
                    { "pointer": "/system_prompt", "before": "You sort.\nOld line.\nBe kind.", "after": "You sort.\nNew line.\nBe kind." },
                    { "pointer": "/max_steps", "after": 5 }] },
                { "what": "template_pack", "name": "support", "change": "add", "fields": [] },
                { "what": "prompt", "name": "ask", "change": "keep", "fields": [] }],
            "warnings": [{ "kind": "own_change", "about": "triage", "message": "your own change …" }] }));
        assert_eq!(
            lines,
            [
                "acme.support  1.0.0 → 2.0.0  upgrade",
                "- agent old",
                "~ agent triage",
                "    /system_prompt",
                "    - Old line.",
                "    + New line.",
                "    /max_steps",
                "    + 5",
                "+ template pack support",
                "  1 unchanged",
                "! your own change …",
            ]
        );
    }
}
