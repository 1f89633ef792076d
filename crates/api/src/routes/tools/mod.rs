//! `/api/admin/tools`: the tools that a project's agents can use.

use axum::extract::State;
use emergent_domain::token::Scope::AgentsRead;

use crate::{
    App,
    access::Routes,
    auth::InProject,
    endpoint::routes,
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
    let pool = app.executor.tools();
    let (tools, conflicts) = (pool.project_labels(project).await, pool.name_conflicts(project).await);
    let mut views: Vec<ToolView> = tools.iter().map(|tool| (tool, &conflicts).into_view()).collect();
    views.sort_by(|a, b| (&a.name, &a.server).cmp(&(&b.name, &b.server)));
    ok(views)
}
