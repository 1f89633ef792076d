//! Lists and returns agents.

use axum::extract::State;
use emergent_domain::{agent::Agent, cursor::ResultPage, ids::ProjectId};

use crate::{
    App,
    auth::InProject,
    extract::{AgentPath, Paging, Query, paged_query},
    response::{Envelope, Result, ok, page},
    views::agent::{AgentVersionView, AgentView},
};

paged_query! {
    pub(super) struct AgentListQuery {
        /// Include internal agents, which only other agents can start.
        #[serde(default)]
        include_internal: bool,
    }
}

/// Lists the project's agents, newest first; internal ones only on request.
#[utoipa::path(
    get, path = "/api/admin/agents", tag = "agents", operation_id = "listAgents", params(AgentListQuery),
    responses((status = 200, description = "A page of agents", body = Envelope<Vec<AgentView>>)),
)]
pub(super) async fn list(
    State(app): State<App>,
    InProject(project): InProject,
    Query(query): Query<AgentListQuery>,
) -> Result<Vec<AgentView>> {
    let requested = query.page()?;
    let ResultPage { items, next } =
        app.executor.list_agents(project, query.include_internal, requested).await?;
    let warnings = app.executor.agent_warnings(project, &items).await;
    let views = items.into_iter().zip(warnings);
    let items =
        views.map(|(agent, warnings)| AgentView::from(agent).with_warnings(warnings)).collect::<Vec<_>>();
    page(ResultPage { items, next })
}

/// Returns one agent, internal or not.
#[utoipa::path(
    get, path = "/api/admin/agents/{agentId}", tag = "agents", operation_id = "getAgent",
    params(("agentId" = String, Path, description = "The id or the name of an agent")),
    responses((status = 200, description = "The agent", body = Envelope<AgentView>)),
)]
pub(super) async fn get(
    State(app): State<App>,
    InProject(project): InProject,
    AgentPath(agent): AgentPath,
) -> Result<AgentView> {
    let agent = app.executor.get_agent(project, agent).await?;
    ok(with_warnings(&app, project, agent).await)
}

/// Returns an agent with what is probably a mistake in it.
pub(super) async fn with_warnings(app: &App, project: ProjectId, agent: Agent) -> AgentView {
    let mut warnings = app.executor.agent_warnings(project, std::slice::from_ref(&agent)).await;
    AgentView::from(agent).with_warnings(warnings.pop().unwrap_or_default())
}

/// Lists all versions of an agent's definition, newest first, also of a deleted agent.
#[utoipa::path(
    get, path = "/api/admin/agents/{agentId}/history", tag = "agents", operation_id = "getAgentHistory",
    params(("agentId" = String, Path, description = "The id or the name of an agent"), Paging),
    responses((status = 200, description = "A page of versions", body = Envelope<Vec<AgentVersionView>>)),
)]
pub(super) async fn history(
    State(app): State<App>,
    InProject(project): InProject,
    AgentPath(agent): AgentPath,
    Query(paging): Query<Paging>,
) -> Result<Vec<AgentVersionView>> {
    page(app.executor.agent_history(project, agent, paging.page()?).await?)
}
