//! `/api/admin/triggers`: schedules, event triggers and their firings. Triggers that start workflows are saved here.

use axum::extract::State;
use emergent_domain::{
    cursor::Page,
    ids::AgentId,
    invalid::Invalid,
    token::Scope::{AdminRead, AgentsRead, AgentsWrite},
    trigger::FiringStatus,
};
use emergent_executor::triggers::FiringFilter;

use crate::{
    App,
    access::Routes,
    auth::{AsActor, Caller, InProject},
    endpoint::routes,
    extract::{Json, Path, Query, paged_query},
    response::{Envelope, Result, ok, page, written},
    views::trigger::{
        FiringView, PutTrigger, ScheduleView, TriggerName, TriggersView, UpdateTrigger, workflow_trigger,
    },
};

pub(super) fn routes() -> Routes {
    Routes::new()
        .scoped(AgentsRead, routes!(list))
        .scoped(AdminRead, routes!(firings))
        .scoped(AgentsWrite, routes!(put))
        .scoped(AgentsWrite, routes!(update))
        .scoped(AgentsWrite, routes!(delete))
}

/// Lists the project's schedules, with the next due time of each, and its event triggers.
#[utoipa::path(
    get, path = "/api/admin/triggers", tag = "triggers", operation_id = "listTriggers",
    responses((status = 200, description = "Every trigger", body = Envelope<TriggersView>)),
)]
async fn list(State(app): State<App>, InProject(project): InProject) -> Result<TriggersView> {
    ok(app.executor.list_triggers(project).await?)
}

/// Saves a trigger that starts a workflow at times or events, under a name. The workflow is checked as in a dispatch,
/// and its tasks cannot name internal agents. The trigger starts agents without a request, so saving it needs the scope
/// `agents:invoke` as well.
#[utoipa::path(
    put, path = "/api/admin/triggers/{name}", tag = "triggers", operation_id = "putTrigger",
    params(("name" = String, Path, description = "Its name in the project")), request_body = PutTrigger,
    responses((status = 200, description = "It is saved", body = Envelope<TriggerName>)),
)]
async fn put(
    State(app): State<App>,
    AsActor(actor): AsActor,
    Path(name): Path<String>,
    Json(body): Json<PutTrigger>,
) -> Result<TriggerName> {
    let spec = workflow_trigger(name.clone(), body)?;
    app.executor.put_workflow_trigger(actor, spec).await?;
    ok(TriggerName { name })
}

/// Pauses or resumes a schedule, whether an agent, a product or a person has it. Resuming needs the scope `agents:invoke`
/// as well. Times that pass while it is paused are
/// not fired later, and runs that it started go on. A schedule that is saved again stays paused. Without the scope
/// `agents:read`, the answer has only what identifies the schedule.
#[utoipa::path(
    patch, path = "/api/admin/triggers/{name}", tag = "triggers", operation_id = "updateTrigger",
    params(("name" = String, Path, description = "The name or the id of a schedule, or the name of its agent")),
    request_body = UpdateTrigger,
    responses((status = 200, description = "The schedule", body = Envelope<ScheduleView>)),
)]
async fn update(
    State(app): State<App>,
    caller: Caller,
    AsActor(actor): AsActor,
    Path(name): Path<String>,
    Json(body): Json<UpdateTrigger>,
) -> Result<ScheduleView> {
    let (schedule, agent) = app.executor.set_schedule_enabled(actor, name, body.enabled).await?;
    written(&caller, AgentsRead, ok(ScheduleView::new(schedule, agent)))
}

/// Deletes a trigger that starts a workflow. Workflows that it started go on. Triggers of agents and products are
/// deleted with these.
#[utoipa::path(
    delete, path = "/api/admin/triggers/{name}", tag = "triggers", operation_id = "deleteTrigger",
    params(("name" = String, Path, description = "Its name in the project")),
    responses((status = 200, description = "It is deleted", body = Envelope<TriggerName>)),
)]
async fn delete(
    State(app): State<App>,
    AsActor(actor): AsActor,
    Path(name): Path<String>,
) -> Result<TriggerName> {
    app.executor.delete_workflow_trigger(actor, name.clone()).await?;
    ok(TriggerName { name })
}

paged_query! {
    struct FiringListQuery {
        /// Only firings of this agent.
        #[serde(rename = "agentId")]
        #[param(value_type = Option<Uuid>, rename = "agentId")]
        agent: Option<AgentId>,
        /// `pending`, `admitted`, `refused` or `skipped`.
        #[param(pattern = "^(pending|admitted|refused|skipped)$")]
        status: Option<String>,
    }
}

impl FiringListQuery {
    fn into_filter(self) -> std::result::Result<(FiringFilter, Page), Invalid> {
        let page = self.page()?;
        let status = self.status.as_deref().map(parse_status).transpose()?;
        Ok((FiringFilter { agent: self.agent, status }, page))
    }
}

fn parse_status(text: &str) -> std::result::Result<FiringStatus, Invalid> {
    FiringStatus::parse(text).ok_or_else(|| {
        let names: Vec<_> = FiringStatus::ALL.iter().map(|status| status.as_str()).collect();
        Invalid::new("status", format!("must be one of {}", names.join(", ")))
    })
}

/// Firings of triggers, newest first, each with its outcome. Settled firings are kept as long as the project says.
#[utoipa::path(
    get, path = "/api/admin/triggers/firings", tag = "triggers", operation_id = "listFirings", params(FiringListQuery),
    responses((status = 200, description = "A page of firings", body = Envelope<Vec<FiringView>>)),
)]
async fn firings(
    State(app): State<App>,
    InProject(project): InProject,
    Query(query): Query<FiringListQuery>,
) -> Result<Vec<FiringView>> {
    let (filter, requested) = query.into_filter()?;
    page(app.executor.list_firings(project, filter, requested).await?)
}
