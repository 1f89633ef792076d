//! Cancels and resumes a run, and reverts its changes of the graph.

use axum::extract::State;
use emergent_domain::ids::RunId;

use super::{get_agent_run, get_changeable_run};
use crate::{
    App,
    auth::{AsActor, Caller},
    extract::{AgentRef, OptionalJson, Path},
    response::{Envelope, Result, accepted, ok},
    views::{
        revert::{RevertRun, RevertView, revert_options},
        run::{ResumeRun, StartedRun},
    },
};

/// Cancels a run and all its active descendants. The run stops before its next model or tool call, or
/// in the middle of a model's answer. Without `admin:read`, only runs that this token started are found.
#[utoipa::path(
    post, path = "/api/admin/agents/{agentId}/runs/{runId}/cancel", tag = "runs", operation_id = "cancelRun",
    params(("agentId" = String, Path, description = "The id or the name of an agent"), ("runId" = Uuid, Path)),
    responses((status = 200, description = "The run, cancelled", body = Envelope<StartedRun>)),
)]
pub(super) async fn cancel(
    State(app): State<App>,
    caller: Caller,
    AsActor(actor): AsActor,
    Path((agent, run)): Path<(AgentRef, RunId)>,
) -> Result<StartedRun> {
    get_changeable_run(&app, &caller, actor.project, &agent, run).await?;
    ok(app.executor.cancel(actor, run).await?)
}

/// Resumes a paused run as a new run with the same conversation. The step count continues, and the run
/// gets its full number of steps again.
#[utoipa::path(
    post, path = "/api/admin/agents/{agentId}/runs/{runId}/resume", tag = "runs", operation_id = "resumeRun",
    params(("agentId" = String, Path, description = "The id or the name of an agent"), ("runId" = Uuid, Path)), request_body = Option<ResumeRun>,
    responses((status = 202, description = "The new run", body = Envelope<StartedRun>)),
)]
pub(super) async fn resume(
    State(app): State<App>,
    caller: Caller,
    AsActor(actor): AsActor,
    Path((agent, run)): Path<(AgentRef, RunId)>,
    OptionalJson(body): OptionalJson<ResumeRun>,
) -> Result<StartedRun> {
    get_changeable_run(&app, &caller, actor.project, &agent, run).await?;
    accepted(app.executor.resume(actor, run, body.input).await?)
}

/// Reverts what a run wrote to the graph; with `tree`, also what the runs below it wrote. Entities that were
/// changed since are reported, not overwritten. With `dryRun`, nothing is changed.
#[utoipa::path(
    post, path = "/api/admin/agents/{agentId}/runs/{runId}/revert", tag = "runs", operation_id = "revertRun",
    params(("agentId" = String, Path, description = "The id or the name of an agent"), ("runId" = Uuid, Path)), request_body = Option<RevertRun>,
    responses((status = 200, description = "What was reverted, and what was not", body = Envelope<RevertView>)),
)]
pub(super) async fn revert(
    State(app): State<App>,
    AsActor(actor): AsActor,
    Path((agent, run)): Path<(AgentRef, RunId)>,
    OptionalJson(body): OptionalJson<RevertRun>,
) -> Result<RevertView> {
    get_agent_run(&app, actor.project, &agent, run).await?;
    ok(app.executor.revert(actor, run, revert_options(body)).await?)
}
