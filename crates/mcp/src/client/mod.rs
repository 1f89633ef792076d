//! A client of MCP servers: stdio, streamable HTTP in both eras, and HTTP with server-sent events.
//! One connection serves any number of calls at once. Whatever a server sends is bounded, and a call
//! ends with its answer, with an error, or when its time is up; never later.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::RwLock;
use serde_json::{Map, Value, json, value::RawValue};
use tokio::{sync::watch, task::AbortHandle, time::timeout};

mod body;
mod connect;
mod era;
mod error;
mod headers;
mod http;
mod inbox;
mod legacy_sse;
mod lines;
mod listing;
mod pending;
mod process;
mod starter;
mod stdio;
mod tools;
mod transport;

pub use self::{
    era::Era,
    error::Error,
    http::Endpoint,
    inbox::{NoQuestions, OnProgress, Questions},
    process::Program,
    tools::{CallResult, Progress, RemoteTool},
};
use self::{
    inbox::Inbox,
    listing::{Listing, MOST_PAGES},
    tools::{Called, called},
    transport::{Reply, Request, Transport},
};
use crate::message::{MODERN, Outgoing, meta};

/// Rounds of questions one call may take.
const MOST_ROUNDS: usize = 10;

/// How to reach a server.
#[derive(Clone)]
pub enum Target {
    Stdio(Program),
    Http(Endpoint),
    Sse(Endpoint),
}

#[derive(Clone)]
pub struct Options {
    pub client_name: String,
    pub client_version: String,
    /// One message, or one body.
    pub most_bytes: usize,
    /// For the whole of connecting.
    pub connect: Duration,
    /// How long a program may be silent before it counts as one of the old era.
    pub probe: Duration,
    pub questions: Arc<dyn Questions>,
    /// Lines a program writes to its standard error.
    pub on_stderr: Arc<dyn Fn(&str) + Send + Sync>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            client_name: "emergent".into(),
            client_version: env!("CARGO_PKG_VERSION").into(),
            most_bytes: 8 << 20,
            connect: Duration::from_secs(30),
            probe: Duration::from_secs(3),
            questions: Arc::new(NoQuestions),
            on_stderr: Arc::new(|_| {}),
        }
    }
}

/// A connection; clones share it, and the last one to go closes it.
#[derive(Clone)]
pub struct Client(Arc<Owner>);

/// Apart from what it owns: the task that listens for announcements holds that as well.
struct Owner(Arc<Inner>);

struct Inner {
    transport: Box<dyn Transport>,
    inbox: Arc<Inbox>,
    options: Options,
    next: AtomicU64,
    peer: RwLock<Peer>,
    /// Held while a lost session is begun anew.
    beginning: tokio::sync::Mutex<()>,
    listening: parking_lot::Mutex<Option<AbortHandle>>,
}

#[derive(Debug, Clone)]
struct Peer {
    era: Era,
    version: String,
    announces_tools: bool,
    /// Counts the sessions.
    session: u64,
}

impl Client {
    fn new(inner: Arc<Inner>) -> Self {
        Self(Arc::new(Owner(inner)))
    }

    fn inner(&self) -> &Arc<Inner> {
        &self.0.0
    }

    /// Connects and finds out which era the server is of.
    pub async fn connect(target: Target, options: Options) -> Result<Self, Error> {
        let within = options.connect;
        match timeout(within, connect::connect(target, options)).await {
            Ok(connected) => connected,
            Err(_) => Err(Error::Timeout(within)),
        }
    }

    /// Whether both are the same connection.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    pub fn era(&self) -> Era {
        self.inner().peer.read().era
    }

    /// The revision of MCP that is spoken.
    pub fn version(&self) -> String {
        self.inner().peer.read().version.clone()
    }

    /// Counts up whenever the server says that its tools changed.
    pub fn tools_changed(&self) -> watch::Receiver<u64> {
        self.inner().inbox.tools_changed()
    }

    /// Waits until the connection is lost.
    pub async fn closed(&self) -> Error {
        self.inner().transport.closed().await
    }

    /// Ends the connection and whatever was started for it, and waits for that.
    pub async fn close(&self) {
        if let Some(listening) = self.inner().listening.lock().take() {
            listening.abort();
        }
        self.inner().transport.close().await;
    }

    /// Every tool, page by page. An entry that cannot be read is left out and does not cost the rest.
    pub async fn list_tools(&self, within: Duration) -> Result<Vec<RemoteTool>, Error> {
        timeout(within, self.list_all(within)).await.map_err(|_| Error::Timeout(within))?
    }

    async fn list_all(&self, within: Duration) -> Result<Vec<RemoteTool>, Error> {
        let mut listing = Listing::default();
        let mut cursor: Option<String> = None;
        for _ in 0..MOST_PAGES {
            let mut params = Map::new();
            if let Some(cursor) = &cursor {
                params.insert("cursor".into(), Value::from(cursor.clone()));
            }
            let result = self.request("tools/list", params, within).await?;
            match listing.add(&result, |tool| self.may_be_called(tool))? {
                Some(next) if cursor.as_ref() == Some(&next) => {
                    return Err(Error::Garbage("a list of tools that goes round in a circle".into()));
                }
                Some(next) => cursor = Some(next),
                None => return Ok(listing.done()),
            }
        }
        Err(Error::Garbage(format!("a list of tools of more than {MOST_PAGES} pages")))
    }

    fn may_be_called(&self, tool: &RemoteTool) -> bool {
        if self.era() == Era::Legacy || !tool.input_schema.get().contains("x-mcp-header") {
            return true;
        }
        let schema = serde_json::from_str(tool.input_schema.get()).unwrap_or_default();
        headers::mirrored(&schema).is_some()
    }

    /// Calls a tool. `schema` is that of its input: it may ask for arguments in headers.
    pub async fn call_tool(
        &self,
        name: &str,
        schema: &Value,
        arguments: Map<String, Value>,
        within: Duration,
        progress: Option<OnProgress>,
    ) -> Result<CallResult, Error> {
        let work = self.call_rounds(name, schema, arguments, within, progress);
        timeout(within, work).await.map_err(|_| Error::Timeout(within))?
    }

    async fn call_rounds(
        &self,
        name: &str,
        schema: &Value,
        arguments: Map<String, Value>,
        within: Duration,
        progress: Option<OnProgress>,
    ) -> Result<CallResult, Error> {
        let mut more = vec![("mcp-name".to_owned(), headers::encoded(name))];
        if self.era() == Era::Modern {
            more.extend(headers::for_arguments(&headers::mirrored(schema).unwrap_or_default(), &arguments));
        }
        let plain = Map::from_iter([
            ("name".to_owned(), Value::from(name)),
            ("arguments".to_owned(), Value::Object(arguments)),
        ]);
        let mut params = plain.clone();
        for _ in 0..MOST_ROUNDS {
            let asked = self.ask("tools/call", params, within, more.clone(), progress.clone()).await?;
            let (questions, state) = match called(&asked)? {
                Called::Done(result) => return Ok(result),
                Called::Asks { questions, state } => (questions, state),
            };
            let mut answers = Map::new();
            for (key, question) in questions {
                let method = question.get("method").and_then(Value::as_str).unwrap_or_default();
                let asked = question.get("params").cloned().unwrap_or_default();
                let answer = self.inner().inbox.questions.answer(method, &asked);
                answers.insert(key, answer.ok_or_else(|| Error::Asks(method.to_owned()))?);
            }
            params = plain.clone();
            params.insert("inputResponses".into(), Value::Object(answers));
            if let Some(state) = state {
                params.insert("requestState".into(), Value::from(state));
            }
        }
        Err(Error::Asks(format!("it asked {MOST_ROUNDS} times for one call")))
    }

    /// A request of any kind, and its result.
    pub async fn request(
        &self,
        method: &str,
        params: Map<String, Value>,
        within: Duration,
    ) -> Result<Box<RawValue>, Error> {
        let name = params.get("uri").or_else(|| params.get("name")).and_then(Value::as_str);
        let headers = name.map(|name| ("mcp-name".to_owned(), headers::encoded(name))).into_iter().collect();
        self.ask(method, params, within, headers, None).await
    }

    async fn ask(
        &self,
        method: &str,
        params: Map<String, Value>,
        within: Duration,
        headers: Vec<(String, String)>,
        progress: Option<OnProgress>,
    ) -> Result<Box<RawValue>, Error> {
        let peer = self.inner().peer.read().clone();
        let first =
            self.inner().once(&peer, method, params.clone(), within, headers.clone(), progress.clone()).await;
        let reply = match first {
            Err(Error::SessionGone) => {
                connect::begin_again(self.inner(), peer.session).await?;
                let peer = self.inner().peer.read().clone();
                self.inner().once(&peer, method, params, within, headers, progress).await?
            }
            other => other?,
        };
        Ok(reply.outcome?)
    }
}

impl Inner {
    /// Sends a request once. A request that is given up is cancelled with the server.
    async fn once(
        self: &Arc<Self>,
        peer: &Peer,
        method: &str,
        mut params: Map<String, Value>,
        within: Duration,
        headers: Vec<(String, String)>,
        progress: Option<OnProgress>,
    ) -> Result<Reply, Error> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let following = progress.map(|progress| self.inbox.follow(id, progress));
        if following.is_some() {
            meta_of(&mut params).insert("progressToken".into(), Value::from(id));
        }
        let modern = peer.era == Era::Modern;
        if modern {
            meta_of(&mut params).extend(self.modern_meta());
        }
        let version = (!peer.version.is_empty()).then(|| peer.version.clone());
        let text = text_of(id, method, params)?;
        let headers = if modern { headers } else { Vec::new() };
        let request = Request { id, text, method: method.to_owned(), version, modern, headers };
        let cancel =
            Cancel { of: Arc::downgrade(self), id, armed: !(modern && self.transport.drops_cancel()) };
        let answer = timeout(within, self.transport.request(request)).await;
        match answer {
            Ok(answer) => {
                cancel.disarm();
                answer
            }
            Err(_) => Err(Error::Timeout(within)),
        }
    }

    fn modern_meta(&self) -> Map<String, Value> {
        Map::from_iter([
            (meta::PROTOCOL_VERSION.to_owned(), Value::from(MODERN)),
            (meta::CLIENT_INFO.to_owned(), self.client_info()),
            (meta::CLIENT_CAPABILITIES.to_owned(), self.inbox.questions.capabilities()),
        ])
    }

    fn client_info(&self) -> Value {
        json!({ "name": self.options.client_name, "version": self.options.client_version })
    }

    async fn notify(&self, method: &str, params: Option<Value>) -> Result<(), Error> {
        let text = Outgoing::notification(method, params).text();
        let text = text.map_err(|error| Error::Garbage(error.to_string()))?;
        let peer = self.peer.read().clone();
        self.transport.send(text.into(), (!peer.version.is_empty()).then_some(peer.version.as_str())).await
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        if let Some(listening) = self.0.listening.lock().take() {
            listening.abort();
        }
    }
}

fn meta_of(params: &mut Map<String, Value>) -> &mut Map<String, Value> {
    let meta = params.entry("_meta").or_insert_with(|| Value::Object(Map::new()));
    if !meta.is_object() {
        *meta = Value::Object(Map::new());
    }
    meta.as_object_mut().expect("it was made one just now")
}

fn text_of(id: u64, method: &str, params: Map<String, Value>) -> Result<bytes::Bytes, Error> {
    let wrong = |error: serde_json::Error| Error::Garbage(error.to_string());
    let id = RawValue::from_string(id.to_string()).map_err(wrong)?;
    let params = (!params.is_empty()).then_some(params);
    Ok(Outgoing::request(&id, method, params).text().map_err(wrong)?.into())
}

/// Tells the server when nobody waits for an answer any more.
struct Cancel {
    of: std::sync::Weak<Inner>,
    id: u64,
    armed: bool,
}

impl Cancel {
    fn disarm(mut self) {
        self.armed = false;
    }
}

impl Drop for Cancel {
    fn drop(&mut self) {
        let (Some(inner), Ok(runtime)) = (self.of.upgrade(), tokio::runtime::Handle::try_current()) else {
            return;
        };
        if !self.armed {
            return;
        }
        let params = json!({ "requestId": self.id, "reason": "nobody waits for it any more" });
        runtime.spawn(async move {
            let told = inner.notify("notifications/cancelled", Some(params));
            let _ = timeout(Duration::from_secs(5), told).await;
        });
    }
}
