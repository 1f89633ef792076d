//! The methods that both eras have: lists, resources, tools and prompts.

use std::sync::Arc;

use serde_json::{Value, json, value::RawValue};
use tokio::sync::mpsc;

use super::{
    CallOutcome, Era, Fault, Host, HostCall, JsonFields, Level, Reply, Request, RequestChannel, Server,
    params::Params,
    reply::reply_or_stream,
    request_channel,
    response::{self, CacheTtl},
    subscribe,
};
use crate::message::{RpcError, code};

/// How long a modern client may cache a list.
pub(super) const LIST_TTL: CacheTtl = CacheTtl::Millis(1_000);
/// The content of a resource must not be cached.
const READ_TTL: CacheTtl = CacheTtl::Millis(0);

impl<H: Host + ?Sized> Server<H> {
    /// Handles the methods of both eras.
    pub(super) async fn handle_request(&self, request: Request<'_, H::Caller>) -> Reply {
        let (host, caller, params) = (&*self.host, request.caller, &request.params);
        let with_ttl = |ttl: CacheTtl| move |fields: JsonFields| (ttl, fields);
        let require = |field, name| Params::require(field, name).map_err(Fault::Error);
        let outcome = match (request.method, &request.session) {
            ("tools/call" | "prompts/get", _) => return self.handle_call(request).await,
            ("tools/list", _) => host.tools(caller).await.map(|tools| (LIST_TTL, tools.list.clone())),
            ("prompts/list", _) => host.prompts(caller).await.map(with_ttl(LIST_TTL)),
            ("resources/list", _) => {
                host.resources(caller, params.cursor.as_deref()).await.map(with_ttl(LIST_TTL))
            }
            ("resources/templates/list", _) => host.templates(caller).await.map(with_ttl(LIST_TTL)),
            ("resources/read", _) => match require(&params.uri, "uri") {
                Ok(uri) => host.read(caller, uri).await.map(with_ttl(READ_TTL)),
                Err(fault) => Err(fault),
            },
            ("completion/complete", _) => {
                host.complete(caller, request.completion).await.map(with_ttl(CacheTtl::Unset))
            }
            ("ping", Some(_)) => Ok((CacheTtl::Unset, JsonFields::default())),
            ("logging/setLevel", Some(session)) => match params.level.as_deref().and_then(Level::parse) {
                Some(level) => {
                    *session.level.lock() = Some(level);
                    Ok((CacheTtl::Unset, JsonFields::default()))
                }
                None => Err(Fault::invalid("`params.level` must be a level of RFC 5424, such as `info`")),
            },
            ("resources/subscribe" | "resources/unsubscribe", Some(session)) => {
                let changed = match require(&params.uri, "uri") {
                    Ok(uri) if request.method == "resources/subscribe" => {
                        subscribe::add(host, caller, session, uri).await
                    }
                    Ok(uri) => subscribe::remove(host, session, uri),
                    Err(fault) => Err(fault),
                };
                changed.map(|()| (CacheTtl::Unset, JsonFields::default()))
            }
            _ => Err(Fault::MethodNotFound),
        };
        to_reply(request.id, request.era, outcome)
    }

    /// Handles a call of a tool or a prompt, which may send messages before its result, request input, take
    /// long, and be cancelled.
    pub(super) async fn handle_call(&self, request: Request<'_, H::Caller>) -> Reply {
        let Request { era, params, session, .. } = request;
        let name = match Params::require(&params.name, "name") {
            Ok(name) => name.to_owned(),
            Err(error) => return Reply::error(200, Some(request.id), &error),
        };
        let (out, frames) = mpsc::channel(request_channel::CHANNEL_CAPACITY);
        let (level, capabilities) = match &session {
            Some(session) => (*session.level.lock(), session.capabilities.clone()),
            None => (params.log_level().and_then(Level::parse), params.capabilities().map(ToOwned::to_owned)),
        };
        let progress = params.progress_token().map(ToOwned::to_owned);
        let call = HostCall {
            caller: request.caller.clone(),
            era,
            name,
            arguments: params.arguments,
            answers: params.answers,
            state: params.state,
            channel: RequestChannel { out, progress, level, capabilities, session: session.clone() },
        };
        let (host, id) = (Arc::clone(&self.host), request.id.to_owned());
        let is_tool = request.method == "tools/call";
        let in_progress = match session.map(|session| session.start_request(&id)) {
            None => None,
            Some(Some(in_progress)) => Some(in_progress),
            Some(None) => {
                let message =
                    format!("a request with the id `{}` is already in progress in this session", id.get());
                return Reply::error(200, Some(&id), &RpcError::new(code::INVALID_REQUEST, message));
            }
        };
        let work = async move {
            let host_call = async { if is_tool { host.call(call).await } else { host.prompt(call).await } };
            let outcome = match in_progress {
                None => host_call.await,
                Some(mut in_progress) => tokio::select! {
                    biased;
                    _ = &mut in_progress.cancelled => return None,
                    outcome = host_call => outcome,
                },
            };
            Some(match outcome {
                Ok(CallOutcome::Done(fields)) => to_reply(&id, era, Ok((CacheTtl::Unset, fields))),
                Ok(CallOutcome::NeedsInput { requests, state }) => {
                    input_required_reply(&id, era, requests, state)
                }
                Err(fault) => Reply::fault(&id, era, &fault),
            })
        };
        reply_or_stream(Box::pin(work), frames).await
    }
}

/// Serialises a result, or the error instead of one.
pub(super) fn to_reply(id: &RawValue, era: Era, outcome: Result<(CacheTtl, JsonFields), Fault>) -> Reply {
    match outcome {
        Ok((ttl, fields)) => Reply::json(200, response::result_text(id, era, ttl, &fields)),
        Err(fault) => Reply::fault(id, era, &fault),
    }
}

/// The reply to a call that needs input from a modern client.
fn input_required_reply(id: &RawValue, era: Era, requests: Value, state: Option<String>) -> Reply {
    if era == Era::Legacy {
        let fault = Fault::internal("a legacy client must be asked with a request, not with a result");
        return Reply::fault(id, era, &fault);
    }
    let mut result = json!({ "resultType": "input_required", "inputRequests": requests });
    if let Some(state) = state {
        result["requestState"] = state.into();
    }
    match JsonFields::from_object(&result) {
        Ok(fields) => Reply::json(200, response::question_text(id, &fields)),
        Err(fault) => Reply::fault(id, era, &fault),
    }
}
