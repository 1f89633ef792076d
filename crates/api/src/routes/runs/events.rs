use axum::{
    extract::State,
    http::HeaderMap,
    response::{Response, sse::Event},
};
use emergent_domain::{
    ids::{AgentId, RunId},
    run_event::RunEvent,
};
use emergent_executor as executor;
use futures_util::StreamExt;
use serde::Deserialize;
use serde_json::json;
use utoipa::IntoParams;

use super::get_agent_run;
use crate::{
    ApiError, App,
    auth::{Caller, InProject},
    extract::{Path, Query},
    sse,
    views::run_event::RunEventView,
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

/// Streams the events of a run, from the first one on and as they happen. Durable events have their
/// `seq` as `id:`, so a client that reconnects misses none and receives none twice; `text_delta`,
/// `thought_delta` and `step_restarted` are sent live only. The stream closes after `run_ended`.
#[utoipa::path(
    get, path = "/api/admin/agents/{agentId}/runs/{runId}/events", tag = "runs",
    operation_id = "followRun",
    params(
        ("agentId" = Uuid, Path), ("runId" = Uuid, Path), EventsQuery,
        ("Last-Event-ID" = Option<String>, Header, description = "The last `id:` seen."),
    ),
    responses((status = 200, description = "Frames of JSON", body = RunEventView, content_type = "text/event-stream")),
)]
pub(super) async fn follow(
    State(app): State<App>,
    caller: Caller,
    InProject(project): InProject,
    Path((agent, run)): Path<(AgentId, RunId)>,
    Query(from): Query<EventsQuery>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let after = sse::resume_seq(&headers, from.after)?;
    get_agent_run(&app, project, agent, run).await?;
    let events = app.executor.follow(project, run, after).map(frame);
    Ok(sse::stream(&app, &caller, events))
}

fn frame(event: executor::Result<RunEvent>) -> Event {
    match event {
        Ok(event) => {
            let id = event.seq.map(|seq| seq.to_string());
            sse::frame(id, &RunEventView::from(event))
        }
        // The stream closes here; a client that reconnects continues after the last id it received.
        Err(failure) => {
            sse::frame(None, &json!({ "type": "error", "error": ApiError::from(failure).into_body() }))
        }
    }
}
