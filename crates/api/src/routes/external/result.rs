//! What became of a run that a caller from outside started.

use std::time::Duration;

use axum::{
    Extension,
    extract::State,
    http::{HeaderValue, header},
    response::{IntoResponse, Response},
};
use emergent_domain::{
    ids::{AgentId, ProjectId, RunId},
    run::{Origin, Run},
    token::Scope,
};
use emergent_surfaces::invoke::{check_wait, invocation, is_for_callers, result_path};
use futures_util::{StreamExt, future::ready};
use serde::Deserialize;
use utoipa::IntoParams;

use super::invoke::check_external;
use crate::{
    ApiError, App,
    auth::{Caller, InProject},
    extract::{AgentRef, Path, Query},
    request_context::RequestContext,
    response::{Envelope, accepted, ok},
    routes::runs::events::{self, FollowRequest},
    sse::{self, EventsQuery},
    stream_limit::StreamPermit,
    views::{IntoView, invoke::InvocationView, run_event::RunEventView},
    waiting::{self, wait_for_run},
};

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct ResultQuery {
    /// How many seconds the answer waits for the end of the run.
    #[param(minimum = 0, maximum = 600)]
    wait: Option<u64>,
}

/// Returns what became of a run that this token started with `invoke`, or of another token's, with `admin:read`.
#[utoipa::path(
    get, path = "/api/agents/{agentId}/runs/{runId}", tag = "external", operation_id = "getInvocation",
    params(("agentId" = String, Path, description = "The id or the name of an agent"), ("runId" = Uuid, Path), ResultQuery),
    responses(
        (status = 200, description = "The run has ended", body = Envelope<InvocationView>),
        (status = 202, description = "The run has not ended", body = Envelope<InvocationView>),
    ),
)]
pub(super) async fn get(
    State(app): State<App>,
    caller: Caller,
    InProject(project): InProject,
    Path((agent, run)): Path<(AgentRef, RunId)>,
    Query(query): Query<ResultQuery>,
    context: Option<Extension<RequestContext>>,
) -> Result<Response, ApiError> {
    let seconds = check_wait(query.wait)?;
    let found = find_invocation(&app, &caller, project, &agent, run).await?;
    // A result may be large, so it is not read again.
    if found.status.is_terminal() {
        return answer(&app, found).await;
    }
    drop(found);
    let _permit = match seconds {
        0 => None,
        _ => Some(waiting::permit(&app, &caller, context.as_ref().map(|Extension(context)| context))?),
    };
    let run = wait_for_run(&app, &caller, project, run, Duration::from_secs(seconds)).await?;
    answer(&app, run).await
}

/// Streams the events of a run that this token started with `invoke`, or of another token's, with `admin:read`: those
/// of `/api/admin/agents/{agentId}/runs/{runId}/events`, without the system prompt of the agent.
#[utoipa::path(
    get, path = "/api/agents/{agentId}/runs/{runId}/events", tag = "external", operation_id = "followInvocation",
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
    let found = find_invocation(&app, &caller, project, &agent, run).await?;
    let permit = sse::permit(&app, &caller)?;
    Ok(stream(&app, &caller, permit, (project, found.agent, run), after))
}

/// Returns a run that was started from outside, if the caller may read it. Whoever may start an agent may not read
/// what others asked it.
async fn find_invocation(
    app: &App,
    caller: &Caller,
    project: ProjectId,
    agent: &AgentRef,
    id: RunId,
) -> Result<Run, ApiError> {
    let run = app.executor.get_run(project, id).await?;
    let is_readable =
        run.started_by == Some(caller.token.id) || caller.token.scopes.contains(&Scope::AdminRead);
    if run.origin != Origin::Invoke || !agent.has_run(&run) || !is_readable {
        return Err(ApiError::not_found("run", id));
    }
    let found = app.executor.get_agent_including_deleted(project, run.agent).await?;
    check_external(found.definition.visibility, &found.definition.name)?;
    Ok(run)
}

/// Returns the answer about a run: 200 if it has ended, and 202 otherwise.
pub(super) async fn answer(app: &App, run: Run) -> Result<Response, ApiError> {
    let conversation = app.chat.conversation_of_run(run.project, run.id).await?;
    let usage = match run.status.is_terminal() {
        true => Some(app.executor.token_totals(run.project, run.id).await?.into_view()),
        false => None,
    };
    let (agent, id, has_ended) = (run.agent, run.id, run.status.is_terminal());
    let view = invocation(run, conversation.map(|id| id.0), usage);
    let response = match has_ended {
        true => ok::<InvocationView>(view)?.into_response(),
        false => accepted::<InvocationView>(view)?.into_response(),
    };
    Ok(with_location(response, agent, id))
}

/// Returns the answer about a run whose result was not asked for: 202, whether the run has ended or not.
pub(super) async fn started(app: &App, run: Run) -> Result<Response, ApiError> {
    let conversation = app.chat.conversation_of_run(run.project, run.id).await?;
    let (agent, id) = (run.agent, run.id);
    let without_result = Run { summary: None, output: None, error: None, ..run };
    let view = invocation(without_result, conversation.map(|id| id.0), None);
    Ok(with_location(accepted::<InvocationView>(view)?.into_response(), agent, id))
}

/// Streams the events of a run after a `seq`.
pub(super) fn stream(
    app: &App,
    caller: &Caller,
    permit: StreamPermit,
    (project, agent, run): (ProjectId, AgentId, RunId),
    after: i64,
) -> Response {
    let events = app.executor.follow(project, run, after);
    let events = events.filter(|event| ready(event.as_ref().map_or(true, is_for_callers)));
    let response = sse::stream_with(app, caller, permit, events.map(events::frame));
    with_location(response, agent, run)
}

fn with_location(mut response: Response, agent: AgentId, run: RunId) -> Response {
    // The path consists of letters, digits, slashes and hyphens.
    if let Ok(path) = HeaderValue::from_str(&result_path(agent, run)) {
        response.headers_mut().insert(header::LOCATION, path);
    }
    response
}
