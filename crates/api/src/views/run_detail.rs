use std::collections::BTreeMap;

use emergent_domain::run::RunStatus;
use emergent_executor::history::{ChildRun, RunDetail, TokenTotals, ToolCallSummary};
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use super::run::{RunStatusView, RunSummaryView};

/// A run at a glance: everything but what was said.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = RunDetail)]
pub(crate) struct RunDetailView {
    #[serde(flatten)]
    facts: RunSummaryView,
    /// The runs it goes on from, the first one first.
    resume_chain: Vec<Uuid>,
    /// The run that goes on where this one paused.
    resumed_as: Option<Uuid>,
    token_usage: TokenUsage,
    tool_call_summary: ToolCallSummaryView,
    /// As they were started.
    child_runs: Vec<ChildRunView>,
    /// How often it was told that it repeats itself.
    doom_loop_events: i64,
}

/// Of this run alone: its children have their own.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TokenUsage {
    /// Whole prompts, cached or not.
    total_input: i64,
    /// Everything generated, thoughts included.
    total_output: i64,
    /// Of the output.
    total_reasoning: i64,
    /// Of the input.
    cache_read: i64,
    /// Of the input.
    cache_write: i64,
    /// In US dollars; null when nobody knows the price.
    total_cost: Option<f64>,
}

impl From<TokenTotals> for TokenUsage {
    fn from(sums: TokenTotals) -> Self {
        Self {
            total_input: sums.input,
            total_output: sums.output,
            total_reasoning: sums.reasoning,
            cache_read: sums.cache_read,
            cache_write: sums.cache_write,
            total_cost: sums.cost,
        }
    }
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ToolCallSummary)]
pub(crate) struct ToolCallSummaryView {
    total: i64,
    by_tool: BTreeMap<String, ToolUseView>,
    errors: i64,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ToolUse)]
pub(crate) struct ToolUseView {
    count: i64,
    /// Over the calls that are over; null when none is.
    avg_duration_ms: Option<i64>,
}

impl From<ToolCallSummary> for ToolCallSummaryView {
    fn from(summary: ToolCallSummary) -> Self {
        let by_tool = summary.by_tool.into_iter();
        Self {
            total: summary.total,
            by_tool: by_tool
                .map(|one| (one.tool, ToolUseView { count: one.count, avg_duration_ms: one.average_ms }))
                .collect(),
            errors: summary.errors,
        }
    }
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ChildRun)]
pub(crate) struct ChildRunView {
    id: Uuid,
    agent_name: String,
    #[schema(value_type = RunStatusView)]
    status: RunStatus,
    step_count: i64,
    duration_ms: Option<i64>,
}

impl From<ChildRun> for ChildRunView {
    fn from(child: ChildRun) -> Self {
        Self {
            id: child.id.0,
            agent_name: child.agent_name,
            status: child.status,
            step_count: child.step_count,
            duration_ms: child.duration_ms,
        }
    }
}

impl From<RunDetail> for RunDetailView {
    fn from(detail: RunDetail) -> Self {
        Self {
            facts: detail.run.into(),
            resume_chain: detail.resume_chain.into_iter().rev().map(Into::into).collect(),
            resumed_as: detail.resumed_as.map(Into::into),
            token_usage: detail.tokens.into(),
            tool_call_summary: detail.tool_calls.into(),
            child_runs: detail.children.into_iter().map(Into::into).collect(),
            doom_loop_events: detail.loops,
        }
    }
}
