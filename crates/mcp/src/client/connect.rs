//! Beginning: the probe, the handshake of the old era, and beginning again when a session is gone.

use std::sync::{Arc, atomic::AtomicU64};

use parking_lot::RwLock;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{
    Client, Endpoint, Error, Inner, Options, Peer, Target,
    era::{Discovered, Era, Verdict, judge},
    http::Http,
    inbox::Inbox,
    legacy_sse::LegacySse,
    stdio::Stdio,
    transport::Transport,
};
use crate::message::{LEGACY, MODERN};

/// How long a stream of announcements rests after it broke off.
const LISTEN_AGAIN: std::time::Duration = std::time::Duration::from_secs(5);
/// A stream that announces changes is open as long as the connection.
const FOR_EVER: std::time::Duration = std::time::Duration::from_secs(365 * 24 * 3600);

pub async fn connect(target: Target, options: Options) -> Result<Client, Error> {
    match target {
        Target::Stdio(program) => {
            let inbox = inbox(&options);
            let transport = Stdio::start(&program, Arc::clone(&inbox), &options)?;
            let inner = inner(Box::new(transport), inbox, &options);
            match inner.probe(true).await {
                // Some programs end at a message they do not know.
                Verdict::Fault(Error::Lost(_)) => {
                    let inbox = self::inbox(&options);
                    let transport = Stdio::start(&program, Arc::clone(&inbox), &options)?;
                    let again = self::inner(Box::new(transport), inbox, &options);
                    again.begin().await?;
                    Ok(Client::new(again))
                }
                verdict => {
                    let old = matches!(verdict, Verdict::Legacy);
                    match settle(Arc::clone(&inner), verdict).await {
                        // It was silent because it was slow to start, and is not of the old era.
                        Err(Error::Rpc(_)) if old => {
                            let verdict = inner.probe(true).await;
                            settle(inner, verdict).await
                        }
                        settled => settled,
                    }
                }
            }
        }
        Target::Http(at) => {
            let inbox = inbox(&options);
            let transport = Http::new(at.clone(), Arc::clone(&inbox), &options);
            let inner = inner(Box::new(transport), inbox, &options);
            let verdict = inner.probe(false).await;
            let unknown = matches!(verdict, Verdict::Legacy);
            match settle(inner, verdict).await {
                // Nobody takes a POST there: perhaps a server of 2024-11-05.
                Err(refused @ Error::Http { status: 400 | 404 | 405, .. }) if unknown => {
                    over_sse(at, &options).await.map_err(|_| refused)
                }
                other => other,
            }
        }
        Target::Sse(at) => over_sse(at, &options).await,
    }
}

async fn over_sse(at: Endpoint, options: &Options) -> Result<Client, Error> {
    let inbox = inbox(options);
    let transport = LegacySse::open(at, Arc::clone(&inbox), options).await?;
    let inner = inner(Box::new(transport), inbox, options);
    inner.begin().await?;
    Ok(Client::new(inner))
}

fn inbox(options: &Options) -> Arc<Inbox> {
    Arc::new(Inbox::new(Arc::clone(&options.questions)))
}

fn inner(transport: Box<dyn Transport>, inbox: Arc<Inbox>, options: &Options) -> Arc<Inner> {
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

async fn settle(inner: Arc<Inner>, verdict: Verdict) -> Result<Client, Error> {
    match verdict {
        Verdict::Modern(found) => {
            inner.is_modern(&found);
            inner.listen();
        }
        Verdict::Legacy => inner.begin().await?,
        Verdict::Fault(error) => return Err(error),
        // Asked again and told the same: it does not mean what it says.
        Verdict::AskAgain => return Err(Error::NoCommonVersion(MODERN.into())),
    }
    Ok(Client::new(inner))
}

/// Begins a session anew, unless somebody has since `session` was seen.
pub async fn begin_again(inner: &Arc<Inner>, session: u64) -> Result<(), Error> {
    let _held = inner.beginning.lock().await;
    if inner.peer.read().session != session {
        return Ok(());
    }
    inner.transport.forget();
    inner.begin().await
}

impl Inner {
    async fn probe(self: &Arc<Self>, patient: bool) -> Verdict {
        let modern =
            Peer { era: Era::Modern, version: MODERN.to_owned(), announces_tools: false, session: 0 };
        let within = if patient { self.options.probe } else { self.options.connect };
        for _ in 0..2 {
            let asked = self.once(&modern, "server/discover", Map::new(), within, Vec::new(), None).await;
            match judge(asked, patient) {
                Verdict::AskAgain => {}
                verdict => return verdict,
            }
        }
        Verdict::AskAgain
    }

    fn is_modern(&self, found: &Discovered) {
        *self.peer.write() = Peer {
            era: Era::Modern,
            version: MODERN.to_owned(),
            announces_tools: announces_tools(&found.capabilities),
            session: 0,
        };
    }

    /// The handshake of the old era.
    async fn begin(self: &Arc<Self>) -> Result<(), Error> {
        let (nobody, session) = {
            let mut peer = self.peer.write();
            let session = peer.session + 1;
            *peer = Peer { era: Era::Legacy, version: String::new(), announces_tools: false, session };
            (peer.clone(), session)
        };
        let params = Map::from_iter([
            ("protocolVersion".to_owned(), Value::from(LEGACY[0])),
            ("capabilities".to_owned(), self.inbox.questions.capabilities()),
            ("clientInfo".to_owned(), self.client_info()),
        ]);
        let within = self.options.connect;
        let reply = self.once(&nobody, "initialize", params, within, Vec::new(), None).await?;
        let result = reply.outcome.map_err(|error| match reply.status {
            // A refusal in JSON of a server that knows nothing of this either.
            Some(status @ (400 | 404 | 405)) => Error::Http { status, body: error.to_string() },
            _ => Error::Rpc(error),
        })?;
        let begun: Begun = serde_json::from_str(result.get()).map_err(|error| {
            Error::Garbage(format!("an answer to `initialize` that cannot be read: {error}"))
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
        self.transport.begun(&begun.protocol_version).await;
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
                let listened = inner.once(&peer, "subscriptions/listen", params, FOR_EVER, Vec::new(), None);
                match listened.await {
                    Ok(reply) if reply.outcome.is_ok() => {}
                    Err(error) if error.is_failure() => {}
                    // It said no.
                    _ => return,
                }
                tokio::time::sleep(LISTEN_AGAIN).await;
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
struct Begun {
    protocol_version: String,
    #[serde(default)]
    capabilities: Value,
}
