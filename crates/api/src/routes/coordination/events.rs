use axum::{
    extract::State,
    http::HeaderMap,
    response::{Response, sse::Event},
};
use emergent_coordination as coordination;
use emergent_domain::{ids::WorkflowId, workflow::WorkflowEvent};
use futures_util::StreamExt;
use serde::Deserialize;
use serde_json::json;
use utoipa::IntoParams;

use crate::{
    ApiError, App,
    auth::{Caller, InProject},
    extract::{Path, Query},
    sse,
    views::coordination_event::WorkflowEventView,
};

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct EventsQuery {
    /// Events after this `id:`; without it, from the beginning. The header `Last-Event-ID` of a
    /// client that reconnects goes before it.
    #[param(minimum = 0)]
    after: Option<i64>,
}

/// What happened in a workflow, from its beginning and as it happens. Every event carries its place
/// as `id:`, so a client that reconnects misses none and sees none twice. The stream ends once the
/// workflow is over; one that waits for a person is followed on.
#[utoipa::path(
    get, path = "/api/coordination/workflows/{workflowId}/events", tag = "coordination",
    operation_id = "followWorkflow",
    params(
        ("workflowId" = Uuid, Path), EventsQuery,
        ("Last-Event-ID" = Option<String>, Header, description = "The last `id:` seen."),
    ),
    responses((status = 200, description = "Frames of JSON", body = WorkflowEventView, content_type = "text/event-stream")),
)]
pub(super) async fn follow(
    State(app): State<App>,
    caller: Caller,
    InProject(project): InProject,
    Path(id): Path<WorkflowId>,
    Query(from): Query<EventsQuery>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let after = sse::resume_seq(&headers, from.after)?;
    // A workflow that is not there is 404, not a stream that ends with an error.
    app.dispatcher.events(project, id, after, 1).await?;
    let events = app.dispatcher.follow(project, id, after).map(move |event| frame(id, event));
    Ok(sse::stream(&app, &caller, events))
}

fn frame(id: WorkflowId, event: coordination::Result<WorkflowEvent>) -> Event {
    match event {
        Ok(event) => sse::frame(Some(event.seq.to_string()), &WorkflowEventView::new(id, event)),
        // The stream ends here; a client that reconnects goes on after the last id it has.
        Err(failure) => {
            sse::frame(None, &json!({ "type": "error", "error": ApiError::from(failure).into_body() }))
        }
    }
}
