//! The protocol of a server, with both eras on one endpoint. It is independent of any HTTP library and
//! of the offered tools: a [`Host`] provides those, and the caller turns a [`Reply`] into an HTTP
//! response.
//!
//! A request is handled inside the future that received it, without a separate task. Dropping that
//! future, or the stream that its response became, cancels the request.

mod era;
mod fault;
mod host;
mod listen;
mod methods;
mod params;
mod posted_message;
mod reply;
mod request_channel;
mod response;
mod session;
mod streams;
mod subscribe;
mod tool_list;

use std::sync::Arc;

use reqwest::header::HeaderMap;
use serde_json::{Value, json, value::RawValue};

pub use era::Era;
pub use fault::Fault;
pub use host::{CallOutcome, Host, HostCall, ListKind, ServerInfo, SubscribedResources};
pub use posted_message::PostedMessage;
pub use reply::{Reply, ReplyBody};
pub use request_channel::{Level, RequestChannel};
pub use response::JsonFields;
pub use tool_list::{Annotations, MirroredParameter, Tool, ToolList};

use self::{
    methods::{LIST_TTL, to_reply},
    params::Params,
    posted_message::ParsedMessage,
    response::CacheTtl,
    session::{Session, Sessions},
    streams::StreamCounts,
};
use crate::message::{Kind, LEGACY, MODERN, RpcError, meta};

/// The header with the id of a legacy session.
const SESSION: &str = "mcp-session-id";

/// The error code for a request without a valid session. MCP defines none, so it is one of the codes that
/// JSON-RPC leaves to servers.
const NO_SESSION: i64 = -32000;

/// The endpoint for one host.
pub struct Server<H: Host + ?Sized> {
    host: Arc<H>,
    sessions: Sessions<H::Caller>,
    streams: StreamCounts<H::Caller>,
}

/// A valid request of either era.
struct Request<'a, C> {
    caller: &'a C,
    headers: &'a HeaderMap,
    era: Era,
    id: &'a RawValue,
    method: &'a str,
    params: Params,
    /// All parameters of `completion/complete`.
    completion: Value,
    session: Option<Arc<Session>>,
}

impl<H: Host + ?Sized> Server<H> {
    /// Creates an endpoint without sessions.
    pub fn new(host: Arc<H>) -> Self {
        Self { host, sessions: Sessions::default(), streams: StreamCounts::default() }
    }

    /// Handles a posted message.
    pub async fn post(&self, caller: &H::Caller, headers: &HeaderMap, body: &[u8]) -> Reply {
        self.handle(caller, headers, PostedMessage::parse(body)).await
    }

    /// Handles a posted message that the caller has parsed: a large one on a thread for such work.
    pub async fn handle(&self, caller: &H::Caller, headers: &HeaderMap, message: PostedMessage) -> Reply {
        let message = match message.0 {
            Ok(message) => message,
            Err(error) => return Reply::error(400, None, &error),
        };
        let era = era::detect(headers, message.method.as_deref(), &message.params);
        let ParsedMessage { id: Some(id), method: Some(method), params, params_error, completion, .. } =
            message
        else {
            return match era {
                // A modern client has no notifications to send: closing the stream cancels a request.
                Era::Modern => Reply::empty(202),
                Era::Legacy => self.handle_notification(caller, headers, message),
            };
        };
        let (id, method) = (&*id, method.as_str());
        let refusal = match (params_error, era) {
            (Some(error), _) => Some(error),
            (None, Era::Modern) => era::check_headers(headers, method, &params).err(),
            (None, Era::Legacy) => None,
        };
        if let Some(error) = refusal {
            let status = if era == Era::Modern { 400 } else { 200 };
            return Reply::error(status, Some(id), &error);
        }
        let request = Request { caller, headers, era, id, method, params, completion, session: None };
        match era {
            Era::Modern => self.handle_modern(request).await,
            Era::Legacy if method == "initialize" => self.initialize(&request),
            Era::Legacy => match self.session(caller, headers) {
                Ok(session) => self.handle_request(Request { session: Some(session), ..request }).await,
                Err(status) => {
                    let error = RpcError::new(NO_SESSION, no_session_message(status));
                    Reply::error(status, Some(id), &error)
                }
            },
        }
    }

    /// Opens the stream of a session; the modern era has none.
    pub fn get(&self, caller: &H::Caller, headers: &HeaderMap) -> Reply {
        match self.session(caller, headers) {
            Ok(session) => {
                let end = session.listen().ended();
                let declared = self.host.server_info().capabilities.clone();
                let updates = self.host.updates(caller, session.subscribed.subscribe());
                let notices = listen::merge_changes(self.host.changes(caller), updates);
                Reply::changes(listen::session_stream(declared, notices, end))
            }
            Err(status) => no_session_reply(status),
        }
    }

    /// Ends a session.
    pub fn delete(&self, caller: &H::Caller, headers: &HeaderMap) -> Reply {
        match self.session(caller, headers) {
            Ok(session) => {
                self.sessions.end(&session, caller);
                Reply::empty(204)
            }
            Err(status) => no_session_reply(status),
        }
    }

    /// Handles a notification or a response of the legacy era.
    fn handle_notification(&self, caller: &H::Caller, headers: &HeaderMap, message: ParsedMessage) -> Reply {
        let session = match self.session(caller, headers) {
            Ok(session) => session,
            Err(status) => return Reply::json(status, response::refusal_text(no_session_message(status))),
        };
        match (message.kind, message.method.as_deref()) {
            (Kind::Response, _) => {
                if let Some(id) = &message.id {
                    session.resolve_question(id, message.reply);
                }
            }
            (_, Some("notifications/cancelled")) => {
                if let Some(id) = &message.params.request {
                    session.cancel(id);
                }
            }
            _ => {}
        }
        Reply::empty(202)
    }

    /// Returns the caller's session, or the status of the error: no session is named, or it does not exist.
    fn session(&self, caller: &H::Caller, headers: &HeaderMap) -> Result<Arc<Session>, u16> {
        let id = era::header(headers, SESSION).ok_or(400_u16)?;
        self.sessions.get(id, caller).ok_or(404)
    }

    fn initialize(&self, request: &Request<'_, H::Caller>) -> Reply {
        let requested = request.params.protocol_version.as_deref().unwrap_or_default();
        let version = LEGACY.iter().find(|version| **version == requested).unwrap_or(&LEGACY[0]);
        let info = self.host.server_info();
        let mut result = json!({
            "protocolVersion": version, "capabilities": info.capabilities, "serverInfo": info.server,
        });
        add_instructions(&mut result, info);
        let project = self.host.project(request.caller);
        let capabilities = request.params.capabilities.as_deref();
        let session = match self.sessions.start(request.caller.clone(), project, capabilities) {
            Ok(session) => session,
            Err(fault) => return Reply::fault(request.id, request.era, &fault),
        };
        let reply = to_reply(
            request.id,
            request.era,
            JsonFields::from_object(&result).map(|fields| (CacheTtl::Unset, fields)),
        );
        Reply { session: Some(session.id.clone()), ..reply }
    }

    async fn handle_modern(&self, request: Request<'_, H::Caller>) -> Reply {
        let info = self.host.server_info();
        match request.method {
            "server/discover" => {
                let versions: Vec<_> = [MODERN].into_iter().chain(LEGACY).collect();
                let mut result = json!({
                    "supportedVersions": versions,
                    "capabilities": info.capabilities,
                    "_meta": { meta::SERVER_INFO: info.server },
                });
                add_instructions(&mut result, info);
                to_reply(
                    request.id,
                    request.era,
                    JsonFields::from_object(&result).map(|fields| (LIST_TTL, fields)),
                )
            }
            "subscriptions/listen" => {
                let requested = request.params.notifications.as_ref().unwrap_or(&Value::Null);
                let mut accepted = listen::accepted_lists(requested, &info.capabilities);
                let subscribed = match subscribe::from_request(&*self.host, request.caller, requested).await {
                    Ok(subscribed) => subscribed,
                    Err(fault) => return Reply::fault(request.id, request.era, &fault),
                };
                if !subscribed.is_empty() {
                    accepted
                        .insert(subscribe::REQUEST_FIELD.to_owned(), subscribed.keys().cloned().collect());
                }
                let open = match self.streams.open(request.caller) {
                    Ok(open) => open,
                    Err(fault) => return Reply::fault(request.id, request.era, &fault),
                };
                let updates = subscribe::updates(&*self.host, request.caller, subscribed);
                let notices =
                    open.attach_to(listen::merge_changes(self.host.changes(request.caller), updates));
                Reply::changes(listen::subscription_stream(request.id, accepted, notices))
            }
            "tools/call" => {
                let name = request.params.name.as_deref().unwrap_or_default();
                let tools = match self.host.tools(request.caller).await {
                    Ok(tools) => tools,
                    Err(fault) => return Reply::fault(request.id, request.era, &fault),
                };
                let mirrored = tools.mirrored(name);
                if !mirrored.is_empty() {
                    let arguments = &request.params.arguments;
                    if let Err(error) = era::check_mirrored(request.headers, mirrored, arguments) {
                        return Reply::error(400, Some(request.id), &error);
                    }
                }
                self.handle_call(request).await
            }
            _ => self.handle_request(request).await,
        }
    }
}

fn add_instructions(result: &mut Value, info: &ServerInfo) {
    if let Some(text) = &info.instructions {
        result["instructions"] = text.as_str().into();
    }
}

/// The text for a status of [`Server::session`]: 404 for an unknown session, 400 if none is named.
fn no_session_message(status: u16) -> &'static str {
    match status {
        404 => "this session does not exist; send `initialize` again",
        _ => "send `initialize` first, and the header `Mcp-Session-Id` with all later requests",
    }
}

/// The reply to GET and DELETE without a valid session: 404 for an unknown session; 405 if none is named,
/// because only sessions have these methods.
fn no_session_reply(status: u16) -> Reply {
    match status {
        404 => Reply::json(404, response::refusal_text(no_session_message(404))),
        _ => {
            Reply::json(405, response::refusal_text("GET and DELETE need a session; send requests with POST"))
        }
    }
}
