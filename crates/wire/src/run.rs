//! Requests to start a run, lists of runs, and trees of child runs. A single run is in `run_detail`.

use emergent_domain::{
    approval::ApprovalKind,
    run::{Origin, Reason, Run, RunStatus},
    time::Timestamp,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::{agent_parts::ModelView, schema};

/// What an agent is started with.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TriggerRun {
    /// What to do, as the agent reads it.
    #[schema(min_length = 1)]
    pub input: String,
    /// Anything else it should know; shown to the agent after the input.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<Value>,
    /// Instead of the definition's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::ModelChoice>)]
    pub model: Option<ModelView>,
    /// Instead of the definition's.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 500)]
    pub max_steps: Option<i64>,
    /// Instead of the definition's.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub timeout_seconds: Option<i64>,
    /// The most that the run and the runs below it may cost.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(exclusive_minimum = 0)]
    pub max_cost_usd: Option<f64>,
    /// The most tokens that the run and the runs below it may use.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub max_total_tokens: Option<i64>,
}

/// How a paused run goes on.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResumeRun {
    /// What to tell the agent; without it, it is told to go on.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1)]
    pub input: Option<String>,
}

/// A run that was started, or asked to end.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct StartedRun {
    pub run_id: Uuid,
    #[schema(value_type = schema::RunStatus)]
    pub status: RunStatus,
}

impl From<Run> for StartedRun {
    fn from(run: Run) -> Self {
        Self { run_id: run.id.0, status: run.status }
    }
}

/// The final text, or what was known when the run ended without one.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = RunSummary)]
pub struct SummaryView {
    pub text: String,
}

impl SummaryView {
    /// Returns `None` for a run without a text.
    pub fn from_text(text: Option<String>) -> Option<Self> {
        text.filter(|text| !text.is_empty()).map(|text| Self { text })
    }
}

/// What every view of a run begins with.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = RunFacts)]
pub struct RunSummaryView {
    pub id: Uuid,
    pub agent_id: Uuid,
    pub agent_name: String,
    /// The run that spawned it, or whose flow it is a part of.
    pub parent_run_id: Option<Uuid>,
    #[schema(value_type = schema::RunStatus)]
    pub status: RunStatus,
    #[schema(value_type = Option<schema::Reason>)]
    pub reason: Option<Reason>,
    #[schema(value_type = schema::Origin)]
    pub origin: Origin,
    /// 0 at the top.
    pub depth: i64,
    /// As `provider/name`.
    pub model: String,
    /// Present, and true, when a script answered instead of a model.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub rehearsal: bool,
    /// Over the whole resume chain.
    pub step_count: i64,
    pub max_steps: Option<i64>,
    pub timeout_seconds: i64,
    /// The most that it and the runs below it may cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_cost_usd: Option<f64>,
    /// The most tokens that it and the runs below it may use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_total_tokens: Option<i64>,
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    #[schema(value_type = Option<String>, format = DateTime)]
    pub started_at: Option<Timestamp>,
    #[schema(value_type = Option<String>, format = DateTime)]
    pub completed_at: Option<Timestamp>,
    /// What a `waiting` run waits for, itself or through its children; absent otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::ApprovalKind>)]
    pub waiting_for: Option<ApprovalKind>,
    /// Since when it waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub waiting_since: Option<Timestamp>,
    /// From start to end; null until then.
    pub duration_ms: Option<i64>,
    pub summary: Option<SummaryView>,
    /// The final answer as a value that matches the output schema; absent without such a schema, and unless the run
    /// completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
    pub error_message: Option<String>,
    pub resumed_from: Option<Uuid>,
    /// The schedule it is a run of.
    pub schedule_id: Option<Uuid>,
    /// The run that wrote what this one, or what started it, was triggered by.
    pub caused_by_run: Option<Uuid>,
    /// The workflow that it belongs to, itself or through the run that started it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow_id: Option<Uuid>,
    /// The task of the workflow that it works on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<Uuid>,
    /// The conversation in which it answers a message; absent if that was deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation_id: Option<Uuid>,
    /// The beginning of its input, on one line; absent if it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 200)]
    pub input_preview: Option<String>,
}

/// A run in a list.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Run)]
pub struct RunView {
    #[serde(flatten)]
    pub facts: RunSummaryView,
    pub token_usage: TokenSums,
    pub child_run_count: i64,
}

/// Of this run alone: its children have their own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TokenSums {
    pub total_input: i64,
    pub total_output: i64,
    /// In US dollars; null when nobody knows the price.
    pub total_cost: Option<f64>,
}

/// A run and what it spawned.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = RunTree)]
pub struct RunTreeView {
    pub id: Uuid,
    pub agent_name: String,
    #[schema(value_type = schema::RunStatus)]
    pub status: RunStatus,
    pub step_count: i64,
    pub duration_ms: Option<i64>,
    /// The beginning of its input, on one line; absent if it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 200)]
    pub input_preview: Option<String>,
    /// The run that goes on where this one paused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resumed_as: Option<Uuid>,
    /// Present, and true, when some children are not shown: the tree is too deep or too large.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    /// As they were started.
    #[schema(no_recursion)]
    pub children: Vec<RunTreeView>,
}
