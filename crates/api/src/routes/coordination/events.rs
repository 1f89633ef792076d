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
    /// Only events after this `id:`; without it, all events. The header `Last-Event-ID` of a client that
    /// reconnects takes precedence.
    #[param(minimum = 0)]
    after: Option<i64>,
}

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
    Query(from): Query<EventsQuery>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let after = sse::resume_seq(&headers, from.after)?;
    // An unknown workflow is a 404, not a stream that ends with an error.
    app.dispatcher.events(project, id, after, 1).await?;
    let events = app.dispatcher.follow(project, id, after).map(move |event| frame(id, event));
    Ok(sse::stream(&app, &caller, events))
}

fn frame(id: WorkflowId, event: coordination::Result<WorkflowEvent>) -> Event {
    match event {
        Ok(event) => sse::frame(Some(event.seq.to_string()), &WorkflowEventView::new(id, event)),
        // The stream closes here; a client that reconnects continues after the last id it received.
        Err(failure) => {
            sse::frame(None, &json!({ "type": "error", "error": ApiError::from(failure).into_body() }))
        }
    }
}
