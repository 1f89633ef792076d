//! `/api/admin/agents/{agentId}/runs` and `/api/admin/runs`: past and active runs.

mod bulk;
mod change;
mod conversation;
pub(super) mod events;
mod list;
mod read;
mod writes;

use emergent_domain::{
    ids::{ProjectId, RunId, TokenId},
    run::Run,
    token::Scope::{AdminRead, AdminWrite, AgentsInvoke},
};

use crate::{
    ApiError, App,
    access::Routes,
    auth::Caller,
    endpoint::routes,
    extract::AgentRef,
    idempotency::{answered_later, started_run},
};

pub(super) fn routes() -> Routes {
    Routes::new()
        .scoped(AdminRead, routes!(list::list_all))
        .scoped(AdminRead, routes!(bulk::stats))
        .starts_work(AgentsInvoke, routes!(bulk::change), answered_later)
        .scoped(AdminRead, routes!(read::get_by_id))
        .scoped(AdminRead, routes!(list::list_for_agent))
        .scoped(AdminRead, routes!(read::get))
        .scoped(AdminRead, routes!(read::tree))
        .scoped(AdminRead, routes!(conversation::messages))
        .scoped(AdminRead, routes!(conversation::tool_calls))
        .scoped(AdminRead, routes!(conversation::tool_call))
        .scoped(AdminRead, routes!(writes::list))
        .scoped(AdminRead, routes!(events::follow))
        .scoped(AgentsInvoke, routes!(change::cancel))
        .starts_work(AgentsInvoke, routes!(change::resume), started_run)
        .scoped(AdminWrite, routes!(change::revert))
}

/// Returns the run if it belongs to this agent. A run of another agent is not found here, just as a run
/// of another project is not found anywhere.
async fn get_agent_run(app: &App, project: ProjectId, agent: &AgentRef, run: RunId) -> Result<Run, ApiError> {
    let detail = app.executor.get_run(project, run).await?;
    if agent.has_run(&detail) { Ok(detail) } else { Err(ApiError::not_found("run", run)) }
}

/// Returns the run if the caller may cancel or resume it. A token that may not read runs changes only those that it started,
/// and those below them, which have the same `started_by`: others are not found, as when they are read.
async fn get_changeable_run(
    app: &App,
    caller: &Caller,
    project: ProjectId,
    agent: &AgentRef,
    run: RunId,
) -> Result<Run, ApiError> {
    let found = get_agent_run(app, project, agent, run).await?;
    match started_by_only(caller) {
        Some(token) if found.started_by != Some(token) => Err(ApiError::not_found("run", run)),
        _ => Ok(found),
    }
}

/// The token whose runs alone the caller may change; `None` if it may change all runs of the project.
fn started_by_only(caller: &Caller) -> Option<TokenId> {
    (!caller.token.scopes.contains(&AdminRead)).then_some(caller.token.id)
}
