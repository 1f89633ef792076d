//! Prints products, available updates and plans; a plan is printed as a diff.

use emergent_domain::text::counted;
use emergent_wire::product::{
    FieldChangeView, OwnChangeView, PlanView, ProductDetailView, ProductView, UpdateView, UsesView,
};
use serde_json::Value;

use crate::{
    cells::cell,
    client::Received,
    error::Result,
    hints,
    output::{self, bold, dim, green, red},
};

/// Longer lines are shortened to this many characters.
const MAX_WIDTH: usize = 100;
/// How many changed lines of a field are shown.
const MAX_LINES: usize = 12;

/// The names in a line, or a dash.
fn names(names: &[String]) -> String {
    if names.is_empty() { "–".to_owned() } else { names.join(" ") }
}

fn yellow(text: &str) -> String {
    output::paint("33", text, output::use_colour())
}

pub fn print_products(products: &[Received<ProductView>]) -> Result<()> {
    let rows: Vec<_> = products
        .iter()
        .map(|product| {
            let source = &product.source;
            vec![
                product.name.clone(),
                product.version.clone(),
                match &source.at {
                    Some(at) => at.clone(),
                    None if source.kind == "manifest" => "a file".to_owned(),
                    None => source.kind.clone(),
                },
                product.updated_at.to_string(),
                cell(&product.description, 60),
            ]
        })
        .collect();
    output::print_list_with_optional(
        &["NAME", "VERSION", "FROM", "SINCE", "DESCRIPTION"],
        &rows,
        &["NAME", "VERSION"],
        &["SINCE", "FROM"],
        ("product install emergent.research", "installs one"),
    )
}

pub fn print_updates(updates: &[Received<UpdateView>]) -> Result<()> {
    let rows: Vec<_> = updates
        .iter()
        .map(|update| {
            let state = match (update.available, &update.error) {
                (true, _) => hints::command(&format!("product upgrade {}", update.name)),
                (false, None) => "up to date".to_owned(),
                (false, Some(error)) => cell(error, MAX_WIDTH),
            };
            let latest = update.latest.clone().unwrap_or_else(|| "–".to_owned());
            vec![update.name.clone(), update.version.clone(), latest, state]
        })
        .collect();
    output::print_table_with_optional(&["NAME", "VERSION", "LATEST", "STATE"], &rows, &["NAME", "STATE"], &[])
}

pub fn print_product(detail: &ProductDetailView) -> Result<()> {
    let product = &detail.product;
    output::print_line(&format!("{}  {}", bold(&product.name), product.version))?;
    let packs: Vec<_> = product.packs.iter().map(|pack| format!("{}@{}", pack.name, pack.version)).collect();
    for (name, value) in [
        ("description", product.description.clone()),
        ("from", source_text(product)),
        ("installed", product.installed_at.to_string()),
        ("agents", names(&product.agents)),
        ("packs", names(&packs)),
        ("servers", names(&product.servers)),
        ("jobs", names(&product.schedules)),
        ("prompts", names(&product.prompts)),
    ] {
        output::print_fact(name, &value)?;
    }
    for (label, what) in labelled_uses(&product.uses) {
        output::print_fact(label, &what)?;
    }
    for OwnChangeView { agent, deleted, fields } in &detail.own_changes {
        if *deleted {
            output::print_line(&yellow(&format!("\n! the agent {agent} was deleted by hand")))?;
            continue;
        }
        output::print_line(&yellow(&format!("\n! the agent {agent} was changed by hand")))?;
        print_lines(&field_lines(fields))?;
    }
    Ok(())
}

/// Where a product came from; for one from a file, how it is upgraded.
fn source_text(product: &ProductView) -> String {
    let (kind, name) = (&product.source.kind, &product.name);
    match &product.source.at {
        Some(at) => format!("{kind} {at}"),
        None if kind == "manifest" => {
            format!("a file; `{}` upgrades it", hints::command(&format!("product upgrade {name} FILE")))
        }
        None => kind.clone(),
    }
}

/// A line of a plan. It is painted when it is printed, after it was wrapped, so that no colour code is broken.
pub struct PlanLine {
    /// What stands before the text; following lines are indented by its width.
    label: String,
    text: String,
    paint: fn(&str) -> String,
}

impl PlanLine {
    fn new(label: impl Into<String>, text: impl Into<String>, paint: fn(&str) -> String) -> Self {
        Self { label: label.into(), text: text.into(), paint }
    }
}

/// Prints the lines of a plan. On a terminal they are wrapped between words.
pub fn print_lines(lines: &[PlanLine]) -> Result<()> {
    lines.iter().try_for_each(|line| output::print_painted_item(&line.label, &line.text, line.paint))
}

/// A plan as a diff, line by line.
pub fn plan_lines(plan: &PlanView, consent: Consent) -> Vec<PlanLine> {
    let versions = match (&plan.from, &plan.to) {
        (Some(from), Some(to)) if from != to => format!("{from} → {to}"),
        (Some(version), _) | (None, Some(version)) => version.clone(),
        (None, None) => String::new(),
    };
    let direction = if plan.direction == "same" { "the installed version" } else { plan.direction.as_str() };
    let heading = format!("{}  {versions}  {direction}", plan.name);
    let mut lines = vec![PlanLine::new("", heading, bold)];
    let mut unchanged = 0;
    for step in &plan.steps {
        let label = format!("{} {}", step.what.replace('_', " "), step.name);
        match step.change.as_str() {
            "add" => lines.push(PlanLine::new("+ ", label, green)),
            "remove" => lines.push(PlanLine::new("- ", label, red)),
            "update" => {
                lines.push(PlanLine::new("~ ", label, yellow));
                lines.extend(field_lines(&step.fields));
            }
            _ => unchanged += 1,
        }
    }
    match (unchanged, plan.steps.len()) {
        (0, 0) => lines.push(PlanLine::new("  ", "nothing to do", dim)),
        (0, _) => {}
        (unchanged, _) => lines.push(PlanLine::new("  ", format!("{unchanged} unchanged"), dim)),
    }
    lines.extend(plan.warnings.iter().map(|warning| PlanLine::new("! ", warning.message.clone(), yellow)));
    lines.extend(use_lines(plan, consent));
    lines
}

/// Whether somebody has accepted what a product uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Consent {
    Pending,
    Given,
}

/// What a product uses of the world outside; what has to be accepted is marked.
fn use_lines(plan: &PlanView, given: Consent) -> Vec<PlanLine> {
    let uses = labelled_uses(&plan.uses);
    if uses.is_empty() {
        return Vec::new();
    }
    let pending = plan.consent.as_ref().filter(|_| given == Consent::Pending);
    let adds = pending.map(|consent| labelled_uses(&consent.adds)).unwrap_or_default();
    let mut lines = vec![PlanLine::new("", "uses", str::to_owned)];
    lines.extend(uses.into_iter().map(|(label, what)| match adds.contains(&(label, what.clone())) {
        true => PlanLine::new(format!("  ? {label:<9} "), what, yellow),
        false => PlanLine::new(format!("    {label:<9} "), what, str::to_owned),
    }));
    if !adds.is_empty() {
        lines.push(PlanLine::new("  ? ", "has to be accepted", dim));
    }
    lines
}

/// Each use as the kind of the use, and what is used.
fn labelled_uses(uses: &UsesView) -> Vec<(&'static str, String)> {
    let programs = uses.programs.iter().map(|program| ("program", program.clone()));
    let hosts = uses.hosts.iter().map(|host| ("host", host.clone()));
    let secrets = uses.secrets.iter().map(|one| ("secret", format!("{} → {}", one.name, one.target)));
    let schedules = uses
        .schedules
        .iter()
        .map(|one| ("schedule", format!("{} {} starts {}", one.cron, one.time_zone, one.agent)));
    let events = uses.events.iter().map(|one| {
        let filter = one.filter.as_ref().map(|filter| format!(" with {filter}")).unwrap_or_default();
        ("event", format!("{}{filter} starts {}", one.event, one.agent))
    });
    programs.chain(hosts).chain(secrets).chain(schedules).chain(events).collect()
}

/// The changed fields as a diff.
fn field_lines(fields: &[FieldChangeView]) -> Vec<PlanLine> {
    let mut lines = Vec::new();
    for field in fields {
        lines.push(PlanLine::new("    ", field.pointer.clone(), dim));
        let (before, after) = (value_lines(field.before.as_ref()), value_lines(field.after.as_ref()));
        // Lines that both values begin or end with are left out.
        let same_start = before.iter().zip(&after).take_while(|(old, new)| old == new).count();
        let max_same_end = before.len().min(after.len()) - same_start;
        let same_end = before
            .iter()
            .rev()
            .zip(after.iter().rev())
            .take(max_same_end)
            .take_while(|(old, new)| old == new)
            .count();
        let changed = |lines: &[String]| lines[same_start..lines.len() - same_end].to_vec();
        for (mark, changed_lines, colour) in
            [("-", changed(&before), red as fn(&str) -> String), ("+", changed(&after), green)]
        {
            let hidden = changed_lines.len().saturating_sub(MAX_LINES);
            let label = format!("    {mark} ");
            let shown = changed_lines.into_iter().take(MAX_LINES);
            lines.extend(shown.map(|line| PlanLine::new(label.clone(), line, colour)));
            if hidden > 0 {
                lines.push(PlanLine::new(
                    "      ",
                    format!("… {} more", counted(hidden as u64, "line")),
                    dim,
                ));
            }
        }
    }
    lines
}

fn shorten(line: &str) -> String {
    let mut text: String = line.chars().take(MAX_WIDTH).collect();
    if line.chars().nth(MAX_WIDTH).is_some() {
        text.push('…');
    }
    text
}

/// A value as lines; empty when it is absent.
fn value_lines(value: Option<&Value>) -> Vec<String> {
    match value {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::String(text)) if text.is_empty() => vec!["\"\"".to_owned()],
        Some(Value::String(text)) => text.lines().map(shorten).collect(),
        Some(other) => vec![shorten(&other.to_string())],
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_plan_reads_as_a_diff() {
        let plan = json!({
            "name": "acme.support", "from": "1.0.0", "to": "2.0.0", "direction": "upgrade",
            "steps": [
                { "what": "agent", "name": "old", "change": "remove", "fields": [] },
                { "what": "agent", "name": "triage", "change": "update", "fields": [
                    { "pointer": "/system_prompt", "before": "You sort.\nOld line.\nBe kind.", "after": "You sort.\nNew line.\nBe kind." },
                    { "pointer": "/max_steps", "after": 5 }] },
                { "what": "template_pack", "name": "support", "change": "add", "fields": [] },
                { "what": "prompt", "name": "ask", "change": "keep", "fields": [] }],
            "warnings": [{ "kind": "own_change", "about": "triage", "message": "your own change …" }],
            "uses": { "programs": [], "hosts": ["https://a.test", "https://b.test"], "schedules": [],
                "secrets": [{ "name": "KEY", "target": "https://b.test" }],
                "events": [{ "agent": "triage", "event": "on_document_ingested" },
                    { "agent": "triage", "event": "on_entity_created", "filter": "types [\"Ticket\"]" }] },
            "consent": { "digest": "d", "adds": { "programs": [], "hosts": ["https://b.test"], "schedules": [],
                "secrets": [{ "name": "KEY", "target": "https://b.test" }], "events": [] } } });
        let plan = serde_json::from_value(plan).unwrap();
        let accepted = plan_lines(&plan, Consent::Given);
        assert!(accepted.iter().all(|line| !line.label.contains('?')), "nothing is left to be accepted");
        let lines = plan_lines(&plan, Consent::Pending);
        let lines: Vec<_> = lines.into_iter().map(|line| line.label + &line.text).collect();
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
                "uses",
                "    host      https://a.test",
                "  ? host      https://b.test",
                "  ? secret    KEY → https://b.test",
                "    event     on_document_ingested starts triage",
                "    event     on_entity_created with types [\"Ticket\"] starts triage",
                "  ? has to be accepted",
            ]
        );
    }
}
