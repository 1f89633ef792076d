//! What may be asked in both eras: lists, resources, and the work of tools and prompts.

use std::sync::Arc;

use serde_json::{Value, json, value::RawValue};
use tokio::sync::mpsc;

use super::{
    Call, Era, Fault, Fields, Host, Level, Link, Outcome, Reply, Request, Server,
    answer::{self, Keep},
    link,
    params::{self, Params},
    reply::when_done,
    subscribe,
};
use crate::message::{RpcError, code};

/// How long a modern client may use a list again.
pub(super) const LIST: Keep = Keep::Millis(1_000);
const READ: Keep = Keep::Millis(0);

impl<H: Host + ?Sized> Server<H> {
    /// What both eras ask.
    pub(super) async fn request(&self, request: Request<'_, H::Caller>) -> Reply {
        let (host, caller, params) = (&*self.host, request.caller, &request.params);
        let kept = |keep: Keep| move |fields: Fields| (keep, fields);
        let needed = |field, what| Params::needed(field, what).map_err(Fault::Error);
        let done = match (request.method, &request.session) {
            ("tools/call" | "prompts/get", _) => return self.work(request).await,
            ("tools/list", _) => host.tools(caller).await.map(|offer| (LIST, offer.list.clone())),
            ("prompts/list", _) => host.prompts(caller).await.map(kept(LIST)),
            ("resources/list", _) => host.resources(caller, params.cursor.as_deref()).await.map(kept(LIST)),
            ("resources/templates/list", _) => host.templates(caller).await.map(kept(LIST)),
            ("resources/read", _) => match needed(&params.uri, "uri") {
                Ok(uri) => host.read(caller, uri).await.map(kept(READ)),
                Err(fault) => Err(fault),
            },
            ("completion/complete", _) => {
                host.complete(caller, params::value(request.raw)).await.map(kept(Keep::Unsaid))
            }
            ("ping", Some(_)) => Ok((Keep::Unsaid, Fields::default())),
            ("logging/setLevel", Some(session)) => match params.level.as_deref().and_then(Level::parse) {
                Some(level) => {
                    *session.level.lock() = Some(level);
                    Ok((Keep::Unsaid, Fields::default()))
                }
                None => Err(Fault::invalid("`params.level` must be a level of RFC 5424, such as `info`")),
            },
            ("resources/subscribe" | "resources/unsubscribe", Some(session)) => {
                let done = match needed(&params.uri, "uri") {
                    Ok(uri) if request.method == "resources/subscribe" => {
                        subscribe::add(host, caller, session, uri).await
                    }
                    Ok(uri) => subscribe::remove(host, session, uri),
                    Err(fault) => Err(fault),
                };
                done.map(|()| (Keep::Unsaid, Fields::default()))
            }
            _ => Err(Fault::NoMethod),
        };
        finish(request.id, request.era, done)
    }

    /// A tool or a prompt: may say things on the way, may ask, may take long, may be cancelled.
    pub(super) async fn work(&self, request: Request<'_, H::Caller>) -> Reply {
        let Request { era, params, session, .. } = request;
        let name = match Params::needed(&params.name, "name") {
            Ok(name) => name.to_owned(),
            Err(error) => return Reply::error(200, Some(request.id), &error),
        };
        let (out, heard) = mpsc::channel(link::WAITING);
        let (level, capabilities) = match &session {
            Some(session) => (*session.level.lock(), session.capabilities.clone()),
            None => (params.log_level().and_then(Level::parse), params.capabilities().map(ToOwned::to_owned)),
        };
        let progress = params.progress_token().map(ToOwned::to_owned);
        let call = Call {
            caller: request.caller.clone(),
            era,
            name,
            arguments: params::value(params.arguments),
            answers: params::value(params.answers),
            state: params.state.map(|state| state.into_owned()),
            link: Link { out, progress, level, capabilities, session: session.clone() },
        };
        let (host, id) = (Arc::clone(&self.host), request.id.to_owned());
        let is_tool = request.method == "tools/call";
        let running = match session.map(|session| session.begin(&id)) {
            None => None,
            Some(Some(running)) => Some(running),
            Some(None) => {
                let message =
                    format!("a request with the id `{}` is being worked on in this session", id.get());
                return Reply::error(200, Some(&id), &RpcError::new(code::INVALID_REQUEST, message));
            }
        };
        let work = async move {
            let doing = async { if is_tool { host.call(call).await } else { host.prompt(call).await } };
            let done = match running {
                None => doing.await,
                Some(mut running) => tokio::select! {
                    biased;
                    _ = &mut running.cancelled => return None,
                    done = doing => done,
                },
            };
            Some(match done {
                Ok(Outcome::Done(fields)) => finish(&id, era, Ok((Keep::Unsaid, fields))),
                Ok(Outcome::Ask { requests, state }) => ask(&id, era, requests, state),
                Err(fault) => Reply::fault(&id, era, &fault),
            })
        };
        when_done(Box::pin(work), heard).await
    }
}

pub(super) fn finish(id: &RawValue, era: Era, done: Result<(Keep, Fields), Fault>) -> Reply {
    match done {
        Ok((keep, fields)) => Reply::json(200, answer::result(id, era, keep, &fields)),
        Err(fault) => Reply::fault(id, era, &fault),
    }
}

fn ask(id: &RawValue, era: Era, requests: Value, state: Option<String>) -> Reply {
    if era == Era::Legacy {
        let fault = Fault::internal("a client of the old era is asked by a request, not by an answer");
        return Reply::fault(id, era, &fault);
    }
    let mut result = json!({ "resultType": "input_required", "inputRequests": requests });
    if let Some(state) = state {
        result["requestState"] = state.into();
    }
    match Fields::of(&result) {
        Ok(fields) => Reply::json(200, answer::question(id, &fields)),
        Err(fault) => Reply::fault(id, era, &fault),
    }
}
