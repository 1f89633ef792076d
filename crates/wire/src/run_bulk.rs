//! Counts of runs, and requests that cancel or resume many runs.

use std::collections::BTreeMap;

use emergent_domain::{
    run::{Origin, Reason, RunStatus},
    time::Timestamp,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::{fields, schema};

/// How many runs were created in a time. Each run is counted with the status that it has now.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = RunStats)]
pub struct RunStatsView {
    #[schema(value_type = String, format = DateTime)]
    pub since: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    pub until: Timestamp,
    pub total: i64,
    /// By status; a status without runs is left out.
    pub by_status: BTreeMap<String, i64>,
    /// The agents with the most runs first, 200 at most.
    pub by_agent: Vec<AgentRunsView>,
    /// Present when there are more agents: how many are left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agents_omitted: Option<i64>,
    /// The oldest hour first; hours without runs are left out.
    pub by_hour: Vec<HourRunsView>,
    /// The runs that have not ended, by status, whenever they were created; a status without runs is left out.
    #[serde(default)]
    pub active: BTreeMap<String, i64>,
}

/// The runs of one agent.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = AgentRuns)]
pub struct AgentRunsView {
    pub agent_id: Uuid,
    pub agent_name: String,
    pub total: i64,
    pub by_status: BTreeMap<String, i64>,
}

/// The runs of one hour.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = HourRuns)]
pub struct HourRunsView {
    /// When the hour began, in UTC.
    #[schema(value_type = String, format = DateTime)]
    pub hour: Timestamp,
    pub total: i64,
    pub by_status: BTreeMap<String, i64>,
}

/// Which runs: those that match all conditions.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[schema(as = RunFilter)]
pub struct RunFilterView {
    /// The id or the name of an agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// One of these statuses, separated by commas, as in the list of runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(
        pattern = "^(queued|running|waiting|completed|success|failed|paused|cancelled)(,(queued|running|waiting|completed|success|failed|paused|cancelled))*$"
    )]
    pub status: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Reason>)]
    pub reason: Option<Reason>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Origin>)]
    pub origin: Option<Origin>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_run_id: Option<Uuid>,
    /// Created at this time or later.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub since: Option<Timestamp>,
    /// Created before this time.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub until: Option<Timestamp>,
    /// True: only runs without a parent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub root: Option<bool>,
    /// A text in the input or the summary.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 200)]
    pub q: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum BulkRunAction {
    Cancel,
    Resume,
}

/// Runs to cancel or to resume: either `ids` or `filter`.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BulkRuns {
    pub action: BulkRunAction,
    /// Of the runs that match, those for which the action is possible, the newest 1000 at most.
    #[serde(default, deserialize_with = "fields::optional_map", skip_serializing_if = "Option::is_none")]
    pub filter: Option<RunFilterView>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_items = 1_000)]
    pub ids: Option<Vec<Uuid>>,
    /// Only say what would happen.
    #[serde(default)]
    pub dry_run: bool,
}

/// What happened to a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = BulkRunOutcome)]
pub enum BulkOutcomeView {
    Cancelled,
    /// `newRunId` is the run that goes on.
    Resumed,
    /// With `dryRun`: it would be changed.
    Possible,
    /// The action is not possible; `message` says why.
    Skipped,
    NotFound,
    /// `message` says why; it may succeed later.
    Failed,
}

/// One run of a request.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = BulkRunItem)]
pub struct BulkRunItemView {
    pub run_id: Uuid,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_name: Option<String>,
    /// The status before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::RunStatus>)]
    pub status: Option<RunStatus>,
    pub outcome: BulkOutcomeView,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_run_id: Option<Uuid>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// What happened to the runs of a request.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = BulkRunsResult)]
pub struct BulkRunsView {
    pub action: BulkRunAction,
    pub dry_run: bool,
    pub runs: Vec<BulkRunItemView>,
    /// True if more runs match than one request changes, or than were searched for a text: repeat the request to
    /// continue.
    pub has_more: bool,
}
