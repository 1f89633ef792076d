//! Runs: as they are started, listed, and drawn as a tree. One at a glance is in `run_detail`.

use emergent_domain::{
    agent::{AgentDefinition, AvailableNames},
    invalid::Invalid,
    run::{Origin, Reason, Run, RunStatus},
    time::Timestamp,
};
use emergent_executor::{
    StartOptions,
    history::{RunSummary, RunTree, TokenTotals, duration_ms},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;
use uuid::Uuid;

use super::agent_parts::ModelView;
use crate::extract::fields;

/// What an agent is started with.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct TriggerRun {
    /// What to do, as the agent reads it.
    #[schema(min_length = 1)]
    input: String,
    /// Anything else it should know; shown to the agent after the input.
    context: Option<Value>,
    /// Instead of the definition's.
    #[serde(default, deserialize_with = "fields::optional_map")]
    model: Option<ModelView>,
    /// Instead of the definition's.
    #[schema(minimum = 1)]
    max_steps: Option<i64>,
    /// Instead of the definition's.
    #[schema(minimum = 1)]
    timeout_seconds: Option<i64>,
}

impl TryFrom<TriggerRun> for StartOptions {
    type Error = Invalid;
    /// A model named here keeps the rules of one in a definition.
    fn try_from(body: TriggerRun) -> Result<Self, Invalid> {
        let definition = AgentDefinition { model: body.model.map(Into::into), ..AgentDefinition::new("any") };
        definition.check(&AvailableNames::default())?;
        Ok(Self {
            input: body.input,
            context: body.context,
            model: definition.model,
            max_steps: body.max_steps,
            timeout_seconds: body.timeout_seconds,
        })
    }
}

/// How a paused run goes on.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ResumeRun {
    /// What to tell the agent; without it, it is told to go on.
    #[schema(min_length = 1)]
    pub input: Option<String>,
}

/// A run that was started, or asked to end.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StartedRun {
    run_id: Uuid,
    #[schema(value_type = RunStatusView)]
    status: RunStatus,
}

impl From<Run> for StartedRun {
    fn from(run: Run) -> Self {
        Self { run_id: run.id.0, status: run.status }
    }
}

#[derive(ToSchema)]
#[schema(as = RunStatus, rename_all = "lowercase")]
#[allow(dead_code, reason = "describes the domain's type")]
pub(crate) enum RunStatusView {
    Queued,
    Running,
    Completed,
    Failed,
    Paused,
    Cancelled,
}

/// Why a run is paused or failed.
#[derive(ToSchema)]
#[schema(as = Reason, rename_all = "snake_case")]
#[allow(dead_code, reason = "describes the domain's type")]
pub(crate) enum ReasonView {
    StepLimit,
    Timeout,
    Error,
    DoomLoop,
    Budget,
    Provider,
    Definition,
    Flow,
}

/// What started a run.
#[derive(ToSchema)]
#[schema(as = Origin, rename_all = "lowercase")]
#[allow(dead_code, reason = "describes the domain's type")]
pub(crate) enum OriginView {
    Trigger,
    Schedule,
    Event,
    Spawn,
    Flow,
    Dispatch,
    Chat,
    Invoke,
    Resume,
}

/// The final text, or what was known when the run ended without one.
#[derive(Serialize, ToSchema)]
#[schema(as = RunSummary)]
pub(crate) struct SummaryView {
    text: String,
}

impl SummaryView {
    pub(crate) fn from_text(text: Option<String>) -> Option<Self> {
        text.filter(|text| !text.is_empty()).map(|text| Self { text })
    }
}

/// What every view of a run begins with.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = RunFacts)]
pub(crate) struct RunSummaryView {
    id: Uuid,
    agent_id: Uuid,
    agent_name: String,
    /// The run that spawned it, or whose flow it is a part of.
    parent_run_id: Option<Uuid>,
    #[schema(value_type = RunStatusView)]
    status: RunStatus,
    #[schema(value_type = Option<ReasonView>)]
    reason: Option<Reason>,
    #[schema(value_type = OriginView)]
    origin: Origin,
    /// 0 at the top.
    depth: i64,
    /// As `provider/name`.
    model: String,
    /// Present, and true, when a script answered instead of a model.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    rehearsal: bool,
    /// Over the whole resume chain.
    step_count: i64,
    max_steps: Option<i64>,
    timeout_seconds: i64,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    #[schema(value_type = Option<String>, format = DateTime)]
    started_at: Option<Timestamp>,
    #[schema(value_type = Option<String>, format = DateTime)]
    completed_at: Option<Timestamp>,
    /// From start to end; null until then.
    duration_ms: Option<i64>,
    summary: Option<SummaryView>,
    error_message: Option<String>,
    resumed_from: Option<Uuid>,
    /// The schedule it is a run of.
    schedule_id: Option<Uuid>,
    /// The run that wrote what this one, or what started it, was triggered by.
    caused_by_run: Option<Uuid>,
}

impl From<Run> for RunSummaryView {
    fn from(run: Run) -> Self {
        Self {
            rehearsal: run.is_rehearsal(),
            duration_ms: duration_ms(run.started_at, run.completed_at),
            id: run.id.0,
            agent_id: run.agent.0,
            agent_name: run.agent_name,
            parent_run_id: run.parent.map(Into::into),
            status: run.status,
            reason: run.reason,
            origin: run.origin,
            depth: run.depth,
            model: run.model.to_string(),
            step_count: run.step_count,
            max_steps: run.max_steps,
            timeout_seconds: run.timeout_seconds,
            created_at: run.created_at,
            started_at: run.started_at,
            completed_at: run.completed_at,
            summary: SummaryView::from_text(run.summary),
            error_message: run.error,
            resumed_from: run.resumed_from.map(Into::into),
            schedule_id: run.schedule.map(Into::into),
            caused_by_run: run.cause.map(Into::into),
        }
    }
}

/// A run in a list.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Run)]
pub(crate) struct RunView {
    #[serde(flatten)]
    facts: RunSummaryView,
    token_usage: TokenSums,
    child_run_count: i64,
}

/// Of this run alone: its children have their own.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TokenSums {
    total_input: i64,
    total_output: i64,
    /// In US dollars; null when nobody knows the price.
    total_cost: Option<f64>,
}

impl From<TokenTotals> for TokenSums {
    fn from(sums: TokenTotals) -> Self {
        Self { total_input: sums.input, total_output: sums.output, total_cost: sums.cost }
    }
}

impl From<RunSummary> for RunView {
    fn from(summary: RunSummary) -> Self {
        Self {
            facts: summary.run.into(),
            token_usage: summary.tokens.into(),
            child_run_count: summary.child_count,
        }
    }
}

/// A run and what it spawned.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = RunTree)]
pub(crate) struct RunTreeView {
    id: Uuid,
    agent_name: String,
    #[schema(value_type = RunStatusView)]
    status: RunStatus,
    step_count: i64,
    duration_ms: Option<i64>,
    /// The run that goes on where this one paused.
    #[serde(skip_serializing_if = "Option::is_none")]
    resumed_as: Option<Uuid>,
    /// Present, and true, when some children are not shown: the tree is too deep or too large.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    truncated: bool,
    /// As they were started.
    #[schema(no_recursion)]
    children: Vec<RunTreeView>,
}

impl From<RunTree> for RunTreeView {
    fn from(tree: RunTree) -> Self {
        Self {
            id: tree.id.0,
            agent_name: tree.agent_name,
            status: tree.status,
            step_count: tree.step_count,
            duration_ms: tree.duration_ms,
            resumed_as: tree.resumed_as.map(Into::into),
            truncated: tree.truncated,
            children: tree.children.into_iter().map(Into::into).collect(),
        }
    }
}
