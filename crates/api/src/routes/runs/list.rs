//! Lists runs: of one agent, or of all agents.

use axum::extract::State;
use emergent_domain::{
    cursor::Page,
    ids::{AgentId, RunId},
    invalid::Invalid,
    run::RunStatus,
};
use emergent_executor::history::RunFilter;
use serde::Deserialize;
use utoipa::IntoParams;

use crate::{
    App,
    auth::InProject,
    extract::{Path, Query},
    response::{Envelope, Result, page},
    views::run::RunView,
};

/// The default size of a page. It is lower than for other lists, because a run has many fields.
const DEFAULT_LIMIT: i64 = 20;

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct RunListQuery {
    /// `queued`, `running`, `completed` (or `success`), `failed`, `paused` or `cancelled`.
    #[param(pattern = "^(queued|running|completed|success|failed|paused|cancelled)$")]
    status: Option<String>,
    /// Only the children of this run.
    #[param(value_type = Option<Uuid>)]
    parent_run_id: Option<RunId>,
    /// The maximum number of results; the default is 20.
    #[param(minimum = 1, maximum = 100)]
    limit: Option<i64>,
    /// The `x-next-cursor` of the previous page.
    cursor: Option<String>,
}

impl RunListQuery {
    fn into_filter(self, agent: Option<AgentId>) -> std::result::Result<(RunFilter, Page), Invalid> {
        let page = Page::new(self.limit.or(Some(DEFAULT_LIMIT)), self.cursor.as_deref())?;
        let status = self.status.as_deref().map(parse_status).transpose()?;
        Ok((RunFilter { agent, status, parent: self.parent_run_id }, page))
    }
}

/// Parses the status of a run; `success` is an alias of `completed`.
fn parse_status(text: &str) -> std::result::Result<RunStatus, Invalid> {
    let text = if text == "success" { "completed" } else { text };
    RunStatus::parse(text).ok_or_else(|| {
        let names: Vec<_> = RunStatus::ALL.iter().map(|status| status.as_str()).collect();
        Invalid::new("status", format!("must be one of {}", names.join(", ")))
    })
}

/// Lists the runs of an agent, newest first.
#[utoipa::path(
    get, path = "/api/admin/agents/{agentId}/runs", tag = "runs", operation_id = "listAgentRuns",
    params(("agentId" = Uuid, Path), RunListQuery),
    responses((status = 200, description = "A page of runs", body = Envelope<Vec<RunView>>)),
)]
pub(super) async fn list_for_agent(
    State(app): State<App>,
    InProject(project): InProject,
    Path(agent): Path<AgentId>,
    Query(query): Query<RunListQuery>,
) -> Result<Vec<RunView>> {
    let (filter, requested) = query.into_filter(Some(agent))?;
    page(app.executor.list_runs(project, filter, requested).await?)
}

/// Lists the runs of all agents, newest first.
#[utoipa::path(
    get, path = "/api/admin/runs", tag = "runs", operation_id = "listRuns", params(RunListQuery),
    responses((status = 200, description = "A page of runs", body = Envelope<Vec<RunView>>)),
)]
pub(super) async fn list_all(
    State(app): State<App>,
    InProject(project): InProject,
    Query(query): Query<RunListQuery>,
) -> Result<Vec<RunView>> {
    let (filter, requested) = query.into_filter(None)?;
    page(app.executor.list_runs(project, filter, requested).await?)
}
