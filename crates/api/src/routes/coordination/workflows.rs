//! Lists, returns, cancels and resumes workflows, and changes their budgets.

use axum::extract::State;
use emergent_domain::{
    ids::WorkflowId,
    token::Scope,
    workflow::{Workflow, WorkflowStatus},
};
use emergent_store::idempotency::{AcceptedWork, Answer};

use crate::{
    App,
    auth::{AsActor, Caller, InProject},
    extract::{Json, OptionalJson, Path, Query, paged_query},
    idempotency::stored_answer,
    response::{Envelope, Result, accepted, ok, page},
    views::{
        coordination::{
            ChangedWorkflowView, ListedWorkflowView, WorkflowStateView, WorkflowSummaryView, WorkflowView,
        },
        coordination_budget::PutWorkflowBudget,
        coordination_dispatch::ResumeWorkflow,
        schema,
    },
};

paged_query! {
    pub(super) struct WorkflowListQuery {
        #[param(value_type = Option<schema::WorkflowStatus>, inline)]
        status: Option<WorkflowStatus>,
    }
}

/// Lists the project's workflows, newest first, each with the number of its tasks in each status and its spend.
#[utoipa::path(
    get, path = "/api/coordination/workflows", tag = "coordination", operation_id = "listWorkflows",
    params(WorkflowListQuery),
    responses((status = 200, description = "A page of workflows", body = Envelope<Vec<ListedWorkflowView>>)),
)]
pub(super) async fn list(
    State(app): State<App>,
    InProject(project): InProject,
    Query(query): Query<WorkflowListQuery>,
) -> Result<Vec<ListedWorkflowView>> {
    let requested = query.page()?;
    page(app.dispatcher.workflows_with_progress(project, query.status, requested).await?)
}

/// Returns a workflow with the status of its tasks and its cost.
#[utoipa::path(
    get, path = "/api/coordination/workflows/{workflowId}", tag = "coordination", operation_id = "getWorkflow",
    params(("workflowId" = Uuid, Path)),
    responses((status = 200, description = "The workflow", body = Envelope<WorkflowView>)),
)]
pub(super) async fn get(
    State(app): State<App>,
    InProject(project): InProject,
    Path(id): Path<WorkflowId>,
) -> Result<WorkflowView> {
    ok(app.dispatcher.workflow(project, id).await?)
}

/// Cancels a workflow and all its runs. Without the scope `agents:read`, the answer has only the id, the status and the time
/// of the change.
#[utoipa::path(
    post, path = "/api/coordination/workflows/{workflowId}/cancel", tag = "coordination",
    operation_id = "cancelWorkflow", params(("workflowId" = Uuid, Path)),
    responses((status = 200, description = "The workflow, cancelled", body = Envelope<ChangedWorkflowView>)),
)]
pub(super) async fn cancel(
    State(app): State<App>,
    caller: Caller,
    AsActor(actor): AsActor,
    Path(id): Path<WorkflowId>,
) -> Result<ChangedWorkflowView> {
    ok::<ChangedWorkflowView>(changed_view(&caller, app.dispatcher.cancel(actor, id).await?))
}

/// Resumes an escalated or failed workflow. Failed and skipped tasks are retried. A budget in the
/// request replaces the current one. A workflow that is escalated needs the scope `approvals:decide` as well, and so does
/// a budget that allows more than the current one. Without the scope `agents:read`, the answer has only the id, the status
/// and the time of the change.
#[utoipa::path(
    post, path = "/api/coordination/workflows/{workflowId}/resume", tag = "coordination",
    operation_id = "resumeWorkflow", params(("workflowId" = Uuid, Path)),
    request_body = Option<ResumeWorkflow>,
    responses((status = 202, description = "The resumed workflow", body = Envelope<ChangedWorkflowView>)),
)]
pub(super) async fn resume(
    State(app): State<App>,
    caller: Caller,
    AsActor(actor): AsActor,
    Path(id): Path<WorkflowId>,
    OptionalJson(body): OptionalJson<ResumeWorkflow>,
) -> Result<ChangedWorkflowView> {
    let budget = body.budget()?;
    let resumed: Workflow = app.dispatcher.resume(actor, id, body.note, budget).await?;
    accepted(changed_view(&caller, resumed))
}

/// Replaces the budget of a workflow that has not ended, and records why and who did so. Raising or removing a limit
/// needs `approvals:decide` as well. Runs in progress notice it at their next model call. A workflow that waits for a
/// person goes on waiting: resume it. One that has failed takes a new budget when it is resumed.
#[utoipa::path(
    put, path = "/api/coordination/workflows/{workflowId}/budget", tag = "coordination",
    operation_id = "putWorkflowBudget", params(("workflowId" = Uuid, Path)),
    request_body = PutWorkflowBudget,
    responses((status = 200, description = "The workflow with its new budget", body = Envelope<WorkflowSummaryView>)),
)]
pub(super) async fn put_budget(
    State(app): State<App>,
    AsActor(actor): AsActor,
    Path(id): Path<WorkflowId>,
    Json(body): Json<PutWorkflowBudget>,
) -> Result<WorkflowSummaryView> {
    let limit = body.limit()?;
    ok::<WorkflowSummaryView>(app.dispatcher.set_workflow_budget(actor, id, limit, body.reason).await?)
}

/// The answer to a request that resumed a workflow.
pub(super) fn resumed_workflow(_: &App, caller: &Caller, work: AcceptedWork<'_>) -> Option<Answer> {
    let AcceptedWork::Workflow(workflow) = work else { return None };
    stored_answer(accepted::<ChangedWorkflowView>(changed_view(caller, workflow.clone())))
}

/// What a caller is told of a workflow that it changed: without the right to read it, only what became of it.
fn changed_view(caller: &Caller, workflow: Workflow) -> ChangedWorkflowView {
    let whole = WorkflowSummaryView::from(workflow);
    match caller.has_scope(Scope::AgentsRead) {
        true => ChangedWorkflowView::Whole(Box::new(whole)),
        false => ChangedWorkflowView::Brief(WorkflowStateView {
            id: whole.id,
            status: whole.status,
            updated_at: whole.updated_at,
        }),
    }
}
