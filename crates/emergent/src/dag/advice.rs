//! What a person can do about a workflow that waits for one, as commands to copy.

use emergent_wire::workflow::WorkflowSummaryView;

/// One line for each way on; none for a workflow that does not wait.
pub fn advice(workflow: &WorkflowSummaryView) -> Vec<String> {
    let Some(escalation) = &workflow.escalation else { return Vec::new() };
    let id = workflow.id;
    let mut ways = Vec::new();
    for option in &escalation.options {
        match (option.as_str(), escalation.task_id, escalation.discussion_id) {
            ("retry", Some(task), _) => ways.push(("try again", format!("task retry {task} --note TEXT"))),
            ("reassign", Some(task), _) => {
                ways.push(("another agent", format!("task reassign {task} AGENT")));
            }
            // Without a task, there is nothing that money is missing for.
            ("resume", Some(_), _) => {
                ways.push(("with more money", format!("workflow resume {id} --budget-usd N")));
            }
            ("skip", Some(task), _) => ways.push(("do without", format!("task skip {task}"))),
            ("decide", _, Some(discussion)) => {
                ways.push(("read", format!("discussion show {discussion}")));
                ways.push(("decide", format!("discussion decide {discussion} DECISION --reason TEXT")));
            }
            _ => {}
        }
    }
    ways.push(("everything again", format!("workflow resume {id}")));
    ways.push(("give up", format!("workflow cancel {id}")));
    ways.into_iter().map(|(what, command)| format!("{what:<17} emergent {command}")).collect()
}
