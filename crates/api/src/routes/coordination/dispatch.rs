use axum::extract::State;

use crate::{
    App,
    answer::{Envelope, Result, accepted, ok},
    auth::Acting,
    extract::Json,
    views::{
        coordination::StartedWorkflow,
        coordination_dispatch::{CheckedView, Dispatch, Dispatched},
    },
};

/// Starts a workflow and returns at once. Tasks that were given are checked as a whole: unknown
/// keys and agents, and tasks that would wait for one another, are refused by their place.
#[utoipa::path(
    post, path = "/api/coordination/dispatch", tag = "coordination", operation_id = "dispatch",
    request_body = Dispatch,
    responses(
        (status = 202, description = "It is started", body = Envelope<StartedWorkflow>),
        (status = 200, description = "What would be done", body = Envelope<CheckedView>),
    ),
)]
pub(super) async fn dispatch(
    State(app): State<App>,
    Acting(actor): Acting,
    Json(body): Json<Dispatch>,
) -> Result<Dispatched> {
    let dry_run = body.dry_run;
    let new = body.try_into()?;
    if dry_run {
        return ok(Dispatched::Checked(app.dispatcher.check_dispatch(actor, new).await?.into()));
    }
    let workflow = app.dispatcher.dispatch(actor, new).await?;
    accepted(Dispatched::Started(StartedWorkflow { workflow_id: workflow.id.0 }))
}
