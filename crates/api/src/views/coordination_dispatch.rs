//! Converts a request to start a workflow, and the result of a dry run.

use emergent_coordination::{DryRun, DryRunTask, create::NewWorkflow};
use emergent_domain::{invalid::Invalid, task::NewTask, workflow::WorkflowSettings};
pub(crate) use emergent_wire::dispatch::*;

use super::IntoView;
use crate::views::coordination_budget::parse_limit;

/// Returns the description of a workflow that was given as a list of tasks: the titles of the first ones.
fn default_description(tasks: &[NewTask]) -> String {
    const MAX_TITLES: usize = 3;
    let titles: Vec<&str> = tasks.iter().take(MAX_TITLES).map(|task| task.title.as_str()).collect();
    let more = tasks.len().saturating_sub(MAX_TITLES);
    let rest = if more == 0 { String::new() } else { format!(" and {more} more") };
    let text = format!("{}{rest}", titles.join(", "));
    // Empty titles are refused later, with the position of the task.
    if text.trim().is_empty() { "tasks".to_owned() } else { text }
}

/// Converts the request. Exactly one of `description` and `tasks` must be given.
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
    let defaults = WorkflowSettings::default();
    let max_concurrent = match body.max_concurrent {
        // A number out of range becomes 0, which the check of the settings refuses.
        Some(max) => usize::try_from(max).unwrap_or(0),
        None => defaults.max_concurrent,
    };
    let settings = WorkflowSettings {
        max_concurrent,
        budget,
        selector: body.selector.unwrap_or(defaults.selector),
        evaluate: body.evaluate,
        threading: body.threading.unwrap_or(defaults.threading),
        on_failure: body.on_failure.unwrap_or(defaults.on_failure),
        planner: body.planner,
        ..defaults
    };
    Ok(NewWorkflow { description, settings, tasks })
}

impl IntoView<DryRunView> for DryRun {
    fn into_view(self) -> DryRunView {
        let dry_run = self;
        let layer = |tasks: Vec<DryRunTask>| tasks.into_iter().map(IntoView::into_view).collect();
        DryRunView {
            dry_run: true,
            planner: dry_run.planner,
            layers: dry_run.layers.into_iter().map(layer).collect(),
            first: dry_run.startable,
        }
    }
}

impl IntoView<DryRunTaskView> for DryRunTask {
    fn into_view(self) -> DryRunTaskView {
        let dry_run = self;
        DryRunTaskView {
            key: dry_run.task.key,
            title: dry_run.task.title,
            kind: dry_run.task.kind,
            priority: dry_run.task.priority,
            blocked_by: dry_run.blocked_by,
            agent: dry_run.agent,
            reason: dry_run.reason,
            clear: dry_run.clear,
        }
    }
}
