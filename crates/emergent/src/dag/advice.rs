//! Suggests commands for an escalated workflow, which waits for a person.

use emergent_wire::workflow::{EscalationAction, WorkflowSummaryView};

use crate::hints;

/// A short label and the command for each action. Empty for a workflow that is not escalated.
pub fn advice(workflow: &WorkflowSummaryView) -> Vec<(&'static str, String)> {
    let Some(escalation) = &workflow.escalation else { return Vec::new() };
    let mut lines: Vec<(&'static str, String)> = Vec::new();
    if let Some(discussion) = escalation.discussion_id {
        lines.push(("read", format!("discussion show {discussion}")));
    }
    lines.extend(escalation.actions.iter().filter_map(labelled_command));
    // To cancel is always possible.
    lines.push(("give up", format!("workflow cancel {}", workflow.id)));
    lines.into_iter().map(|(label, command)| (label, hints::command(&command))).collect()
}

/// The command of an action without the name of the program; `None` for `cancel`, and for an option of a newer
/// server.
fn labelled_command(action: &EscalationAction) -> Option<(&'static str, String)> {
    let command = action.subcommand().to_owned();
    let label = match action.option.as_str() {
        "retry" => "try again",
        "reassign" => "another agent",
        "skip" => "do without",
        "decide" => "decide",
        "resume" if command.starts_with("budget ") => "a larger budget",
        "resume" if command.contains("--budget-") => "with more budget",
        "resume" => "everything again",
        // To cancel comes last, after everything that goes on.
        _ => return None,
    };
    Some((label, command))
}
