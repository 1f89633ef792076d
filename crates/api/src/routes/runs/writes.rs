//! Lists what a run wrote to the graph.

use axum::extract::State;
use emergent_domain::{cursor::ResultPage, ids::RunId};

use super::get_agent_run;
use crate::{
    App,
    auth::InProject,
    extract::{AgentRef, Path, Query, paged_query},
    response::{Envelope, Result, page},
    views::run_write::RunWriteView,
};

paged_query! {
    pub(super) struct WriteListQuery {
        /// `true`: also what the runs below it wrote.
        tree: Option<bool>,
    }
}

/// Lists what the tool calls of a run wrote to the graph, oldest first: every version of an object or a relationship,
/// and every document. The history of an object or a relationship has the contents of its versions. What was reverted
/// or changed since is listed as well.
#[utoipa::path(
    get, path = "/api/admin/agents/{agentId}/runs/{runId}/writes", tag = "runs", operation_id = "listRunWrites",
    params(("agentId" = String, Path, description = "The id or the name of an agent"), ("runId" = Uuid, Path), WriteListQuery),
    responses((status = 200, description = "A page of writes", body = Envelope<Vec<RunWriteView>>)),
)]
pub(super) async fn list(
    State(app): State<App>,
    InProject(project): InProject,
    Path((agent, run)): Path<(AgentRef, RunId)>,
    Query(query): Query<WriteListQuery>,
) -> Result<Vec<RunWriteView>> {
    let requested = query.page()?;
    get_agent_run(&app, project, &agent, run).await?;
    let tree = query.tree.unwrap_or_default();
    let ResultPage { items, next } = app.executor.run_writes(project, run, tree, requested).await?;
    let items: Vec<_> = items.into_iter().map(|one| RunWriteView::new(one.write, one.agent_name)).collect();
    page(ResultPage { items, next })
}
