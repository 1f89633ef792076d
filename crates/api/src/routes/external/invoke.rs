//! Starts an external agent.

use std::time::Duration;

use axum::{Extension, extract::State, response::Response};
use emergent_chat::{ContinuedConversation, ConversationRef};
use emergent_domain::{
    agent::Visibility,
    ids::{AgentId, ConversationId, RunId},
    token::Scope,
};
use emergent_executor::StartOptions;
use emergent_graph::Actor;
use emergent_surfaces::invoke::{AnswerMode, answer_mode};

use super::result::{answer, started, stream};
use crate::{
    ApiError, App,
    auth::{AsActor, Caller},
    error::Failure,
    extract::{AgentPath, Json},
    idempotency::{AcceptedMessage, AcceptedRun},
    request_context::RequestContext,
    response::Envelope,
    views::{
        invoke::{InvocationView, InvokeAgent},
        run_event::RunEventView,
    },
    waiting::{self, wait_for_run},
};

/// What a request with the same `Idempotency-Key` started before.
pub(crate) type Accepted = (Option<Extension<AcceptedRun>>, Option<Extension<AcceptedMessage>>);

/// Starts an external agent. The answer comes at once, after the end of the run (`wait`), or as the stream of its
/// events (`stream`). An agent that is not external is refused with 403. `conversationId` goes on with a conversation.
#[utoipa::path(
    post, path = "/api/agents/{agentId}/invoke", tag = "external", operation_id = "invokeAgent",
    params(("agentId" = String, Path, description = "The id or the name of an agent")), request_body = InvokeAgent,
    responses(
        (
            status = 200, description = "The run has ended; or its events, with `stream`",
            content((Envelope<InvocationView> = "application/json"), (RunEventView = "text/event-stream")),
        ),
        (
            status = 202, body = Envelope<InvocationView>,
            description = "The run has not ended, or the request has neither `wait` nor `stream`; `links` says where to look",
        ),
        (status = 403, description = "`missing_scope`, or `forbidden`: the agent is not external", body = Failure),
        (status = 429, description = "`rate_limited`: this token started this agent too often; or `overloaded`", body = Failure),
    ),
)]
pub(super) async fn invoke(
    State(app): State<App>,
    caller: Caller,
    AsActor(actor): AsActor,
    AgentPath(agent): AgentPath,
    accepted: Accepted,
    context: Option<Extension<RequestContext>>,
    Json(body): Json<InvokeAgent>,
) -> Result<Response, ApiError> {
    let mode = answer_mode(&body)?;
    // Nothing is started for a caller that could not be answered.
    let permit = match mode {
        AnswerMode::Started | AnswerMode::Wait(0) => None,
        _ => Some(waiting::permit(&app, &caller, context.as_ref().map(|Extension(context)| context))?),
    };
    let run = match accepted_run(&app, actor, accepted).await? {
        Some(run) => run,
        None => start(&app, &caller, actor, agent, body).await?,
    };
    match (mode, permit) {
        (AnswerMode::Stream, Some(permit)) => {
            Ok(stream(&app, &caller, permit, (actor.project, agent, run), 0))
        }
        (AnswerMode::Stream, None) => Err(ApiError::internal_text("a stream has no permit")),
        (AnswerMode::Started, _permit) => {
            started(&app, app.executor.get_run(actor.project, run).await?).await
        }
        (AnswerMode::Wait(seconds), _permit) => {
            let limit = Duration::from_secs(seconds);
            let run = wait_for_run(&app, &caller, actor.project, run, limit).await?;
            answer(&app, run).await
        }
    }
}

/// Returns the run of a request that was accepted before with the same key.
pub(crate) async fn accepted_run(
    app: &App,
    actor: Actor,
    accepted: Accepted,
) -> Result<Option<RunId>, ApiError> {
    Ok(match accepted {
        (Some(Extension(AcceptedRun(run))), _) => Some(run),
        (None, Some(Extension(AcceptedMessage(message)))) => {
            Some(app.chat.run_of_message(actor.project, message).await?)
        }
        (None, None) => None,
    })
}

async fn start(
    app: &App,
    caller: &Caller,
    actor: Actor,
    agent: AgentId,
    body: InvokeAgent,
) -> Result<RunId, ApiError> {
    check_start(app, caller, actor, agent).await?;
    let start = StartOptions { input: body.input, context: body.context, ..StartOptions::default() };
    let Some(id) = body.conversation_id.map(ConversationId) else {
        let started = app.executor.invoke(actor, agent, start).await;
        return Ok(app.invoke_rate.unless_invalid(caller.token.id, agent, started)?.id);
    };
    let of_others = caller.token.scopes.contains(&Scope::ChatUse);
    let conversation = ConversationRef::Id(id);
    let continued = ContinuedConversation { conversation, agent, of_others };
    let sent = app.chat.invoke(actor, continued, start).await;
    let sent = app.invoke_rate.unless_invalid(caller.token.id, agent, sent)?;
    sent.message.run.ok_or_else(|| ApiError::internal_text("a message was stored without its run"))
}

/// Refuses an agent that is not external, and counts the start for the rate limit of the token. The visibility is
/// checked again in the transaction that starts the run.
pub(crate) async fn check_start(
    app: &App,
    caller: &Caller,
    actor: Actor,
    agent: AgentId,
) -> Result<(), ApiError> {
    let found = app.executor.get_agent(actor.project, agent).await?;
    check_external(found.definition.visibility, &found.definition.name)?;
    app.invoke_rate.take(caller.token.id, agent)
}

pub(crate) fn check_external(visibility: Visibility, name: &str) -> Result<(), ApiError> {
    match visibility {
        Visibility::External => Ok(()),
        Visibility::Project | Visibility::Internal => Err(ApiError::forbidden(format!(
            "agent `{name}` cannot be started from outside: its visibility is not `external`"
        ))),
    }
}
