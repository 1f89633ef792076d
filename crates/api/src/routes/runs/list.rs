//! Lists runs: of one agent, or of all agents. [`run_filter`] reads the conditions that lists and bulk actions have
//! in common.

use axum::extract::State;
use emergent_domain::{
    cursor::Page,
    ids::{ProjectId, RunId},
    invalid::Invalid,
    object::check_chars,
    pack::nearest_name,
    run::{Origin, Reason, RunStatus},
    time::Timestamp,
};
use emergent_executor::history::RunFilter;
use serde::Deserialize;
use utoipa::IntoParams;

use crate::{
    ApiError, App,
    auth::InProject,
    extract::{AgentPath, Query},
    response::{Envelope, Result, page},
    views::{run::RunView, run_bulk::RunFilterView, schema},
};

/// The default size of a page. It is lower than for other lists, because a run has many fields.
const DEFAULT_LIMIT: i64 = 20;
/// The longest text to search for.
const MAX_TEXT_CHARS: usize = 200;

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct RunListQuery {
    /// Only runs of this agent, by id or name. Not for the runs of one agent, which the path names.
    agent: Option<String>,
    /// `queued`, `running`, `waiting`, `completed` (or `success`), `failed`, `paused` or `cancelled`; or several of
    /// them, separated by commas.
    #[param(
        pattern = "^(queued|running|waiting|completed|success|failed|paused|cancelled)(,(queued|running|waiting|completed|success|failed|paused|cancelled))*$"
    )]
    status: Option<String>,
    /// Why they are paused or failed.
    #[param(value_type = Option<schema::Reason>, inline)]
    reason: Option<Reason>,
    /// What started them.
    #[param(value_type = Option<schema::Origin>, inline)]
    origin: Option<Origin>,
    /// Only the children of this run.
    #[param(value_type = Option<Uuid>)]
    parent_run_id: Option<RunId>,
    /// Created at this time or later.
    #[param(value_type = Option<String>, format = DateTime)]
    since: Option<Timestamp>,
    /// Created before this time.
    #[param(value_type = Option<String>, format = DateTime)]
    until: Option<Timestamp>,
    /// `true`: only runs without a parent.
    root: Option<bool>,
    /// A text in the input or the summary. A page searches the newest 2000 runs that match the other conditions:
    /// it may have fewer runs than `limit`, or none, and a cursor with which the search continues.
    #[param(min_length = 1, max_length = 200)]
    q: Option<String>,
    /// The maximum number of results; the default is 20.
    #[param(minimum = 1, maximum = 100)]
    limit: Option<i64>,
    /// The `x-next-cursor` of the previous page.
    cursor: Option<String>,
}

impl RunListQuery {
    /// Returns the conditions and the page.
    fn split(self) -> std::result::Result<(RunFilterView, Page), Invalid> {
        let page = Page::new(self.limit.or(Some(DEFAULT_LIMIT)), self.cursor.as_deref())?;
        let filter = RunFilterView {
            agent: self.agent,
            status: self.status,
            reason: self.reason,
            origin: self.origin,
            parent_run_id: self.parent_run_id.map(|run| run.0),
            since: self.since,
            until: self.until,
            root: self.root,
            q: self.q,
        };
        Ok((filter, page))
    }
}

/// Checks conditions, and finds the agent that they name. `prefix` is the path of their fields in the request.
pub(super) async fn run_filter(
    app: &App,
    project: ProjectId,
    view: RunFilterView,
    prefix: &str,
) -> std::result::Result<RunFilter, ApiError> {
    if let (Some(since), Some(until)) = (view.since, view.until)
        && until <= since
    {
        return Err(Invalid::new(format!("{prefix}until"), "must be later than `since`").into());
    }
    if let Some(text) = &view.q {
        check_text(&format!("{prefix}q"), text)?;
    }
    let statuses = match &view.status {
        Some(text) => parse_statuses(&format!("{prefix}status"), text)?,
        None => Vec::new(),
    };
    let agent = match &view.agent {
        Some(agent) => Some(app.executor.find_agent_of_runs(project, agent).await?),
        None => None,
    };
    Ok(RunFilter {
        agent,
        statuses,
        reason: view.reason,
        origin: view.origin,
        parent: view.parent_run_id.map(RunId),
        is_root: view.root == Some(true),
        since: view.since,
        until: view.until,
        text: view.q,
        ..RunFilter::default()
    })
}

fn check_text(field: &str, text: &str) -> std::result::Result<(), Invalid> {
    if text.trim().is_empty() || text.chars().count() > MAX_TEXT_CHARS {
        return Err(Invalid::new(field, format!("must be a text of 1 to {MAX_TEXT_CHARS} characters")));
    }
    check_chars(field, text)
}

/// Parses statuses that are separated by commas; `success` is an alias of `completed`.
fn parse_statuses(field: &str, text: &str) -> std::result::Result<Vec<RunStatus>, Invalid> {
    let mut statuses = Vec::new();
    for name in text.split(',').map(str::trim) {
        let name = if name == "success" { "completed" } else { name };
        let status = RunStatus::parse(name).ok_or_else(|| {
            let names: Vec<_> = RunStatus::ALL.iter().map(|status| status.as_str()).collect();
            let nearest = nearest_name(name, names.iter().copied());
            let nearest = nearest.map(|nearest| format!("; did you mean `{nearest}`?")).unwrap_or_default();
            let names = names.join(", ");
            Invalid::new(field, format!("must be one of {names}, or several, separated by commas{nearest}"))
        })?;
        if !statuses.contains(&status) {
            statuses.push(status);
        }
    }
    Ok(statuses)
}

/// Lists the runs of an agent, newest first.
#[utoipa::path(
    get, path = "/api/admin/agents/{agentId}/runs", tag = "runs", operation_id = "listAgentRuns",
    params(("agentId" = String, Path, description = "The id or the name of an agent"), RunListQuery),
    responses((status = 200, description = "A page of runs", body = Envelope<Vec<RunView>>)),
)]
pub(super) async fn list_for_agent(
    State(app): State<App>,
    InProject(project): InProject,
    AgentPath(agent): AgentPath,
    Query(query): Query<RunListQuery>,
) -> Result<Vec<RunView>> {
    let (view, requested) = query.split()?;
    if view.agent.is_some() {
        return Err(Invalid::new("agent", "is not for the runs of one agent, which the path names").into());
    }
    let filter = RunFilter { agent: Some(agent), ..run_filter(&app, project, view, "").await? };
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
    let (view, requested) = query.split()?;
    let filter = run_filter(&app, project, view, "").await?;
    page(app.executor.list_runs(project, filter, requested).await?)
}
