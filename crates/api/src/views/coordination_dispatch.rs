//! How a workflow is started, and what would be done.

use emergent_coordination::{DryRun, DryRunTask, create::NewWorkflow};
use emergent_domain::{
    invalid::Invalid,
    task::{NewTask, Priority},
    workflow::{Limit, OnFailure, SelectorKind, ThreadingKind, WorkflowSettings},
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{
    coordination::{OnFailureView, SelectorView, StartedWorkflow, ThreadingView},
    coordination_budget::parse_limit,
    coordination_task::{DispatchTask, PriorityView},
};
use crate::extract::fields;

/// Work to be done: described, and planned by an agent, or given as tasks.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Dispatch {
    /// What is to be done, in words: the planner makes tasks of it. This, or `tasks`.
    #[schema(min_length = 1, max_length = 100_000)]
    description: Option<String>,
    /// What is to be done, and what has to be done first. This, or `description`.
    #[serde(default, deserialize_with = "fields::optional_map_list")]
    #[schema(min_items = 1, max_items = 1000)]
    tasks: Option<Vec<DispatchTask>>,
    /// Tasks at once, 8 when not said.
    #[schema(minimum = 1, maximum = 1000)]
    max_concurrent: Option<i64>,
    /// What all model calls together may cost, in US dollars.
    #[schema(minimum = 0.000_001, maximum = 1_000_000_000.0)]
    budget_usd: Option<f64>,
    #[schema(minimum = 1)]
    budget_tokens: Option<i64>,
    /// `hybrid` when not said.
    #[schema(value_type = Option<SelectorView>)]
    selector: Option<SelectorKind>,
    /// Whether a model looks at what a task brought before it counts as done.
    #[serde(default)]
    evaluate: bool,
    /// Who chooses what a task is told of the work before it: `rules` when not said.
    #[schema(value_type = Option<ThreadingView>)]
    threading: Option<ThreadingKind>,
    /// `escalate` when not said.
    #[schema(value_type = Option<OnFailureView>)]
    on_failure: Option<OnFailure>,
    /// The agent that plans, `task-planner` when not said.
    planner: Option<String>,
    /// Only tell what would be done.
    #[serde(default)]
    pub dry_run: bool,
}

impl TryFrom<Dispatch> for NewWorkflow {
    type Error = Invalid;
    fn try_from(body: Dispatch) -> Result<Self, Invalid> {
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
        Ok(Self { description, settings, tasks })
    }
}

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

/// How a workflow goes on that waits for a person, or has failed.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ResumeWorkflow {
    /// What the next attempts are told.
    #[schema(min_length = 1)]
    pub note: Option<String>,
    /// A new limit in US dollars. What is given here takes the place of the whole budget.
    #[schema(minimum = 0.000_001, maximum = 1_000_000_000.0)]
    budget_usd: Option<f64>,
    #[schema(minimum = 1)]
    budget_tokens: Option<i64>,
}

impl ResumeWorkflow {
    /// The new budget, if one was given.
    pub(crate) fn budget(&self) -> Result<Option<Limit>, Invalid> {
        let limit = parse_limit(self.budget_usd, "budgetUsd", self.budget_tokens, "budgetTokens")?;
        Ok(Some(limit).filter(|limit| !limit.is_unlimited()))
    }
}

/// What would be done: every task, each layer waiting for those before it.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = CheckedWorkflow)]
pub(crate) struct DryRunView {
    /// Always true: nothing was started.
    dry_run: bool,
    /// Who would make the tasks; null when they were given.
    planner: Option<String>,
    layers: Vec<Vec<DryRunTaskView>>,
    /// Keys of the tasks that would start at once, in order.
    first: Vec<String>,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = CheckedTask)]
pub(crate) struct DryRunTaskView {
    key: String,
    title: String,
    kind: String,
    #[schema(value_type = PriorityView)]
    priority: Priority,
    blocked_by: Vec<String>,
    /// Who would do it by the rules; null when they know nobody.
    agent: Option<String>,
    /// Why that one.
    reason: String,
    /// Whether the rules leave no doubt; where they do, a model may be asked.
    clear: bool,
}

impl From<DryRun> for DryRunView {
    fn from(checked: DryRun) -> Self {
        let layer = |tasks: Vec<DryRunTask>| tasks.into_iter().map(Into::into).collect();
        Self {
            dry_run: true,
            planner: checked.planner,
            layers: checked.layers.into_iter().map(layer).collect(),
            first: checked.startable,
        }
    }
}

impl From<DryRunTask> for DryRunTaskView {
    fn from(checked: DryRunTask) -> Self {
        Self {
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

/// A workflow that was started, or what would be.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
pub(crate) enum DispatchResponse {
    Started(StartedWorkflow),
    Checked(DryRunView),
}
