//! `emergent run revert`: undoes what a run wrote to the graph.

use emergent_wire::revert::{ChildWritesView, RevertRun, RevertView};

use super::run::{get_run, path};
use crate::{
    client::{Client, Received},
    error::Result,
    output,
};

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
        for line in describe(&reverted, &self.run) {
            output::print_line(&line)?;
        }
        Ok(())
    }
}

/// The lines about a revert. `run` is the run as the user named it.
fn describe(reverted: &RevertView, run: &str) -> Vec<String> {
    let (undone, kept) = (reverted.undone.len(), reverted.conflicts.len());
    let mut lines = vec![match reverted.dry_run {
        true => format!("would undo {undone}, and leave {kept} as it is; nothing was changed"),
        false => format!("{undone} undone, {kept} left as it is"),
    }];
    if reverted.runs.len() > 1 {
        lines[0].push_str(&format!(" (of {} runs)", reverted.runs.len()));
    }
    if reverted.dry_run {
        let action = |how: &str| match how {
            "deleted" => "delete",
            "restored" => "restore",
            _ => "put back",
        };
        lines.extend(
            reverted.undone.iter().map(|item| format!("  {} {} {}", action(&item.how), item.kind, item.id)),
        );
    }
    let conflict = |conflict: &emergent_wire::revert::RevertConflictView| {
        format!("  {} {}: {}", conflict.kind, conflict.id, conflict.reason)
    };
    lines.extend(reverted.conflicts.iter().map(conflict));
    if !reverted.children.is_empty() {
        lines.push(format!(
            "{} runs that it started wrote as well, and what they wrote stays:",
            reverted.children.len()
        ));
        lines.extend(reverted.children.iter().map(describe_child));
        lines
            .push(format!("`emergent run revert {run} --tree` undoes that, too; `--dry-run` shows it first"));
    }
    lines
}

fn describe_child(child: &ChildWritesView) -> String {
    let counts =
        [(child.objects, "objects"), (child.relationships, "relationships"), (child.documents, "documents")];
    let counts: Vec<String> = counts
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, name)| format!("{count} {name}"))
        .collect();
    format!("  {} {}: {}", child.agent_name, child.run_id, counts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

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
            conflicts: Vec::new(),
            runs: vec![uuid::Uuid::nil()],
            children: vec![child],
            dry_run: true,
        };
        let text = describe(&reverted, "last").join("\n");
        assert!(text.starts_with("would undo 0") && text.contains("2 objects, 1 documents"), "{text}");
        assert!(text.contains("`emergent run revert last --tree`"), "{text}");
    }
}
