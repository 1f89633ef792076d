//! Suggests commands for an escalated workflow, which waits for a person.

use emergent_wire::workflow::{EscalationAction, WorkflowSummaryView};

use crate::hints;

/// One line for each action: a short label and the command. Empty for a workflow that is not escalated.
pub fn advice(workflow: &WorkflowSummaryView) -> Vec<String> {
    let Some(escalation) = &workflow.escalation else { return Vec::new() };
    let mut lines: Vec<(&str, String)> = Vec::new();
    if let Some(discussion) = escalation.discussion_id {
        lines.push(("read", format!("discussion show {discussion}")));
    }
    lines.extend(escalation.actions.iter().filter_map(labelled_command));
    // To cancel is always possible. Nothing goes on while a discussion waits for a decision.
    let waits_for_decision = escalation.actions.iter().any(|action| action.option == "decide");
    let resume =
        (!waits_for_decision).then(|| ("everything again", format!("workflow resume {}", workflow.id)));
    let cancel = ("give up", format!("workflow cancel {}", workflow.id));
    for (label, command) in resume.into_iter().chain([cancel]) {
        if !lines.iter().any(|(_, other)| *other == command) {
            lines.push((label, command));
        }
    }
    lines.into_iter().map(|(label, command)| format!("{label:<17} {}", hints::command(&command))).collect()
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
