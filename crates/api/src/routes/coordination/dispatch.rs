//! Starts a workflow, or shows what starting it would do.

use axum::extract::State;

use crate::{
    App,
    auth::AsActor,
    extract::Json,
    response::{Envelope, Result, accepted, ok},
    views::{
        IntoView,
        coordination::StartedWorkflow,
        coordination_dispatch::{Dispatch, DispatchResponse, DryRunView, new_workflow},
    },
};

/// Starts a workflow and returns at once. Tasks in the request are validated as a whole: unknown keys,
/// unknown agents and dependency cycles are refused, with the path of the field.
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
    AsActor(actor): AsActor,
    Json(body): Json<Dispatch>,
) -> Result<DispatchResponse> {
    let dry_run = body.dry_run;
    let new = new_workflow(body)?;
    if dry_run {
        return ok(DispatchResponse::Checked(app.dispatcher.dry_run_dispatch(actor, new).await?.into_view()));
    }
    let workflow = app.dispatcher.dispatch(actor, new).await?;
    accepted(DispatchResponse::Started(StartedWorkflow { workflow_id: workflow.id.0 }))
}
