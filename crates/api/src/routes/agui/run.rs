//! Starts a run for a client of AG-UI, or follows the one that its ids name.

use axum::{Extension, extract::State, response::Response};
use emergent_domain::{
    approval::ApprovalKind,
    ids::{AgentId, RunId},
    run::Run,
};
use emergent_executor::{Error as ExecutorError, StartOptions};
use emergent_graph::Actor;
use emergent_store::{
    Tx,
    agui_runs::{self, AguiRun, AguiThread},
};
use emergent_surfaces::agui::{
    event::{Event, refusal},
    request::RunAgentInput,
    stream::{ClientIds, EventStream},
    tools::rename_tool_fields,
};
use futures_util::{StreamExt, stream};

use super::{Refusal, frames::frames, results, resume};
use crate::{
    ApiError, App,
    auth::{AsActor, Caller},
    error::Failure,
    extract::{AgentPath, Json},
    request_context::RequestContext,
    routes::external::invoke::check_external,
    sse,
    stream_limit::with_guard,
    waiting,
};

/// Starts an external agent and streams its events as AG-UI names them. The same `runId` of the same `threadId` follows
/// the same run from the beginning, and never starts a second one. A run that waits for a person ends the stream with an
/// interrupt; a request with `resume` decides or answers, and streams the rest. A run that calls `tools` of its client
/// ends the stream with these calls; a request whose messages end with their results streams the rest. A run goes on when
/// its client disconnects.
#[utoipa::path(
    post, path = "/api/agents/{agentId}/agui", tag = "external", operation_id = "runAgentAgui",
    params(("agentId" = String, Path, description = "The id or the name of an agent")), request_body = RunAgentInput,
    responses(
        (status = 200, description = "The events of AG-UI", body = Event, content_type = "text/event-stream"),
        (status = 403, description = "`missing_scope`, also of `approvals:decide` to approve a call; or `forbidden`: the agent is not external", body = Failure),
        (status = 429, description = "`rate_limited`: this token started this agent too often; or `overloaded`", body = Failure),
    ),
)]
pub(super) async fn run(
    State(app): State<App>,
    caller: Caller,
    AsActor(actor): AsActor,
    AgentPath(agent): AgentPath,
    context: Option<Extension<RequestContext>>,
    Json(body): Json<RunAgentInput>,
) -> Result<Response, ApiError> {
    body.check()?;
    let found = app.executor.get_agent(actor.project, agent).await?;
    check_external(found.definition.visibility, &found.definition.name)?;
    // Nothing is started for a caller that could not be answered.
    let permit = waiting::permit(&app, &caller, context.as_ref().map(|Extension(context)| context))?;
    let thread =
        AguiThread { project: actor.project, token: caller.token.id, agent, id: body.thread_id.clone() };
    let part = match find(&app, &thread, &body.run_id).await? {
        Some(part) => part,
        None => match accept(&app, &caller, actor, &thread, &body).await {
            Ok(part) => part,
            Err(Refusal::Request(error)) => return Err(error),
            Err(Refusal::Protocol { code, message }) => {
                let events = refusal(&body.thread_id, &body.run_id, code, message);
                let frames = stream::iter(events.map(|event| sse::frame(None, &event)));
                return Ok(sse::stream_with(&app, &caller, permit, frames));
            }
        },
    };
    let run = app.executor.get_run(actor.project, part.run).await?;
    let (thread, client_run) = (body.thread_id.clone(), body.run_id.clone());
    let ids = ClientIds { thread, run: client_run, parent_run: body.parent_run_id.clone() };
    // The stream may last for hours, and needs no text of the run: the events have it.
    let run = Run { summary: None, output: None, ..run };
    let events = EventStream::new(run, ids, body.into_echo(), part.after_seq > 0);
    // The stream holds the messages of the request until it ends, as texts.
    let mut held = context.and_then(|Extension(context)| context.take_body());
    if let Some(held) = &mut held {
        held.shrink(events.message_bytes());
    }
    let frames = frames(&app, part, events).map(|event| sse::frame(None, &event));
    let frames = with_guard(frames, held);
    Ok(sse::stream_with(&app, &caller, permit, frames))
}

/// Returns the part of a run that these ids name.
pub(super) async fn find(
    app: &App,
    thread: &AguiThread,
    client_run: &str,
) -> Result<Option<AguiRun>, ApiError> {
    let (thread, client_run) = (thread.clone(), client_run.to_owned());
    Ok(app.graph.db().read(move |tx| agui_runs::get(tx, &thread, &client_run)).await?)
}

/// Starts a run, or goes on with one that was interrupted or that called tools of its client.
async fn accept(
    app: &App,
    caller: &Caller,
    actor: Actor,
    thread: &AguiThread,
    body: &RunAgentInput,
) -> Result<AguiRun, Refusal> {
    let results = body.results()?;
    let accepted = match (body.responses(), results.as_slice()) {
        ([], []) => start(app, caller, actor, thread, body).await,
        ([], results) => results::continue_run(app, actor, thread, &body.run_id, results).await,
        (responses, _) => resume::resume(app, caller, actor, thread, &body.run_id, responses).await,
    };
    match accepted {
        // Another request with the same ids was faster.
        Err(Refusal::Request(error)) => match find(app, thread, &body.run_id).await? {
            Some(part) => Ok(part),
            None => Err(Refusal::Request(error)),
        },
        accepted => accepted,
    }
}

async fn start(
    app: &App,
    caller: &Caller,
    actor: Actor,
    thread: &AguiThread,
    body: &RunAgentInput,
) -> Result<AguiRun, Refusal> {
    let start = body.start()?;
    let asked = thread.clone();
    let mut open = app.graph.db().read(move |tx| agui_runs::list_open_requests(tx, &asked)).await?;
    // A user may say something else while the client has not sent the results of its tools.
    open.retain(|request| request.kind != ApprovalKind::ClientTool);
    if !open.is_empty() {
        let ids: Vec<String> = open.iter().map(|request| format!("`{}`", request.id)).collect();
        return Err(Refusal::protocol(
            "interrupts_open",
            format!(
                "this thread has open interrupts: send `resume` with a response to each of {}",
                ids.join(", ")
            ),
        ));
    }
    app.invoke_rate.take(caller.token.id, thread.agent)?;
    let options = StartOptions {
        input: start.input,
        context: start.context,
        history: start.history,
        client_tools: start.client_tools,
        ..StartOptions::default()
    };
    let part = new_part(app, thread, &body.run_id, RunId::new(), 0);
    let row = part.clone();
    let write = move |tx: &mut Tx<'_>, run: RunId| insert(tx, &AguiRun { run, ..row.clone() });
    let agent: AgentId = thread.agent;
    let started = app.executor.invoke_with(actor, agent, options, write).await;
    let started = app.invoke_rate.unless_invalid(caller.token.id, agent, started);
    let run = started.map_err(|error| match error {
        ExecutorError::Invalid(invalid) => rename_tool_fields(invalid).into(),
        error => ApiError::from(error),
    })?;
    Ok(AguiRun { run: run.id, ..part })
}

/// A part of a run that has not ended.
pub(super) fn new_part(
    app: &App,
    thread: &AguiThread,
    client_run: &str,
    run: RunId,
    after_seq: i64,
) -> AguiRun {
    AguiRun {
        thread: thread.clone(),
        client_run: client_run.to_owned(),
        run,
        after_seq,
        ended_seq: None,
        interrupts: Vec::new(),
        created_at: app.graph.clock().now(),
    }
}

/// Inserts a part in the transaction that makes it. Fails if another request with the same ids was faster.
pub(super) fn insert(tx: &mut Tx<'_>, part: &AguiRun) -> Result<(), ExecutorError> {
    match agui_runs::insert(tx, part)? {
        true => Ok(()),
        false => Err(ExecutorError::Conflict(format!("run `{}` of this thread exists", part.client_run))),
    }
}
