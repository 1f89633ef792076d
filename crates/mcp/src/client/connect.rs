//! Beginning: the probe, the handshake of the old era, and beginning again when a session is gone.

use std::sync::{Arc, atomic::AtomicU64};

use parking_lot::RwLock;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{
    Client, ClientOptions, Endpoint, Error, Inner, Peer, Target,
    era::{DiscoverResult, Era, ProbeResult, classify_probe},
    http::HttpTransport,
    inbox::Inbox,
    legacy_sse::LegacySseTransport,
    stdio::StdioTransport,
    transport::Transport,
};
use crate::message::{LEGACY, MODERN};

/// How long a stream of announcements rests after it broke off.
const LISTEN_RETRY_DELAY: std::time::Duration = std::time::Duration::from_secs(5);
/// A stream that announces changes is open as long as the connection.
const NO_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(365 * 24 * 3600);

pub async fn connect(target: Target, options: ClientOptions) -> Result<Client, Error> {
    match target {
        Target::Stdio(program) => {
            let inbox = new_inbox(&options);
            let transport = StdioTransport::start(&program, Arc::clone(&inbox), &options)?;
            let inner = new_inner(Box::new(transport), inbox, &options);
            match inner.probe(true).await {
                // Some programs end at a message they do not know.
                ProbeResult::Failed(Error::Lost(_)) => {
                    let inbox = self::new_inbox(&options);
                    let transport = StdioTransport::start(&program, Arc::clone(&inbox), &options)?;
                    let again = self::new_inner(Box::new(transport), inbox, &options);
                    again.initialize().await?;
                    Ok(Client::new(again))
                }
                verdict => {
                    let old = matches!(verdict, ProbeResult::Legacy);
                    match finish_connect(Arc::clone(&inner), verdict).await {
                        // It was silent because it was slow to start, and is not of the old era.
                        Err(Error::Rpc(_)) if old => {
                            let verdict = inner.probe(true).await;
                            finish_connect(inner, verdict).await
                        }
                        settled => settled,
                    }
                }
            }
        }
        Target::Http(at) => {
            let inbox = new_inbox(&options);
            let transport = HttpTransport::new(at.clone(), Arc::clone(&inbox), &options);
            let inner = new_inner(Box::new(transport), inbox, &options);
            let verdict = inner.probe(false).await;
            let unknown = matches!(verdict, ProbeResult::Legacy);
            match finish_connect(inner, verdict).await {
                // Nobody takes a POST there: perhaps a server of 2024-11-05.
                Err(refused @ Error::Http { status: 400 | 404 | 405, .. }) if unknown => {
                    connect_sse(at, &options).await.map_err(|_| refused)
                }
                other => other,
            }
        }
        Target::Sse(at) => connect_sse(at, &options).await,
    }
}

async fn connect_sse(at: Endpoint, options: &ClientOptions) -> Result<Client, Error> {
    let inbox = new_inbox(options);
    let transport = LegacySseTransport::open(at, Arc::clone(&inbox), options).await?;
    let inner = new_inner(Box::new(transport), inbox, options);
    inner.initialize().await?;
    Ok(Client::new(inner))
}

fn new_inbox(options: &ClientOptions) -> Arc<Inbox> {
    Arc::new(Inbox::new(Arc::clone(&options.request_handler)))
}

fn new_inner(transport: Box<dyn Transport>, inbox: Arc<Inbox>, options: &ClientOptions) -> Arc<Inner> {
    let unknown = Peer { era: Era::Legacy, version: String::new(), announces_tools: false, session: 0 };
    Arc::new(Inner {
        transport,
        inbox,
        options: options.clone(),
        next: AtomicU64::new(1),
        peer: RwLock::new(unknown),
        beginning: tokio::sync::Mutex::default(),
        listening: parking_lot::Mutex::default(),
    })
}

async fn finish_connect(inner: Arc<Inner>, verdict: ProbeResult) -> Result<Client, Error> {
    match verdict {
        ProbeResult::Modern(found) => {
            inner.set_modern(&found);
            inner.listen();
        }
        ProbeResult::Legacy => inner.initialize().await?,
        ProbeResult::Failed(error) => return Err(error),
        // Asked again and told the same: it does not mean what it says.
        ProbeResult::Retry => return Err(Error::NoCommonVersion(MODERN.into())),
    }
    Ok(Client::new(inner))
}

/// Begins a session anew, unless somebody has since `session` was seen.
pub async fn restart_session(inner: &Arc<Inner>, session: u64) -> Result<(), Error> {
    let _held = inner.beginning.lock().await;
    if inner.peer.read().session != session {
        return Ok(());
    }
    inner.transport.reset_session();
    inner.initialize().await
}

impl Inner {
    async fn probe(self: &Arc<Self>, patient: bool) -> ProbeResult {
        let modern =
            Peer { era: Era::Modern, version: MODERN.to_owned(), announces_tools: false, session: 0 };
        let within = if patient { self.options.probe_timeout } else { self.options.connect_timeout };
        for _ in 0..2 {
            let asked =
                self.send_once(&modern, "server/discover", Map::new(), within, Vec::new(), None).await;
            match classify_probe(asked, patient) {
                ProbeResult::Retry => {}
                verdict => return verdict,
            }
        }
        ProbeResult::Retry
    }

    fn set_modern(&self, found: &DiscoverResult) {
        *self.peer.write() = Peer {
            era: Era::Modern,
            version: MODERN.to_owned(),
            announces_tools: announces_tools(&found.capabilities),
            session: 0,
        };
    }

    /// The handshake of the old era.
    async fn initialize(self: &Arc<Self>) -> Result<(), Error> {
        let (nobody, session) = {
            let mut peer = self.peer.write();
            let session = peer.session + 1;
            *peer = Peer { era: Era::Legacy, version: String::new(), announces_tools: false, session };
            (peer.clone(), session)
        };
        let params = Map::from_iter([
            ("protocolVersion".to_owned(), Value::from(LEGACY[0])),
            ("capabilities".to_owned(), self.inbox.handler.capabilities()),
            ("clientInfo".to_owned(), self.client_info()),
        ]);
        let within = self.options.connect_timeout;
        let reply = self.send_once(&nobody, "initialize", params, within, Vec::new(), None).await?;
        let result = reply.outcome.map_err(|error| match reply.status {
            // A refusal in JSON of a server that knows nothing of this either.
            Some(status @ (400 | 404 | 405)) => Error::Http { status, body: error.to_string() },
            _ => Error::Rpc(error),
        })?;
        let begun: InitializeResult = serde_json::from_str(result.get()).map_err(|error| {
            Error::InvalidMessage(format!("an answer to `initialize` that cannot be read: {error}"))
        })?;
        // Servers also answer with what we offer, whatever they were made for.
        if !LEGACY.contains(&begun.protocol_version.as_str()) && begun.protocol_version != MODERN {
            return Err(Error::NoCommonVersion(begun.protocol_version));
        }
        *self.peer.write() = Peer {
            era: Era::Legacy,
            version: begun.protocol_version.clone(),
            announces_tools: announces_tools(&begun.capabilities),
            session,
        };
        self.notify("notifications/initialized", None).await?;
        self.transport.on_initialized(&begun.protocol_version).await;
        Ok(())
    }

    /// A modern server announces changes only to whoever listens.
    fn listen(self: &Arc<Self>) {
        if !self.peer.read().announces_tools {
            return;
        }
        let inner = Arc::clone(self);
        let listening = tokio::spawn(async move {
            loop {
                let peer = inner.peer.read().clone();
                let wanted = json!({ "toolsListChanged": true });
                let params = Map::from_iter([("notifications".to_owned(), wanted)]);
                let listened =
                    inner.send_once(&peer, "subscriptions/listen", params, NO_TIMEOUT, Vec::new(), None);
                match listened.await {
                    Ok(reply) if reply.outcome.is_ok() => {}
                    Err(error) if error.is_server_failure() => {}
                    // It said no.
                    _ => return,
                }
                tokio::time::sleep(LISTEN_RETRY_DELAY).await;
            }
        });
        *self.listening.lock() = Some(listening.abort_handle());
    }
}

fn announces_tools(capabilities: &Value) -> bool {
    capabilities.pointer("/tools/listChanged").and_then(Value::as_bool).unwrap_or_default()
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct InitializeResult {
    protocol_version: String,
    #[serde(default)]
    capabilities: Value,
}
