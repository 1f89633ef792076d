//! The events of a workflow as an event stream.

use axum::{
    extract::State,
    http::HeaderMap,
    response::{Response, sse::Event},
};
use emergent_coordination as coordination;
use emergent_domain::{ids::WorkflowId, workflow::WorkflowEvent};
use futures_util::StreamExt;

use crate::{
    ApiError, App,
    auth::{Caller, InProject},
    extract::{Path, Query},
    sse::{self, EventsQuery},
    views::coordination_event::WorkflowEventView,
};

/// Streams the events of a workflow, from the first one on and as they happen. Every event has its
/// `seq` as `id:`, so a client that reconnects misses none and receives none twice. The stream closes
/// when the workflow has ended; it stays open while the workflow waits for a person.
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
    Query(query): Query<EventsQuery>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let after = sse::resume_seq(&headers, &query)?;
    // An unknown workflow is a 404, not a stream that ends with an error.
    app.dispatcher.events(project, id, after, 1).await?;
    let events = app.dispatcher.follow(project, id, after).map(move |event| frame(id, event));
    Ok(sse::stream(&app, &caller, events))
}

/// Returns the frame of one event, or the last frame of a stream that failed.
fn frame(id: WorkflowId, event: coordination::Result<WorkflowEvent>) -> Event {
    match event {
        Ok(event) => sse::frame(Some(event.seq.to_string()), &WorkflowEventView::new(id, event)),
        Err(failure) => sse::error_frame(failure),
    }
}
