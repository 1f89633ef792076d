//! Counts runs, and cancels or resumes many of them.

use std::time::Duration;

use axum::{Extension, extract::State};
use emergent_domain::{ids::RunId, invalid::Invalid, time::Timestamp, token::Scope};
use emergent_executor::bulk::BulkSelection;
use serde::Deserialize;
use utoipa::IntoParams;

use super::{list::run_filter, started_by_only};
use crate::{
    ApiError, App,
    auth::{AsActor, Caller, InProject},
    extract::{Json, Query},
    idempotency::AcceptedRuns,
    response::{Envelope, Result, ok},
    views::run_bulk::{BulkRuns, BulkRunsView, RunStatsView, bulk_action, bulk_view, run_stats},
};

/// The time that is counted without `since`.
const DEFAULT_RANGE: Duration = Duration::from_secs(24 * 3_600);
/// The longest time that is counted.
const MAX_RANGE: Duration = Duration::from_secs(31 * 24 * 3_600);

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct RunStatsQuery {
    /// Runs that were created at this time or later; 24 hours before `until` when absent.
    #[param(value_type = Option<String>, format = DateTime)]
    since: Option<Timestamp>,
    /// Runs that were created before this time; now when absent. At most 31 days after `since`.
    #[param(value_type = Option<String>, format = DateTime)]
    until: Option<Timestamp>,
}

/// Counts the runs of a time by status, agent and hour, and those that have not ended, of any time.
#[utoipa::path(
    get, path = "/api/admin/runs/stats", tag = "runs", operation_id = "countRuns", params(RunStatsQuery),
    responses((status = 200, description = "The counts", body = Envelope<RunStatsView>)),
)]
pub(super) async fn stats(
    State(app): State<App>,
    InProject(project): InProject,
    Query(query): Query<RunStatsQuery>,
) -> Result<RunStatsView> {
    let until = query.until.unwrap_or_else(|| app.graph.clock().now() + Duration::from_micros(1));
    let since = query.since.unwrap_or(until - DEFAULT_RANGE);
    if since >= until {
        return Err(Invalid::new("since", "must be earlier than `until`").into());
    }
    if until.since(since) > MAX_RANGE {
        return Err(Invalid::new("since", "must be at most 31 days before `until`").into());
    }
    ok(run_stats(since, until, app.executor.run_stats(project, since, until).await?))
}

/// Cancels or resumes many runs: those with these ids, or those that match a filter, 1000 at most. Each run is
/// changed by itself, and the response says of each what happened. With `dryRun`, nothing is changed. A filter needs
/// `admin:read` as well. Without that scope, only runs that this token started are found, and the response does not
/// name the agents and the statuses of the runs.
#[utoipa::path(
    post, path = "/api/admin/runs/bulk", tag = "runs", operation_id = "changeRuns", request_body = BulkRuns,
    responses((status = 200, description = "What happened to each run", body = Envelope<BulkRunsView>)),
)]
pub(super) async fn change(
    State(app): State<App>,
    caller: Caller,
    AsActor(actor): AsActor,
    accepted: Option<Extension<AcceptedRuns>>,
    Json(body): Json<BulkRuns>,
) -> Result<BulkRunsView> {
    let BulkRuns { action, filter, ids, dry_run } = body;
    if filter.is_some() {
        // Which runs match tells what is in them.
        caller.require_scope(Scope::AdminRead)?;
    }
    let started_by = started_by_only(&caller);
    let selection = match (filter, ids) {
        (Some(filter), None) => {
            BulkSelection::Filter(run_filter(&app, actor.project, filter, "filter.").await?)
        }
        (None, Some(ids)) => BulkSelection::Ids(ids.into_iter().map(RunId).collect()),
        (None, None) => return Err(ApiError::invalid("filter", "is required, unless `ids` names the runs")),
        (Some(_), Some(_)) => {
            return Err(ApiError::invalid("ids", "must be absent with `filter`: name the runs in one way"));
        }
    };
    let selection = match accepted {
        Some(Extension(AcceptedRuns(runs))) => BulkSelection::Accepted(runs),
        None => selection,
    };
    let result = app.executor.change_runs(actor, bulk_action(action), selection, started_by, dry_run).await?;
    let mut view = bulk_view(action, dry_run, result);
    if started_by.is_some() {
        leave_out_details(&mut view);
    }
    ok(view)
}

/// Leaves out what only a token that may read runs is told. What became of a run stays, as when it is changed by
/// itself.
fn leave_out_details(view: &mut BulkRunsView) {
    for run in &mut view.runs {
        (run.agent_name, run.status) = (None, None);
        if view.dry_run {
            run.message = None;
        }
    }
}
