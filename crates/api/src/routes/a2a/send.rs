//! Accepts messages: starts a task, goes on with a context, resumes a paused task, or answers a question.
//!
//! The same message is accepted once. Its `messageId` is a key like that of `Idempotency-Key`: the transaction that
//! accepts the message stores it, so that a client that repeats the message gets the same task.

use std::{sync::Arc, time::Duration};

use emergent_chat::{ContinuedConversation, ConversationRef};
use emergent_domain::{
    approval::{Choice, NewDecision},
    ids::{ChatMessageId, ConversationId, RunId},
    run::RunStatus,
    token::Scope,
};
use emergent_executor::{self as executor, Error, StartOptions, run_chains::RunChain};
use emergent_store::idempotency::{
    self, AcceptedRequest, KeyedRequest, MESSAGE_KIND, RequestKey, with_request,
};
use emergent_surfaces::{
    a2a::{
        error::{A2aError, ErrorKind},
        push::CheckedPushConfig,
        request::{ClientMessage, ContextRef, SendMessage, Subject, deleted_context, unknown_context},
        task::{open_question, rename_answer_fields},
        types::StreamResponse,
    },
    invoke::MAX_WAIT_SECONDS,
};
use serde_json::Value;
use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::{
    agent_call::AgentCall,
    failure::Result,
    push,
    tasks::{TaskAccess, chain_state, ids, load, load_shown, respond, show},
};
use crate::{ApiError, waiting::wait_for_run};

/// Accepts a message and returns its task, or the answer of an agent that answers with messages: when the task has ended
/// or needs an input, or at once if the client wants so.
pub(super) async fn send(call: &AgentCall, request: SendMessage) -> Result<StreamResponse> {
    let message = request.check()?;
    // Nothing is started for a caller that could not be answered.
    let _permit = match message.returns_immediately {
        true => None,
        false => Some(call.permit()?),
    };
    let task = accept(call, &message).await?;
    if message.returns_immediately {
        let chain = load_shown(call, task, message.history_length, TaskAccess::Change).await?;
        return Ok(StreamResponse::Task(show(&chain, message.history_length)));
    }
    let chain = load(call, task, TaskAccess::Change).await?;
    let limit = Duration::from_secs(MAX_WAIT_SECONDS);
    wait_for_run(&call.app, &call.caller, call.actor.project, chain.newest.id, limit).await?;
    let chain = load_shown(call, task, message.history_length, TaskAccess::Change).await?;
    Ok(respond(call, &chain, message.history_length))
}

/// Accepts a message once, and returns the id of its task.
pub(super) async fn accept(call: &AgentCall, message: &ClientMessage) -> Result<Uuid> {
    if let Some(push) = &message.push {
        push::check_address(call, "configuration.taskPushNotificationConfig.url", push)?;
    }
    let task = accept_once(call, message).await?;
    if let Some(push) = &message.push {
        // A client whose message was accepted just before the server was killed sends it again, and comes here.
        // Its configuration then replaces itself.
        let id = push.id.clone().unwrap_or_else(|| task.to_string());
        push::store(call, task, CheckedPushConfig { id: Some(id), ..push.clone() }).await?;
    }
    Ok(task)
}

async fn accept_once(call: &AgentCall, message: &ClientMessage) -> Result<Uuid> {
    let key = RequestKey {
        project: call.actor.project,
        token: call.caller.token.id,
        // A key of a client has only printable characters, so that none of them is one of these.
        key: format!("a2a\u{1f}{}\u{1f}{}", call.agent.id, message.id),
        digest: Sha256::digest(message.canonical.as_bytes()).to_vec(),
    };
    if let Some(accepted) = find_accepted(call, &key).await? {
        return repeated(call, message, &key, accepted).await;
    }
    let keyed = Arc::new(KeyedRequest::new(key.clone(), call.app.graph.clock().now(), |_| None));
    let started = with_request(Arc::clone(&keyed), start(call, message)).await;
    if !keyed.was_used() {
        return started;
    }
    // Another request with the same message was accepted meanwhile.
    match find_accepted(call, &key).await? {
        Some(accepted) => repeated(call, message, &key, accepted).await,
        None => started,
    }
}

async fn find_accepted(call: &AgentCall, key: &RequestKey) -> Result<Option<AcceptedRequest>> {
    let (key, now) = (key.clone(), call.app.graph.clock().now());
    Ok(call.app.graph.db().read(move |tx| idempotency::get(tx, &key, now)).await?)
}

/// The task of a message that was accepted before.
async fn repeated(
    call: &AgentCall,
    message: &ClientMessage,
    key: &RequestKey,
    accepted: AcceptedRequest,
) -> Result<Uuid> {
    if accepted.digest != key.digest {
        let reason = "was used for another message: use a new id for a new message";
        return Err(emergent_domain::invalid::Invalid::new("message.messageId", reason).into());
    }
    if let Subject::Task { id, .. } = message.subject {
        return Ok(id);
    }
    let (kind, id) = accepted.work;
    let run = match kind.as_str() {
        MESSAGE_KIND => call.app.chat.run_of_message(call.actor.project, ChatMessageId(id)).await?,
        _ => RunId(id),
    };
    Ok(run.0)
}

async fn start(call: &AgentCall, message: &ClientMessage) -> Result<Uuid> {
    match &message.subject {
        Subject::New => {
            take_start(call)?;
            let started = call.app.executor.invoke(call.actor, call.agent.id, options(message)).await;
            Ok(unless_invalid(call, started)?.id.0)
        }
        Subject::Context(context) => go_on(call, context, message).await,
        Subject::Task { id, context } => {
            let chain = load(call, *id, TaskAccess::Change).await?;
            if context.as_ref().is_some_and(|context| !context.is(&ids(&chain).context)) {
                let reason = "is not the context of the task in `message.taskId`";
                return Err(emergent_domain::invalid::Invalid::new("message.contextId", reason).into());
            }
            to_task(call, &chain, message).await?;
            Ok(*id)
        }
    }
}

/// Counts a start for the rate limit of the token.
fn take_start(call: &AgentCall) -> Result<()> {
    Ok(call.app.invoke_rate.take(call.caller.token.id, call.agent.id)?)
}

/// Takes back the count of a start that was refused.
fn unless_invalid<T>(call: &AgentCall, started: executor::Result<T>) -> executor::Result<T> {
    call.app.invoke_rate.unless_invalid(call.caller.token.id, call.agent.id, started)
}

fn options(message: &ClientMessage) -> StartOptions {
    StartOptions { input: message.text.clone(), ..StartOptions::default() }
}

/// Starts a new task in a context of an earlier task, or in one that the client names.
async fn go_on(call: &AgentCall, context: &ContextRef, message: &ClientMessage) -> Result<Uuid> {
    take_start(call)?;
    let of_others = call.caller.token.scopes.contains(&Scope::ChatUse);
    let (conversation, unusable): (_, fn() -> A2aError) = match context {
        ContextRef::Server(id) => (ConversationRef::Id(ConversationId(*id)), unknown_context),
        ContextRef::Client(name) => (ConversationRef::Name(name.clone()), deleted_context),
    };
    let continued = ContinuedConversation { conversation, agent: call.agent.id, of_others };
    let sent = call.app.chat.invoke(call.actor, continued, options(message)).await;
    let sent = match unless_invalid(call, sent) {
        Ok(sent) => sent,
        Err(Error::NotFound { what: "conversation", .. }) => return Err(unknown_context().into()),
        Err(Error::Invalid(invalid)) if invalid.problems.iter().any(|one| one.field == "conversationId") => {
            return Err(unusable().into());
        }
        Err(Error::Conflict(message) | Error::BudgetUsedUp(message)) => {
            return Err(A2aError::new(ErrorKind::UnsupportedOperation, message).into());
        }
        Err(error) => return Err(error.into()),
    };
    let run =
        sent.message.run.ok_or_else(|| ApiError::internal_text("a message was stored without its run"))?;
    Ok(run.0)
}

/// Passes a message on to a task: it resumes a paused one, or answers a question.
async fn to_task(call: &AgentCall, chain: &RunChain, message: &ClientMessage) -> Result<()> {
    let task = chain.first.id.0;
    let done = match chain.newest.status {
        RunStatus::Paused if !chain_state(chain).is_terminal() => {
            take_start(call)?;
            let input = Some(message.text.clone());
            call.app.executor.resume(call.actor, chain.newest.id, input).await.map(|_| ())
        }
        RunStatus::Waiting => {
            let Some(asked) = open_question(&chain.requests) else {
                let message = "the task waits for an approval, which a person of the project gives";
                return Err(unsupported(task, message));
            };
            let is_typed = asked.question.as_ref().is_some_and(|asked| asked.response_schema.is_some());
            let text = Value::String(message.text.clone());
            let answer = message.data.clone().filter(|_| is_typed).unwrap_or(text);
            let decision = NewDecision {
                choice: Choice::Answer,
                edited_input: None,
                answer: Some(answer),
                reason: None,
                digest: Some(asked.digest.clone()),
            };
            let by = call.caller.token.id;
            call.app.executor.decide_approval(call.actor.project, asked.id, decision, by).await.map(|_| ())
        }
        RunStatus::Queued | RunStatus::Running => {
            let message = "the task is being worked on: wait until it has ended or asks for an input";
            return Err(unsupported(task, message));
        }
        status => {
            let message = format!(
                "task `{task}` has ended, its run is {status}: send the message with its contextId and without a \
                 taskId to go on in a new task"
            );
            return Err(unsupported(task, message));
        }
    };
    match done {
        Ok(()) => Ok(()),
        // Somebody else resumed the run or answered the question.
        Err(Error::Conflict(message) | Error::BudgetUsedUp(message)) => Err(unsupported(task, message)),
        Err(error @ Error::Decided(_)) => Err(unsupported(task, error.to_string())),
        Err(Error::Invalid(invalid)) => Err(rename_answer_fields(invalid).into()),
        Err(error) => Err(error.into()),
    }
}

fn unsupported(id: Uuid, message: impl Into<String>) -> super::failure::A2aFailure {
    A2aError::new(ErrorKind::UnsupportedOperation, message).with("taskId", id.to_string()).into()
}
