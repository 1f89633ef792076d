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
        coordination_dispatch::{Dispatch, DispatchRequest, DispatchResponse, DryRunView, dispatch_request},
    },
};

/// Starts a workflow and returns at once. Tasks in the request are validated as a whole: unknown keys,
/// unknown agents and dependency cycles are refused, with the path of the field. Tasks that are in the graph
/// already become tasks of the workflow. Every agent that could be started needs a model that can be called.
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
    let dispatcher = &app.dispatcher;
    let request = dispatch_request(body)?;
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
    let judge = dispatcher.judge_model(&workflow.settings).map(|model| model.to_string());
    accepted(DispatchResponse::Started(StartedWorkflow { workflow_id: workflow.id.0, judge }))
}
