//! Starts a workflow, or shows what starting it would do.

use axum::extract::State;
use emergent_domain::{
    ids::{ObjectId, ProjectId},
    invalid::Invalid,
    task::MAX_TASKS,
    token::Scope,
    workflow::Workflow,
};
use emergent_store::idempotency::{AcceptedWork, Answer};

use crate::{
    ApiError, App,
    auth::{AsActor, Caller},
    extract::Json,
    idempotency::stored_answer,
    response::{Envelope, Result, accepted, ok},
    views::{
        IntoView,
        coordination::StartedWorkflow,
        coordination_dispatch::{
            Dispatch, DispatchRequest, DispatchResponse, DryRunView, dispatch_request, named_tasks,
        },
    },
};

/// Starts a workflow and returns at once. Tasks in the request are validated as a whole: unknown keys,
/// unknown agents and dependency cycles are refused, with the path of the field. Tasks that are in the graph
/// already become tasks of the workflow; to name them or to search for them needs the scope `agents:read` as well, and
/// those of a cancelled workflow that waited for a person or had a budget need `approvals:decide`. Every agent that could
/// be started needs a model that can be called.
#[utoipa::path(
    post, path = "/api/coordination/dispatch", tag = "coordination", operation_id = "dispatch",
    request_body = Dispatch,
    responses(
        (status = 202, description = "It is started", body = Envelope<StartedWorkflow>),
        (status = 200, description = "What the workflow would do", body = Envelope<DryRunView>),
    ),
)]
pub(super) async fn dispatch(
    State(app): State<App>,
    caller: Caller,
    AsActor(actor): AsActor,
    Json(body): Json<Dispatch>,
) -> Result<DispatchResponse> {
    if body.task_ids.is_some() || body.root_task_id.is_some() || body.query.is_some() {
        // Which tasks there are, and what a query finds, tells what is in them.
        caller.require_scope(Scope::AgentsRead)?;
    }
    let dry_run = body.dry_run;
    let dispatcher = &app.dispatcher;
    let named = resolve_tasks(&app, actor.project, &body).await?;
    let request = dispatch_request(body, named)?;
    if dry_run {
        let checked = match request {
            DispatchRequest::New(new) => dispatcher.dry_run_dispatch(actor, new).await?,
            DispatchRequest::Existing(existing) => dispatcher.dry_run_existing(actor, existing).await?,
        };
        return ok(DispatchResponse::Checked(checked.into_view()));
    }
    let workflow = match request {
        DispatchRequest::New(new) => dispatcher.dispatch(actor, new).await?,
        DispatchRequest::Existing(existing) => dispatcher.dispatch_existing(actor, existing).await?,
    };
    started(&app, &workflow)
}

fn started(app: &App, workflow: &Workflow) -> Result<DispatchResponse> {
    let judge = app.dispatcher.judge_model(&workflow.settings).map(|model| model.to_string());
    accepted(DispatchResponse::Started(StartedWorkflow { workflow_id: workflow.id.0, judge }))
}

/// The answer to a request that started a workflow.
pub(super) fn started_workflow(app: &App, _: &Caller, work: AcceptedWork<'_>) -> Option<Answer> {
    let AcceptedWork::Workflow(workflow) = work else { return None };
    stored_answer(started(app, workflow))
}

/// The ids of the tasks that a request names by their ids or as `SpecTask/key`.
async fn resolve_tasks(
    app: &App,
    project: ProjectId,
    body: &Dispatch,
) -> std::result::Result<Vec<ObjectId>, ApiError> {
    let named = named_tasks(body);
    if named.len() > MAX_TASKS {
        return Err(Invalid::new("taskIds", format!("names more than {MAX_TASKS} tasks")).into());
    }
    let mut ids = Vec::with_capacity(named.len());
    for (index, resolved) in app.dispatcher.resolve_tasks(project, named).await?.into_iter().enumerate() {
        let field =
            if body.task_ids.is_some() { format!("taskIds[{index}]") } else { "rootTaskId".to_owned() };
        ids.push(resolved.map_err(|error| Invalid::new(field, error.to_string()))?);
    }
    Ok(ids)
}
