//! Requests to start and resume a workflow, and the result of a dry run.

use emergent_domain::{
    filter::Filter,
    invalid::Invalid,
    object_ref::ObjectRef,
    task::Priority,
    workflow::{Limit, OnFailure, SelectorKind, ThreadingKind},
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    agent_parts::ModelView, budget::parse_limit, fields, schema, search::FilterView, task::DispatchTask,
    workflow::StartedWorkflow,
};

/// Work to be done: described, and planned by an agent; given as tasks; or tasks that are in the graph already.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Dispatch {
    /// What is to be done, in words: the planner makes tasks of it. Exactly one of `description`, `tasks`, `taskIds`,
    /// `rootTaskId` and `query` is given.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 100_000)]
    pub description: Option<String>,
    /// What is to be done, and what has to be done first.
    #[serde(
        default,
        deserialize_with = "fields::optional_map_list",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(min_items = 1, max_items = 1000)]
    pub tasks: Option<Vec<DispatchTask>>,
    /// Tasks of the graph that belong to no workflow, or to a cancelled one: their ids, or `SpecTask/key`. Every task
    /// that `blocks` joins with them is done as well.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<String>>, min_items = 1, max_items = 1000)]
    pub task_ids: Option<Vec<ObjectRef>>,
    /// A task of the graph, with every task that `blocks` joins with it: its id, or `SpecTask/key`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub root_task_id: Option<ObjectRef>,
    /// The pending tasks of the graph that belong to no workflow and match.
    #[serde(default, deserialize_with = "fields::optional_map", skip_serializing_if = "Option::is_none")]
    pub query: Option<TaskQuery>,
    /// Tasks at once, 8 when not said.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 1000)]
    pub max_concurrent: Option<i64>,
    /// What all model calls together may cost, in US dollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0.000_001, maximum = 1_000_000_000.0)]
    pub budget_usd: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub budget_tokens: Option<i64>,
    /// `hybrid` when not said.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Selector>)]
    pub selector: Option<SelectorKind>,
    /// Whether a model looks at what a task brought before it counts as done.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub evaluate: bool,
    /// Who chooses what a task is told of the work before it: `rules` when not said.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Threading>)]
    pub threading: Option<ThreadingKind>,
    /// `escalate` when not said.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::OnFailure>)]
    pub on_failure: Option<OnFailure>,
    /// The agent that plans, `task-planner` when not said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub planner: Option<String>,
    /// The model of every run of the workflow, instead of those of the agents' definitions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::ModelChoice>)]
    pub model: Option<ModelView>,
    /// Only tell what would be done.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
}

/// Which tasks of the graph are meant. An empty query finds all pending tasks that belong to no workflow.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TaskQuery {
    /// All of these labels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 64)]
    pub labels: Vec<String>,
    /// All of these conditions on properties, such as `kind`.
    #[serde(default, deserialize_with = "fields::map_list", skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<FilterView>, max_items = 32)]
    pub filters: Vec<Filter>,
}

/// How a workflow goes on that waits for a person, or has failed.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResumeWorkflow {
    /// What the next attempts are told.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1)]
    pub note: Option<String>,
    /// A new limit in US dollars. What is given here takes the place of the whole budget.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0.000_001, maximum = 1_000_000_000.0)]
    pub budget_usd: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub budget_tokens: Option<i64>,
}

impl ResumeWorkflow {
    /// Returns the new budget; `None` if the request has none.
    pub fn budget(&self) -> Result<Option<Limit>, Invalid> {
        let limit = parse_limit(self.budget_usd, "budgetUsd", self.budget_tokens, "budgetTokens")?;
        Ok(Some(limit).filter(|limit| !limit.is_unlimited()))
    }
}

/// What would be done: every task, each layer waiting for those before it.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = CheckedWorkflow)]
pub struct DryRunView {
    /// Always true: nothing was started.
    pub dry_run: bool,
    /// Who would make the tasks; null when they were given.
    pub planner: Option<String>,
    /// The model that would choose agents and evaluate results, as `provider/name`; null when the rules alone decide.
    #[serde(default)]
    pub judge: Option<String>,
    pub layers: Vec<Vec<DryRunTaskView>>,
    /// Keys of the tasks that would start at once, in order.
    pub first: Vec<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = CheckedTask)]
pub struct DryRunTaskView {
    pub key: String,
    pub title: String,
    pub kind: String,
    #[schema(value_type = schema::TaskPriority)]
    pub priority: Priority,
    pub blocked_by: Vec<String>,
    /// Who would do it by the rules; null when they know nobody.
    pub agent: Option<String>,
    /// Why that one.
    pub reason: String,
    /// Whether the rules leave no doubt; where they do, a model may be asked.
    pub clear: bool,
    /// What of the review that the task requires cannot be held as asked, such as its kind; null when all of it can.
    #[serde(default)]
    pub review_note: Option<String>,
}

/// A workflow that was started, or what would be.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum DispatchResponse {
    Started(StartedWorkflow),
    Checked(DryRunView),
}
