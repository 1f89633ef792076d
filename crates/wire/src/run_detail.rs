//! One run with its token usage, tool calls and child runs.

use std::collections::BTreeMap;

use emergent_domain::{run::RunStatus, run_event::UnavailableServer};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::{run::RunSummaryView, schema};

/// A run at a glance: everything but what was said.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = RunDetail)]
pub struct RunDetailView {
    #[serde(flatten)]
    pub facts: RunSummaryView,
    /// The runs it goes on from, the first one first.
    pub resume_chain: Vec<Uuid>,
    /// The run that goes on where this one paused.
    pub resumed_as: Option<Uuid>,
    pub token_usage: TokenUsage,
    pub tool_call_summary: ToolCallSummaryView,
    /// As they were started.
    pub child_runs: Vec<ChildRunView>,
    /// How often it was told that it repeats itself.
    pub doom_loop_events: i64,
    /// The external servers whose tools its agent names, and that could not be used when it was last
    /// started.
    #[serde(default)]
    pub unavailable_servers: Vec<UnavailableServerView>,
    /// The names in its agent's `tools` that no tool had when it was last started.
    #[serde(default)]
    pub missing_tools: Vec<String>,
}

/// An external server that a run could not use.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = UnavailableServer)]
pub struct UnavailableServerView {
    pub server: String,
    /// Why, as the rest of a sentence that begins with the name of the server.
    #[schema(example = "could not be reached")]
    pub reason: String,
    /// The secret that it needs and the project does not have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing_secret: Option<String>,
}

impl From<UnavailableServer> for UnavailableServerView {
    fn from(unavailable: UnavailableServer) -> Self {
        let UnavailableServer { server, reason, missing_secret } = unavailable;
        Self { server, reason, missing_secret }
    }
}

/// Of this run alone: its children have their own.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TokenUsage {
    /// Whole prompts, cached or not.
    pub total_input: i64,
    /// Everything generated, thoughts included.
    pub total_output: i64,
    /// Of the output.
    pub total_reasoning: i64,
    /// Of the input.
    pub cache_read: i64,
    /// Of the input.
    pub cache_write: i64,
    /// In US dollars; null when nobody knows the price.
    pub total_cost: Option<f64>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ToolCallSummary)]
pub struct ToolCallSummaryView {
    pub total: i64,
    pub by_tool: BTreeMap<String, ToolUseView>,
    pub errors: i64,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ToolUse)]
pub struct ToolUseView {
    pub count: i64,
    /// Over the calls that are over; null when none is.
    pub avg_duration_ms: Option<i64>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ChildRun)]
pub struct ChildRunView {
    pub id: Uuid,
    pub agent_name: String,
    #[schema(value_type = schema::RunStatus)]
    pub status: RunStatus,
    pub step_count: i64,
    pub duration_ms: Option<i64>,
}
