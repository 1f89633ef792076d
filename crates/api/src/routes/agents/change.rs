//! Creates, changes and deletes agents.

use axum::extract::State;
use emergent_executor::agents::UnchangedTrigger;

use super::read::with_warnings;
use crate::{
    App,
    auth::AsActor,
    extract::{AgentPath, Json},
    response::{Envelope, Result, created, ok},
    views::agent::{AgentView, CreateAgent, UpdateAgent},
};

/// Creates an agent. The tools and agents it names must exist; the error for a misspelt name suggests
/// the nearest one.
#[utoipa::path(
    post, path = "/api/admin/agents", tag = "agents", operation_id = "createAgent",
    request_body = CreateAgent,
    responses((status = 201, description = "The agent", body = Envelope<AgentView>)),
)]
pub(super) async fn create(
    State(app): State<App>,
    AsActor(actor): AsActor,
    Json(body): Json<CreateAgent>,
) -> Result<AgentView> {
    let agent = app.executor.create_agent(actor, body.into()).await?;
    created(with_warnings(&app, actor.project, agent).await)
}

/// Changes an agent. Active runs keep the version they started with. A change without effect creates no
/// version. A request that names `trigger` activates its schedule again if that was suspended.
#[utoipa::path(
    patch, path = "/api/admin/agents/{agentId}", tag = "agents", operation_id = "updateAgent",
    params(("agentId" = String, Path, description = "The id or the name of an agent")), request_body = UpdateAgent,
    responses((status = 200, description = "The changed agent", body = Envelope<AgentView>)),
)]
pub(super) async fn update(
    State(app): State<App>,
    AsActor(actor): AsActor,
    AgentPath(agent): AgentPath,
    Json(body): Json<UpdateAgent>,
) -> Result<AgentView> {
    let expected = body.expected_version;
    let trigger = match body.trigger {
        Some(Some(_)) => UnchangedTrigger::Reactivate,
        _ => UnchangedTrigger::Keep,
    };
    let change = move |before| body.apply_to(before);
    let changed = app.executor.update_agent_with(actor, agent, expected, trigger, change).await?;
    ok(with_warnings(&app, actor.project, changed).await)
}

/// Deletes an agent. Its runs stay readable, and queued runs still start. An agent that a product's job
/// starts cannot be deleted while the job exists.
#[utoipa::path(
    delete, path = "/api/admin/agents/{agentId}", tag = "agents", operation_id = "deleteAgent",
    params(("agentId" = String, Path, description = "The id or the name of an agent")),
    responses((status = 200, description = "The deleted agent", body = Envelope<AgentView>)),
)]
pub(super) async fn delete(
    State(app): State<App>,
    AsActor(actor): AsActor,
    AgentPath(agent): AgentPath,
) -> Result<AgentView> {
    ok(app.executor.delete_agent(actor, agent).await?)
}
