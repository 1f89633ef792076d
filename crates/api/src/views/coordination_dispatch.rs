//! Converts a request to start a workflow, and the result of a dry run.

use emergent_coordination::{DryRun, DryRunTask, ExistingTasks, TaskSelection, create::NewWorkflow};
use emergent_domain::{
    ids::ObjectId, invalid::Invalid, object_ref::ObjectRef, task::NewTask, workflow::WorkflowSettings,
};
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

/// What a request starts.
pub(crate) enum DispatchRequest {
    New(NewWorkflow),
    /// Tasks that are in the graph already.
    Existing(ExistingTasks),
}

/// The fields that say what is to be done, of which exactly one is given.
const SOURCES: [&str; 5] = ["description", "tasks", "taskIds", "rootTaskId", "query"];

/// Returns the name of the one field that says what is to be done.
fn source_field(body: &Dispatch) -> Result<&'static str, Invalid> {
    let given = [
        body.description.is_some(),
        body.tasks.is_some(),
        body.task_ids.is_some(),
        body.root_task_id.is_some(),
        body.query.is_some(),
    ];
    let fields: Vec<&str> =
        SOURCES.into_iter().zip(given).filter(|(_, given)| *given).map(|(field, _)| field).collect();
    match fields.as_slice() {
        [field] => Ok(field),
        [] => Err(Invalid::new(
            "description",
            "is required, or `tasks`, or tasks of the graph as `taskIds`, `rootTaskId` or `query`",
        )),
        [first, .., last] => Err(Invalid::new(*last, format!("is given beside `{first}`: give one of them"))),
    }
}

/// The tasks of the graph that a request names.
pub(crate) fn named_tasks(body: &Dispatch) -> Vec<ObjectRef> {
    body.task_ids.iter().flatten().chain(&body.root_task_id).cloned().collect()
}

/// Converts the request. `named` has the ids of its [`named_tasks`].
pub(crate) fn dispatch_request(body: Dispatch, named: Vec<ObjectId>) -> Result<DispatchRequest, Invalid> {
    source_field(&body)?;
    let selection = match (&body.task_ids, named.first(), &body.query) {
        (Some(_), ..) => Some(TaskSelection::Ids(named)),
        (None, Some(root), _) => Some(TaskSelection::Root(*root)),
        (_, _, Some(TaskQuery { labels, filters })) => {
            Some(TaskSelection::Query { labels: labels.clone(), filters: filters.clone() })
        }
        _ => None,
    };
    let Some(selection) = selection else { return Ok(DispatchRequest::New(new_workflow(body)?)) };
    if body.planner.is_some() {
        return Err(Invalid::new("planner", "is only for `description`: these tasks are there already"));
    }
    let settings = workflow_settings(&body)?;
    Ok(DispatchRequest::Existing(ExistingTasks { selection, settings }))
}

/// Converts a request with `description` or `tasks`.
fn new_workflow(body: Dispatch) -> Result<NewWorkflow, Invalid> {
    let settings = workflow_settings(&body)?;
    let tasks: Option<Vec<NewTask>> = body.tasks.map(|tasks| tasks.into_iter().map(Into::into).collect());
    let (description, tasks) = match tasks {
        Some(tasks) if tasks.is_empty() => return Err(Invalid::new("tasks", "is empty")),
        Some(tasks) => (default_description(&tasks), tasks),
        None => (body.description.unwrap_or_default(), Vec::new()),
    };
    Ok(NewWorkflow { description, settings, tasks })
}

fn workflow_settings(body: &Dispatch) -> Result<WorkflowSettings, Invalid> {
    let budget = parse_limit(body.budget_usd, "budgetUsd", body.budget_tokens, "budgetTokens")?;
    let defaults = WorkflowSettings::default();
    let max_concurrent = match body.max_concurrent {
        // A number out of range becomes 0, which the check of the settings refuses.
        Some(max) => usize::try_from(max).unwrap_or(0),
        None => defaults.max_concurrent,
    };
    Ok(WorkflowSettings {
        max_concurrent,
        budget,
        selector: body.selector.unwrap_or(defaults.selector),
        evaluate: body.evaluate,
        threading: body.threading.unwrap_or(defaults.threading),
        on_failure: body.on_failure.unwrap_or(defaults.on_failure),
        planner: body.planner.clone(),
        model: body.model.clone().map(Into::into),
        ..defaults
    })
}

impl IntoView<DryRunView> for DryRun {
    fn into_view(self) -> DryRunView {
        let dry_run = self;
        let layer = |tasks: Vec<DryRunTask>| tasks.into_iter().map(IntoView::into_view).collect();
        DryRunView {
            dry_run: true,
            planner: dry_run.planner,
            judge: dry_run.judge,
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
            review_note: dry_run.review_note,
        }
    }
}
