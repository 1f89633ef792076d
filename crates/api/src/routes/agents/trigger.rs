use axum::extract::State;
use emergent_domain::ids::AgentId;

use crate::{
    App,
    answer::{Envelope, Result, accepted},
    auth::Acting,
    extract::{Json, Path},
    views::run::{StartedRun, TriggerRun},
};

/// Starts an agent and returns at once; follow the run on its `events`. An internal agent is
/// refused: only other agents start it.
#[utoipa::path(
    post, path = "/api/admin/agents/{agentId}/trigger", tag = "agents", operation_id = "triggerAgent",
    params(("agentId" = Uuid, Path)), request_body = TriggerRun,
    responses((status = 202, description = "The run, which waits for its turn", body = Envelope<StartedRun>)),
)]
pub(super) async fn trigger(
    State(app): State<App>,
    Acting(actor): Acting,
    Path(agent): Path<AgentId>,
    Json(body): Json<TriggerRun>,
) -> Result<StartedRun> {
    accepted(app.executor.trigger(actor, agent, body.try_into()?).await?)
}
