//! Opens a connection: the probe, the handshake of the legacy era, and a new session after a lost one.

use std::sync::{Arc, atomic::AtomicU64};

use emergent_domain::foreign_json;
use parking_lot::RwLock;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{
    Client, ClientOptions, Endpoint, Error, Inner, Peer, Sending, Target,
    era::{DiscoverResult, Era, ProbeResult, classify_probe},
    http::HttpTransport,
    inbox::Inbox,
    legacy_sse::LegacySseTransport,
    stdio::StdioTransport,
    transport::Transport,
};
use crate::message::{LEGACY, MODERN};

/// The delay before an ended or broken stream of notifications is opened again.
const LISTEN_RETRY_DELAY: std::time::Duration = std::time::Duration::from_secs(5);
/// The timeout of a stream of notifications, which stays open as long as the connection: a year.
const NO_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(365 * 24 * 3600);

/// Connects to a server. [`Client::connect`] adds the timeout.
pub async fn connect(target: Target, options: ClientOptions) -> Result<Client, Error> {
    match target {
        Target::Stdio(program) => {
            let inbox = new_inbox(&options);
            let transport = StdioTransport::start(&program, Arc::clone(&inbox), &options)?;
            let inner = new_inner(Box::new(transport), inbox, &options);
            match inner.probe(true).await {
                // Some programs exit when they receive a message they do not know.
                ProbeResult::Failed(Error::Lost(_)) => {
                    let inbox = new_inbox(&options);
                    let transport = StdioTransport::start(&program, Arc::clone(&inbox), &options)?;
                    let restarted = new_inner(Box::new(transport), inbox, &options);
                    restarted.initialize().await?;
                    Ok(Client::new(restarted))
                }
                probed => {
                    let seems_legacy = matches!(probed, ProbeResult::Legacy);
                    match finish_connect(Arc::clone(&inner), probed).await {
                        // A legacy server would accept `initialize`. This one was silent only because it
                        // started slowly, so it is probed once more.
                        Err(Error::Rpc(_)) if seems_legacy => {
                            let probed = inner.probe(true).await;
                            finish_connect(inner, probed).await
                        }
                        connected => connected,
                    }
                }
            }
        }
        Target::Http(endpoint) => {
            let inbox = new_inbox(&options);
            let transport = HttpTransport::new(endpoint.clone(), Arc::clone(&inbox), &options);
            let inner = new_inner(Box::new(transport), inbox, &options);
            let probed = inner.probe(false).await;
            let seems_legacy = matches!(probed, ProbeResult::Legacy);
            match finish_connect(inner, probed).await {
                // The address accepts no POST, so the server may implement 2024-11-05, which starts with GET.
                Err(refused @ Error::Http { status: 400 | 404 | 405, .. }) if seems_legacy => {
                    connect_sse(endpoint, &options).await.map_err(|_| refused)
                }
                other => other,
            }
        }
        Target::Sse(endpoint) => connect_sse(endpoint, &options).await,
    }
}

/// Connects to a server of 2024-11-05.
async fn connect_sse(endpoint: Endpoint, options: &ClientOptions) -> Result<Client, Error> {
    let inbox = new_inbox(options);
    let transport = LegacySseTransport::open(endpoint, Arc::clone(&inbox), options).await?;
    let inner = new_inner(Box::new(transport), inbox, options);
    inner.initialize().await?;
    Ok(Client::new(inner))
}

fn new_inbox(options: &ClientOptions) -> Arc<Inbox> {
    Arc::new(Inbox::new(Arc::clone(&options.request_handler)))
}

fn new_inner(transport: Box<dyn Transport>, inbox: Arc<Inbox>, options: &ClientOptions) -> Arc<Inner> {
    let unknown_peer = Peer { era: Era::Legacy, version: String::new(), announces_tools: false, session: 0 };
    Arc::new(Inner {
        transport,
        inbox,
        options: options.clone(),
        next: AtomicU64::new(1),
        peer: RwLock::new(unknown_peer),
        session_lock: tokio::sync::Mutex::default(),
        listening: parking_lot::Mutex::default(),
    })
}

/// Acts on the result of the probe: subscribes to a modern server, or starts a session with a legacy one.
async fn finish_connect(inner: Arc<Inner>, probed: ProbeResult) -> Result<Client, Error> {
    match probed {
        ProbeResult::Modern(discovered) => {
            inner.set_modern(&discovered);
            inner.listen();
        }
        ProbeResult::Legacy => inner.initialize().await?,
        ProbeResult::Failed(error) => return Err(error),
        // The server asked for the offered version, and again after it received it.
        ProbeResult::Retry => return Err(Error::NoCommonVersion(MODERN.into())),
    }
    Ok(Client::new(inner))
}

/// Starts a new session, unless another task has done so since `session` was read.
pub async fn restart_session(inner: &Arc<Inner>, session: u64) -> Result<(), Error> {
    let _lock = inner.session_lock.lock().await;
    if inner.peer.read().session != session {
        return Ok(());
    }
    inner.transport.reset_session();
    inner.initialize().await
}

impl Inner {
    /// Sends `server/discover`, which only modern servers know, up to twice. With `silence_is_legacy` (on a
    /// pipe), the timeout is short, and a timeout means a legacy server.
    async fn probe(self: &Arc<Self>, silence_is_legacy: bool) -> ProbeResult {
        let modern =
            Peer { era: Era::Modern, version: MODERN.to_owned(), announces_tools: false, session: 0 };
        let within =
            if silence_is_legacy { self.options.probe_timeout } else { self.options.connect_timeout };
        for _ in 0..2 {
            let response =
                self.send_once(&modern, "server/discover", Map::new(), Sending::within(within)).await;
            match classify_probe(response, silence_is_legacy) {
                ProbeResult::Retry => {}
                result => return result,
            }
        }
        ProbeResult::Retry
    }

    fn set_modern(&self, discovered: &DiscoverResult) {
        *self.peer.write() = Peer {
            era: Era::Modern,
            version: MODERN.to_owned(),
            announces_tools: announces_tools(&discovered.capabilities),
            session: 0,
        };
    }

    /// Performs the handshake of the legacy era.
    async fn initialize(self: &Arc<Self>) -> Result<(), Error> {
        let (uninitialized, session) = {
            let mut peer = self.peer.write();
            let session = peer.session + 1;
            *peer = Peer { era: Era::Legacy, version: String::new(), announces_tools: false, session };
            (peer.clone(), session)
        };
        let params = Map::from_iter([
            ("protocolVersion".to_owned(), Value::from(LEGACY[0])),
            ("capabilities".to_owned(), self.capabilities(self.options.asks_for_input)),
            ("clientInfo".to_owned(), self.client_info()),
        ]);
        let within = self.options.connect_timeout;
        let reply = self.send_once(&uninitialized, "initialize", params, Sending::within(within)).await?;
        let result = reply.outcome.map_err(|error| match reply.status {
            // A server that knows neither protocol may refuse with a JSON body.
            Some(status @ (400 | 404 | 405)) => Error::Http { status, body: error.to_string() },
            _ => Error::Rpc(error),
        })?;
        let initialized: InitializeResult = foreign_json::from_str(result.get()).map_err(|error| {
            Error::InvalidMessage(format!("an invalid response to `initialize`: {error}"))
        })?;
        // Some servers respond with the offered version whatever they implement.
        if !LEGACY.contains(&initialized.protocol_version.as_str()) && initialized.protocol_version != MODERN
        {
            return Err(Error::NoCommonVersion(initialized.protocol_version));
        }
        *self.peer.write() = Peer {
            era: Era::Legacy,
            version: initialized.protocol_version.clone(),
            announces_tools: announces_tools(&initialized.capabilities),
            session,
        };
        self.notify("notifications/initialized", None).await?;
        self.transport.on_initialized(&initialized.protocol_version).await;
        Ok(())
    }

    /// Subscribes to notifications, because a modern server sends them only on a subscription.
    fn listen(self: &Arc<Self>) {
        if !self.peer.read().announces_tools {
            return;
        }
        let inner = Arc::clone(self);
        #[expect(
            clippy::disallowed_methods,
            reason = "the client keeps the handle, and aborts the task when it is closed or dropped"
        )]
        let listening = tokio::spawn(async move {
            loop {
                let peer = inner.peer.read().clone();
                let notifications = json!({ "toolsListChanged": true });
                let params = Map::from_iter([("notifications".to_owned(), notifications)]);
                let subscription =
                    inner.send_once(&peer, "subscriptions/listen", params, Sending::within(NO_TIMEOUT));
                match subscription.await {
                    Ok(reply) if reply.outcome.is_ok() => {}
                    Err(error) if error.is_server_failure() => {}
                    // The server refused the subscription.
                    _ => return,
                }
                tokio::time::sleep(LISTEN_RETRY_DELAY).await;
            }
        });
        *self.listening.lock() = Some(listening.abort_handle());
    }
}

/// Whether the server declares notifications about changes of its tools.
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
