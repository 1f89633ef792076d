//! Suggests commands for an escalated workflow, which waits for a person.

use emergent_wire::workflow::WorkflowSummaryView;

use crate::hints;

/// One line for each option: a short label and the command. Empty for a workflow that is not escalated.
pub fn advice(workflow: &WorkflowSummaryView) -> Vec<String> {
    let Some(escalation) = &workflow.escalation else { return Vec::new() };
    let id = workflow.id;
    let mut options = Vec::new();
    for option in &escalation.options {
        match (option.as_str(), escalation.task_id, escalation.discussion_id) {
            ("retry", Some(task), _) => options.push(("try again", format!("task retry {task} --note TEXT"))),
            ("reassign", Some(task), _) => {
                options.push(("another agent", format!("task reassign {task} AGENT")));
            }
            // Only an escalation with a task can come from an exhausted budget.
            ("resume", Some(_), _) => {
                options.push(("with more money", format!("workflow resume {id} --budget-usd N")));
            }
            ("skip", Some(task), _) => options.push(("do without", format!("task skip {task}"))),
            ("decide", _, Some(discussion)) => {
                options.push(("read", format!("discussion show {discussion}")));
                options.push(("decide", format!("discussion decide {discussion} DECISION --reason TEXT")));
            }
            _ => {}
        }
    }
    options.push(("everything again", format!("workflow resume {id}")));
    options.push(("give up", format!("workflow cancel {id}")));
    options.into_iter().map(|(label, command)| format!("{label:<17} {}", hints::command(&command))).collect()
}
