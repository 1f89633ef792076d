//! Starts a run of an agent.

use axum::extract::State;

use crate::{
    App,
    auth::AsActor,
    extract::{AgentPath, Json},
    response::{Envelope, Result, accepted},
    views::run::{StartedRun, TriggerRun, start_options},
};

/// Starts an agent and returns at once; follow the run on its `events`. An internal agent is refused,
/// because only other agents can start it.
#[utoipa::path(
    post, path = "/api/admin/agents/{agentId}/trigger", tag = "agents", operation_id = "triggerAgent",
    params(("agentId" = String, Path, description = "The id or the name of an agent")), request_body = TriggerRun,
    responses((status = 202, description = "The run: running if this server has a free slot, queued otherwise", body = Envelope<StartedRun>)),
)]
pub(super) async fn trigger(
    State(app): State<App>,
    AsActor(actor): AsActor,
    AgentPath(agent): AgentPath,
    Json(body): Json<TriggerRun>,
) -> Result<StartedRun> {
    accepted(app.executor.trigger(actor, agent, start_options(body)?).await?)
}
