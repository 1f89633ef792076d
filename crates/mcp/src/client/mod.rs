//! A client for MCP servers over stdio, streamable HTTP in both eras, and HTTP with server-sent events. One
//! connection carries any number of concurrent calls. The size and rate of everything that a server sends is
//! limited, and a call ends at its timeout at the latest.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use emergent_domain::foreign_json;
use parking_lot::RwLock;
use serde_json::{Map, Value, json, value::RawValue};
use tokio::{sync::watch, task::AbortHandle, time::timeout};

mod body;
mod calls;
mod connect;
mod era;
mod error;
mod headers;
mod http;
mod inbox;
mod input;
mod legacy_sse;
mod lines;
mod listing;
mod open_calls;
mod pending;
mod process;
mod sandbox;
mod spawner;
mod stdio;
#[cfg(target_os = "linux")]
mod supervisor;
mod tools;
mod transport;

#[cfg(target_os = "linux")]
pub use self::supervisor::run_if_requested as run_supervisor_if_requested;
pub use emergent_net::{
    call_clock::{CallClock, ClockPause},
    large_messages::{HeldMessage, LargeMessages},
};

pub use self::{
    calls::CallOptions,
    era::Era,
    error::Error,
    http::Endpoint,
    inbox::{NoRequestHandler, OnProgress, RequestHandler},
    input::{CallInput, Form, FormAnswer, InputHandler},
    process::Program,
    sandbox::{Hidden, Sandbox},
    tools::{Progress, RemoteCallResult, RemoteTool},
};
use self::{
    inbox::Inbox,
    listing::{MAX_PAGES, ToolListing},
    transport::{Reply, Request, Transport},
};
use crate::message::{MODERN, OutgoingMessage, meta};

/// The maximum number of rounds of requested input in one call.
const MAX_INPUT_ROUNDS: usize = 10;
/// How long the notification that cancels a request may take.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(5);

/// The transport to a server, with its program or address.
#[derive(Clone)]
pub enum Target {
    Stdio(Program),
    /// Streamable HTTP; a server that accepts no POST is tried as `Sse`.
    Http(Endpoint),
    /// HTTP with server-sent events, of 2024-11-05.
    Sse(Endpoint),
}

/// The settings of a connection.
#[derive(Clone)]
pub struct ClientOptions {
    pub client_name: String,
    pub client_version: String,
    /// The maximum size of one message or one body.
    pub max_message_bytes: usize,
    /// The limits for large messages, which connections share.
    pub large_messages: LargeMessages,
    /// The timeout of the whole connection setup.
    pub connect_timeout: Duration,
    /// How long a program may stay silent before it counts as a legacy server.
    pub probe_timeout: Duration,
    /// Answers requests that the server sends to this client.
    pub request_handler: Arc<dyn RequestHandler>,
    /// Whether calls of this connection may ask a person for input. It is declared to legacy servers when the
    /// connection is opened, and to modern ones with each call that has somebody to ask.
    pub asks_for_input: bool,
    /// Called before a program is started, which connecting may do more than once.
    pub on_start: Arc<dyn Fn() + Send + Sync>,
    /// Receives the lines that a program writes to its standard error.
    pub on_stderr: Arc<dyn Fn(&str) + Send + Sync>,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            client_name: "emergent".into(),
            client_version: env!("CARGO_PKG_VERSION").into(),
            max_message_bytes: 8 << 20,
            large_messages: LargeMessages::default(),
            connect_timeout: Duration::from_secs(30),
            probe_timeout: Duration::from_secs(3),
            request_handler: Arc::new(NoRequestHandler),
            asks_for_input: false,
            on_start: Arc::new(|| {}),
            on_stderr: Arc::new(|_| {}),
        }
    }
}

/// A connection. Clones share it; dropping the last one closes it.
#[derive(Clone)]
pub struct Client(Arc<ClientHandle>);

/// Aborts the task that receives notifications when the last [`Client`] is dropped. It is separate from
/// `Inner`, because that task owns an `Inner` as well.
struct ClientHandle(Arc<Inner>);

struct Inner {
    transport: Box<dyn Transport>,
    inbox: Arc<Inbox>,
    options: ClientOptions,
    /// The id of the next request.
    next: AtomicU64,
    peer: RwLock<Peer>,
    /// Locked while a lost session is replaced.
    session_lock: tokio::sync::Mutex<()>,
    /// The task that receives the notifications of a modern server.
    listening: parking_lot::Mutex<Option<AbortHandle>>,
}

/// The server at the other end of the connection.
#[derive(Debug, Clone)]
struct Peer {
    era: Era,
    /// The MCP revision; empty before one is agreed on.
    version: String,
    /// Whether the server sends a notification when its tools change.
    announces_tools: bool,
    /// The number of sessions so far, which identifies the current one.
    session: u64,
}

impl Client {
    fn new(inner: Arc<Inner>) -> Self {
        Self(Arc::new(ClientHandle(inner)))
    }

    fn inner(&self) -> &Arc<Inner> {
        &self.0.0
    }

    /// Connects and determines the era of the server.
    pub async fn connect(target: Target, options: ClientOptions) -> Result<Self, Error> {
        let within = options.connect_timeout;
        match timeout(within, connect::connect(target, options)).await {
            Ok(connected) => connected,
            Err(_) => Err(Error::Timeout(within)),
        }
    }

    /// Whether both values share one connection.
    pub fn is_same_connection(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    pub fn era(&self) -> Era {
        self.inner().peer.read().era
    }

    /// Returns the MCP revision of the connection.
    pub fn version(&self) -> String {
        self.inner().peer.read().version.clone()
    }

    /// Returns a counter that increments whenever the server reports that its tools changed.
    pub fn tools_changed(&self) -> watch::Receiver<u64> {
        self.inner().inbox.tools_changed()
    }

    /// Waits until the connection is lost, and returns the reason.
    pub async fn closed(&self) -> Error {
        self.inner().transport.closed().await
    }

    /// Closes the connection and everything started for it, and waits until that is done.
    pub async fn close(&self) {
        if let Some(listening) = self.inner().listening.lock().take() {
            listening.abort();
        }
        self.inner().transport.close().await;
    }

    /// Lists all tools, page by page. Invalid entries are skipped.
    pub async fn list_tools(&self, within: Duration) -> Result<Vec<RemoteTool>, Error> {
        timeout(within, self.list_pages(within)).await.map_err(|_| Error::Timeout(within))?
    }

    async fn list_pages(&self, within: Duration) -> Result<Vec<RemoteTool>, Error> {
        let mut listing = ToolListing::default();
        let mut cursor: Option<String> = None;
        for _ in 0..MAX_PAGES {
            let mut params = Map::new();
            if let Some(cursor) = &cursor {
                params.insert("cursor".into(), Value::from(cursor.clone()));
            }
            let result = self.request("tools/list", params, within).await?;
            let (bytes, era) = (result.get().len(), self.era());
            let add = move || {
                let next = listing.add(&result, |tool| is_callable(tool, era));
                (listing, next)
            };
            let (extended, next) = self.large_messages().process(bytes, add).await?;
            listing = extended;
            match next? {
                Some(next) if cursor.as_ref() == Some(&next) => {
                    return Err(Error::InvalidMessage("a list of tools whose pages form a cycle".into()));
                }
                Some(next) => cursor = Some(next),
                None => return Ok(listing.into_tools()),
            }
        }
        Err(Error::InvalidMessage(format!("a list of tools of more than {MAX_PAGES} pages")))
    }

    fn large_messages(&self) -> &LargeMessages {
        &self.inner().options.large_messages
    }

    /// Sends a request of any kind and returns its result.
    pub async fn request(
        &self,
        method: &str,
        params: Map<String, Value>,
        within: Duration,
    ) -> Result<Box<RawValue>, Error> {
        let name = params.get("uri").or_else(|| params.get("name")).and_then(Value::as_str);
        let headers =
            name.map(|name| ("mcp-name".to_owned(), headers::encode_header(name))).into_iter().collect();
        Ok(self.send_held(method, params, Sending { headers, ..Sending::within(within) }).await?.0)
    }

    /// Sends a request, and returns its result with the place in memory of a large one. The request is sent once more
    /// in a new session if the server no longer knows the current one.
    async fn send_held(
        &self,
        method: &str,
        params: Map<String, Value>,
        sending: Sending,
    ) -> Result<(Box<RawValue>, Option<HeldMessage>), Error> {
        let peer = self.inner().peer.read().clone();
        let first = self.inner().send_once(&peer, method, params.clone(), sending.clone()).await;
        let reply = match first {
            Err(Error::SessionGone) => {
                connect::restart_session(self.inner(), peer.session).await?;
                let peer = self.inner().peer.read().clone();
                self.inner().send_once(&peer, method, params, sending).await?
            }
            other => other?,
        };
        Ok((reply.outcome?, reply.held))
    }
}

/// How a request is sent.
#[derive(Clone)]
struct Sending {
    within: Duration,
    /// Headers of a modern request.
    headers: Vec<(String, String)>,
    progress: Option<OnProgress>,
    /// Who is asked for input during a tool call.
    input: Option<CallInput>,
}

impl Sending {
    fn within(within: Duration) -> Self {
        Self { within, headers: Vec::new(), progress: None, input: None }
    }
}

impl Inner {
    /// Sends a request once. If the future is dropped, the request is cancelled on the server.
    async fn send_once(
        self: &Arc<Self>,
        peer: &Peer,
        method: &str,
        mut params: Map<String, Value>,
        sending: Sending,
    ) -> Result<Reply, Error> {
        let Sending { within, headers, progress, input } = sending;
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let progress_guard = progress.map(|progress| self.inbox.subscribe_progress(id, progress));
        if progress_guard.is_some() {
            meta_mut(&mut params).insert("progressToken".into(), Value::from(id));
        }
        let modern = peer.era == Era::Modern;
        if modern {
            meta_mut(&mut params).extend(self.modern_meta(input.is_some()));
        }
        let clock = input.as_ref().map(|input| input.clock.clone()).unwrap_or_default();
        let _call = (method == "tools/call").then(|| self.inbox.calls.register(id, input));
        let version = (!peer.version.is_empty()).then(|| peer.version.clone());
        let text = request_text(id, method, params)?;
        let headers = if modern { headers } else { Vec::new() };
        let request = Request { id, text, method: method.to_owned(), version, modern, headers };
        let cancel = CancelOnDrop {
            client: Arc::downgrade(self),
            id,
            armed: !(modern && self.transport.cancels_on_drop()),
        };
        match clock.timeout(within, self.transport.request(request)).await {
            Some(reply) => {
                cancel.disarm();
                reply
            }
            None => Err(Error::Timeout(within)),
        }
    }

    /// The `_meta` of every modern request.
    fn modern_meta(&self, may_ask: bool) -> Map<String, Value> {
        Map::from_iter([
            (meta::PROTOCOL_VERSION.to_owned(), Value::from(MODERN)),
            (meta::CLIENT_INFO.to_owned(), self.client_info()),
            (meta::CLIENT_CAPABILITIES.to_owned(), self.capabilities(may_ask)),
        ])
    }

    /// What is declared to the server. `may_ask` says that there is somebody who can be asked for input.
    fn capabilities(&self, may_ask: bool) -> Value {
        let mut capabilities = self.inbox.handler.capabilities();
        if may_ask {
            input::declare(&mut capabilities);
        }
        capabilities
    }

    fn client_info(&self) -> Value {
        json!({ "name": self.options.client_name, "version": self.options.client_version })
    }

    async fn notify(&self, method: &str, params: Option<Value>) -> Result<(), Error> {
        let text = OutgoingMessage::notification(method, params).to_bytes();
        let text = text.map_err(|error| Error::InvalidMessage(error.to_string()))?;
        let peer = self.peer.read().clone();
        self.transport.send(text.into(), (!peer.version.is_empty()).then_some(peer.version.as_str())).await
    }
}

impl Drop for ClientHandle {
    fn drop(&mut self) {
        if let Some(listening) = self.0.listening.lock().take() {
            listening.abort();
        }
    }
}

/// Whether a client of this era can send the headers that a tool's schema requests.
fn is_callable(tool: &RemoteTool, era: Era) -> bool {
    if era == Era::Legacy || !tool.input_schema.get().contains("x-mcp-header") {
        return true;
    }
    let schema = foreign_json::from_str(tool.input_schema.get()).unwrap_or_default();
    headers::mirrored_arguments(&schema).is_some()
}

/// Returns the `_meta` of a request, which is created if it does not exist.
#[expect(clippy::expect_used, reason = "the entry is an object after the check above")]
fn meta_mut(params: &mut Map<String, Value>) -> &mut Map<String, Value> {
    let meta = params.entry("_meta").or_insert_with(|| Value::Object(Map::new()));
    if !meta.is_object() {
        *meta = Value::Object(Map::new());
    }
    meta.as_object_mut().expect("`_meta` was set to an object above")
}

fn request_text(id: u64, method: &str, params: Map<String, Value>) -> Result<bytes::Bytes, Error> {
    let not_json = |error: serde_json::Error| Error::InvalidMessage(error.to_string());
    let id = RawValue::from_string(id.to_string()).map_err(not_json)?;
    let params = (!params.is_empty()).then_some(params);
    Ok(OutgoingMessage::request(&id, method, params).to_bytes().map_err(not_json)?.into())
}

/// Cancels a request on the server if it is dropped while `armed`: the caller no longer waits for the
/// response.
struct CancelOnDrop {
    client: std::sync::Weak<Inner>,
    id: u64,
    armed: bool,
}

impl CancelOnDrop {
    fn disarm(mut self) {
        self.armed = false;
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        let (Some(inner), Ok(runtime)) = (self.client.upgrade(), tokio::runtime::Handle::try_current())
        else {
            return;
        };
        if !self.armed {
            return;
        }
        let params = json!({ "requestId": self.id, "reason": "the caller no longer waits for the response" });
        runtime.spawn(async move {
            let notified = inner.notify("notifications/cancelled", Some(params));
            let _ = timeout(CANCEL_TIMEOUT, notified).await;
        });
    }
}
