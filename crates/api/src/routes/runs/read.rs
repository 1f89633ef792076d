//! Returns a run, and the tree of its child runs.

use axum::extract::State;
use emergent_domain::ids::RunId;

use super::get_agent_run;
use crate::{
    App,
    auth::InProject,
    extract::{AgentRef, Path},
    response::{Envelope, Result, ok},
    views::{run::RunTreeView, run_detail::RunDetailView},
};

/// Returns a run with its outcome, its cost, the tools it used and its children.
#[utoipa::path(
    get, path = "/api/admin/agents/{agentId}/runs/{runId}", tag = "runs", operation_id = "getRun",
    params(("agentId" = String, Path, description = "The id or the name of an agent"), ("runId" = Uuid, Path)),
    responses((status = 200, description = "The run", body = Envelope<RunDetailView>)),
)]
pub(super) async fn get(
    State(app): State<App>,
    InProject(project): InProject,
    Path((agent, run)): Path<(AgentRef, RunId)>,
) -> Result<RunDetailView> {
    get_agent_run(&app, project, &agent, run).await?;
    ok(app.executor.run_detail(project, run).await?)
}

/// Returns a run like `getRun`, by its id alone.
#[utoipa::path(
    get, path = "/api/admin/runs/{runId}", tag = "runs", operation_id = "getRunById",
    params(("runId" = Uuid, Path)),
    responses((status = 200, description = "The run", body = Envelope<RunDetailView>)),
)]
pub(super) async fn get_by_id(
    State(app): State<App>,
    InProject(project): InProject,
    Path(run): Path<RunId>,
) -> Result<RunDetailView> {
    ok(app.executor.run_detail(project, run).await?)
}

/// Returns a run with all its descendants.
#[utoipa::path(
    get, path = "/api/admin/agents/{agentId}/runs/{runId}/tree", tag = "runs", operation_id = "getRunTree",
    params(("agentId" = String, Path, description = "The id or the name of an agent"), ("runId" = Uuid, Path)),
    responses((status = 200, description = "The tree", body = Envelope<RunTreeView>)),
)]
pub(super) async fn tree(
    State(app): State<App>,
    InProject(project): InProject,
    Path((agent, run)): Path<(AgentRef, RunId)>,
) -> Result<RunTreeView> {
    get_agent_run(&app, project, &agent, run).await?;
    ok(app.executor.run_tree(project, run).await?)
}
