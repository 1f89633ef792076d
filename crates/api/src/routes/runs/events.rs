//! The events of a run as an event stream.

use axum::{
    extract::State,
    http::HeaderMap,
    response::{Response, sse::Event},
};
use emergent_domain::{ids::RunId, run_event::RunEvent};
use emergent_executor as executor;
use futures_util::StreamExt;

use super::get_agent_run;
use crate::{
    ApiError, App,
    auth::{Caller, InProject},
    extract::{AgentRef, Path, Query},
    sse::{self, EventsQuery},
    views::run_event::RunEventView,
};

/// Streams the events of a run, from the first one on and as they happen. Durable events have their
/// `seq` as `id:`, so a client that reconnects misses none and receives none twice; `text_delta`,
/// `thought_delta` and `step_restarted` are sent live only. The stream closes after `run_ended`.
#[utoipa::path(
    get, path = "/api/admin/agents/{agentId}/runs/{runId}/events", tag = "runs",
    operation_id = "followRun",
    params(
        ("agentId" = String, Path, description = "The id or the name of an agent"), ("runId" = Uuid, Path), EventsQuery,
        ("Last-Event-ID" = Option<String>, Header, description = "The last `id:` seen."),
    ),
    responses((status = 200, description = "Frames of JSON", body = RunEventView, content_type = "text/event-stream")),
)]
pub(super) async fn follow(
    State(app): State<App>,
    caller: Caller,
    InProject(project): InProject,
    Path((agent, run)): Path<(AgentRef, RunId)>,
    Query(query): Query<EventsQuery>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let after = sse::resume_seq(&headers, &query)?;
    get_agent_run(&app, project, &agent, run).await?;
    let events = app.executor.follow(project, run, after).map(frame);
    Ok(sse::stream(&app, &caller, events))
}

/// Returns the frame of one event, or the last frame of a stream that failed.
pub(in crate::routes) fn frame(event: executor::Result<RunEvent>) -> Event {
    match event {
        Ok(event) => {
            let id = event.seq.map(|seq| seq.to_string());
            sse::frame(id, &RunEventView::from(event))
        }
        Err(failure) => sse::error_frame(failure),
    }
}
