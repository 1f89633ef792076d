//! The events of a run as an event stream.

use axum::{
    extract::{FromRequestParts, State},
    http::request::Parts,
    response::{Response, sse::Event},
};
use emergent_domain::{
    ids::{ProjectId, RunId},
    run_event::RunEvent,
};
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

/// A request for the events of a run.
pub(in crate::routes) struct FollowRequest {
    pub caller: Caller,
    pub project: ProjectId,
    pub agent: AgentRef,
    pub run: RunId,
    /// Only events after this `seq`.
    pub after: i64,
}

impl FromRequestParts<App> for FollowRequest {
    type Rejection = ApiError;
    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let caller = Caller::from_request_parts(parts, app).await?;
        let InProject(project) = InProject::from_request_parts(parts, app).await?;
        let Path((agent, run)) = Path::from_request_parts(parts, app).await?;
        let Query(query) = Query::from_request_parts(parts, app).await?;
        let after = sse::resume_seq(&parts.headers, &query)?;
        Ok(Self { caller, project, agent, run, after })
    }
}

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
    FollowRequest { caller, project, agent, run, after }: FollowRequest,
) -> Result<Response, ApiError> {
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
