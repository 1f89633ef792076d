//! `/api/admin/tools`: the tools that a project's agents can use.

use axum::extract::State;
use emergent_domain::token::Scope::AgentsRead;
use utoipa_axum::routes;

use crate::{
    App,
    access::Routes,
    auth::InProject,
    response::{Envelope, Result, ok},
    views::{IntoView, tool::ToolView},
};

pub(super) fn routes() -> Routes {
    Routes::new().scoped(AgentsRead, routes!(list))
}

/// Lists the project's tools by name, with the source of each. An agent's list of tools selects from
/// them.
#[utoipa::path(
    get, path = "/api/admin/tools", tag = "tools", operation_id = "listTools",
    responses((status = 200, description = "Every tool", body = Envelope<Vec<ToolView>>)),
)]
async fn list(State(app): State<App>, InProject(project): InProject) -> Result<Vec<ToolView>> {
    let mut tools = app.executor.tools().project_tools(project).await;
    tools.sort_by(|a, b| a.info().name.cmp(&b.info().name));
    ok(tools.iter().map(|tool| tool.info().into_view()).collect::<Vec<ToolView>>())
}
