//! `emergent run revert`: undoes what a run wrote to the graph.

use emergent_domain::text::counted;
use emergent_wire::revert::{ChildWritesView, RevertConflictView, RevertRun, RevertView, UndoneView};
use uuid::Uuid;

use super::run::{get_run, path};
use crate::{
    client::{Client, Received},
    error::Result,
    hints, output,
};

/// How many items of each kind are listed.
const MAX_LISTED: usize = 50;

#[derive(Debug, clap::Args)]
pub struct Revert {
    /// An id, the end of an id, or `last`
    run: String,
    /// Undo what the runs wrote as well that this run started, and those that they started
    #[arg(long)]
    tree: bool,
    /// Show what would be undone, and change nothing
    #[arg(long)]
    dry_run: bool,
}

impl Revert {
    pub async fn run(self, client: &Client, as_json: bool) -> Result<()> {
        let detail = get_run(client, &self.run).await?;
        let body = RevertRun { tree: self.tree, dry_run: self.dry_run };
        let reverted: Received<RevertView> =
            client.post(&format!("{}/revert", path(&detail)), &body).await?.data().await?;
        if as_json {
            return output::print_json(&reverted);
        }
        for line in describe(&reverted, &detail.facts.id.to_string()) {
            output::print_text(&line)?;
        }
        Ok(())
    }
}

/// The lines about a revert of the run with the id `run`.
fn describe(reverted: &RevertView, run: &str) -> Vec<String> {
    let undone = reverted.undone.len() + reverted.unlisted_undone;
    let kept = reverted.conflicts.len() + reverted.unlisted_conflicts;
    let changes = counted(undone, "change");
    let mut lines = vec![match (reverted.dry_run, kept) {
        _ if undone + kept == 0 => nothing_left(reverted),
        (true, 0) => format!("would undo {changes}; nothing was changed"),
        (true, _) => format!("would undo {changes}, and leave {kept} as it is; nothing was changed"),
        (false, 0) => format!("undid {changes}"),
        (false, _) => format!("undid {changes}, and left {kept} as it is"),
    }];
    if reverted.runs.len() > 1 {
        lines[0].push_str(&format!(" (of {})", counted(reverted.runs.len(), "run")));
    }
    let action = |how: &str| match (reverted.dry_run, how) {
        (true, "deleted") => "delete",
        (true, "restored") => "restore",
        (false, "deleted") => "deleted",
        (false, "restored") => "restored",
        _ => "put back",
    };
    let line = |item: &UndoneView| {
        let name = name(&item.kind, item.name.as_deref(), item.id);
        format!("  {:<9} {:<12} {name}", action(&item.how), item.kind)
    };
    lines.extend(reverted.undone.iter().take(MAX_LISTED).map(line));
    lines.extend(not_listed(undone, reverted.unlisted_undone));
    let conflict = |conflict: &RevertConflictView| {
        let name = name(&conflict.kind, conflict.name.as_deref(), conflict.id);
        format!("  {:<9} {:<12} {name}: {}", "left", conflict.kind, conflict.reason)
    };
    lines.extend(reverted.conflicts.iter().take(MAX_LISTED).map(conflict));
    lines.extend(not_listed(kept, reverted.unlisted_conflicts));
    if !reverted.children.is_empty() {
        let runs = counted(reverted.children.len(), "run");
        lines.push(format!("{runs} that it started wrote as well, and what was written there stays:"));
        lines.extend(reverted.children.iter().map(describe_child));
        let command = hints::command(&format!("run revert {run} --tree"));
        lines.push(format!("`{command}` undoes that, too; `--dry-run` shows it first"));
    }
    lines
}

/// Why there was nothing to undo.
fn nothing_left(reverted: &RevertView) -> String {
    match reverted.reverted_at {
        Some(at) => format!("it was reverted already, at {at}: nothing that it wrote stands any more"),
        None if reverted.written > 0 => {
            "nothing that it wrote stands any more: it was undone or deleted already".to_owned()
        }
        None => "it wrote nothing to the graph that could be undone".to_owned(),
    }
}

/// What a person calls an entity. The type of a relationship names none, so its id comes along.
fn name(kind: &str, name: Option<&str>, id: Uuid) -> String {
    match name {
        Some(name) if kind == "relationship" => format!("{name} ({id})"),
        Some(name) => name.to_owned(),
        None => id.to_string(),
    }
}

/// Says how many items are left out of a list. The server has not sent `unlisted` of them.
fn not_listed(count: usize, unlisted: usize) -> Option<String> {
    let extent = if unlisted == 0 { "lists all" } else { "lists more" };
    (count > MAX_LISTED).then(|| format!("  … and {} more (`--json` {extent})", count - MAX_LISTED))
}

fn describe_child(child: &ChildWritesView) -> String {
    let counts =
        [(child.objects, "object"), (child.relationships, "relationship"), (child.documents, "document")];
    let counts: Vec<String> =
        counts.iter().filter(|(count, _)| *count > 0).map(|(count, name)| counted(*count, name)).collect();
    format!("  {} {}: {}", child.agent_name, child.run_id, counts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_undone_is_named() {
        assert_eq!(name("object", Some("Note/old"), Uuid::nil()), "Note/old");
        assert_eq!(name("relationship", Some("knows"), Uuid::nil()), format!("knows ({})", Uuid::nil()));
        assert_eq!(name("document", Some("page.md"), Uuid::nil()), "page.md");
        assert_eq!(name("document", None, Uuid::nil()), Uuid::nil().to_string());
    }

    #[test]
    fn reverting_a_parent_says_what_its_children_wrote() {
        let child = ChildWritesView {
            run_id: uuid::Uuid::nil(),
            agent_name: "worker".to_owned(),
            objects: 2,
            relationships: 0,
            documents: 1,
        };
        let reverted = RevertView {
            undone: Vec::new(),
            unlisted_undone: 0,
            conflicts: Vec::new(),
            unlisted_conflicts: 0,
            runs: vec![uuid::Uuid::nil()],
            children: vec![child],
            dry_run: true,
            written: 0,
            reverted_at: None,
        };
        let text = describe(&reverted, "last").join("\n");
        assert!(text.starts_with("it wrote nothing") && text.contains("2 objects, 1 document"), "{text}");
        assert!(text.contains("1 run that it started wrote as well"), "{text}");
        assert!(text.contains("`emergent run revert last --tree`"), "{text}");
    }

    #[test]
    fn what_the_answer_does_not_list_is_counted() {
        let undone = UndoneView {
            kind: "object".to_owned(),
            id: Uuid::nil(),
            name: Some("Note/a".to_owned()),
            how: "deleted".to_owned(),
            version: 2,
        };
        let reverted = RevertView {
            undone: vec![undone; 60],
            unlisted_undone: 940,
            conflicts: Vec::new(),
            unlisted_conflicts: 0,
            runs: Vec::new(),
            children: Vec::new(),
            dry_run: false,
            written: 1_000,
            reverted_at: None,
        };
        let lines = describe(&reverted, "last");
        assert_eq!(lines[0], "undid 1000 changes");
        assert_eq!(lines.last().map(String::as_str), Some("  … and 950 more (`--json` lists more)"));
    }
}
