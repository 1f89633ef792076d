//! How a workflow is started, and what would be done.

use emergent_coordination::{DryRun, DryRunTask, create::NewWorkflow};
use emergent_domain::{invalid::Invalid, task::NewTask, workflow::WorkflowSettings};
pub(crate) use emergent_wire::dispatch::*;

use super::IntoView;
use crate::views::coordination_budget::parse_limit;

/// What a workflow is called that was given as tasks.
fn default_description(tasks: &[NewTask]) -> String {
    const NAMED: usize = 3;
    let named: Vec<&str> = tasks.iter().take(NAMED).map(|task| task.title.as_str()).collect();
    let more = tasks.len().saturating_sub(NAMED);
    let rest = if more == 0 { String::new() } else { format!(" and {more} more") };
    let text = format!("{}{rest}", named.join(", "));
    // A title that is missing is refused with its place.
    if text.trim().is_empty() { "tasks".to_owned() } else { text }
}

pub(crate) fn new_workflow(body: Dispatch) -> Result<NewWorkflow, Invalid> {
    let budget = parse_limit(body.budget_usd, "budgetUsd", body.budget_tokens, "budgetTokens")?;
    let tasks: Option<Vec<NewTask>> = body.tasks.map(|tasks| tasks.into_iter().map(Into::into).collect());
    let (description, tasks) = match (body.description, tasks) {
        (Some(description), None) => (description, Vec::new()),
        (None, Some(tasks)) if !tasks.is_empty() => (default_description(&tasks), tasks),
        (None, Some(_)) => return Err(Invalid::new("tasks", "is empty")),
        (Some(_), Some(_)) => {
            return Err(Invalid::new("tasks", "is given beside `description`: give one of them"));
        }
        (None, None) => return Err(Invalid::new("description", "is required, or `tasks`")),
    };
    let usual = WorkflowSettings::default();
    let max_concurrent = match body.max_concurrent {
        // What is out of bounds is refused with the rest.
        Some(given) => usize::try_from(given).unwrap_or(0),
        None => usual.max_concurrent,
    };
    let settings = WorkflowSettings {
        max_concurrent,
        budget,
        selector: body.selector.unwrap_or(usual.selector),
        evaluate: body.evaluate,
        threading: body.threading.unwrap_or(usual.threading),
        on_failure: body.on_failure.unwrap_or(usual.on_failure),
        planner: body.planner,
        ..usual
    };
    Ok(NewWorkflow { description, settings, tasks })
}

impl IntoView<DryRunView> for DryRun {
    fn into_view(self) -> DryRunView {
        let checked = self;
        let layer = |tasks: Vec<DryRunTask>| tasks.into_iter().map(IntoView::into_view).collect();
        DryRunView {
            dry_run: true,
            planner: checked.planner,
            layers: checked.layers.into_iter().map(layer).collect(),
            first: checked.startable,
        }
    }
}

impl IntoView<DryRunTaskView> for DryRunTask {
    fn into_view(self) -> DryRunTaskView {
        let checked = self;
        DryRunTaskView {
            key: checked.task.key,
            title: checked.task.title,
            kind: checked.task.kind,
            priority: checked.task.priority,
            blocked_by: checked.blocked_by,
            agent: checked.agent,
            reason: checked.reason,
            clear: checked.clear,
        }
    }
}
