//! The connection to one version of one server: made when it is first needed, kept, made again when
//! it is lost, and left alone for a while when it fails.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use emergent_domain::mcp_server::{McpServer, PinPolicy};
use emergent_mcp::client::{Client, ClientOptions, Error as McpError, RemoteTool};
use emergent_net::backoff::Backoff;
use emergent_store::{Tx, mcp_servers, mcp_tools};
use parking_lot::{Mutex, RwLock};
use serde_json::{
    Value,
    value::{RawValue, to_raw_value},
};
use tokio::sync::watch;
use tracing::{debug, info, warn};

use super::{
    McpServers,
    breaker::{Breaker, FailureKind},
    pins, target, wait_for_stop,
};

/// How often a lost connection is made again before the next call has to ask for it.
const MAX_RECONNECTS: u32 = 6;
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(500), Duration::from_secs(16));
/// A server that announces changes without end is listed this often at most.
const MIN_LISTING_INTERVAL: Duration = Duration::from_secs(2);

pub struct ServerConnection {
    pub server: McpServer,
    pub breaker: Mutex<Breaker>,
    client: tokio::sync::Mutex<Option<Client>>,
    /// Counts attempts, so that whoever waited for one that failed does not make the next.
    attempts: AtomicU64,
    /// The row is another one by now, or gone.
    closed: watch::Sender<bool>,
    /// Digests as this connection last listed them.
    listed: RwLock<HashMap<String, String>>,
    connected: AtomicBool,
}

impl ServerConnection {
    pub fn new(server: McpServer) -> Arc<Self> {
        Arc::new(Self {
            server,
            breaker: Mutex::default(),
            client: tokio::sync::Mutex::default(),
            attempts: AtomicU64::new(0),
            closed: watch::channel(false).0,
            listed: RwLock::default(),
            connected: AtomicBool::new(false),
        })
    }

    pub fn is_closed(&self) -> bool {
        *self.closed.borrow()
    }

    pub fn is_connected(&self) -> bool {
        self.connected.load(Ordering::Acquire)
    }

    /// The digest of a tool as the server has it now; `None` when it has no such tool.
    pub fn current_digest(&self, tool: &str) -> Option<String> {
        self.listed.read().get(tool).cloned()
    }

    /// Closes a connection that is of no more use. Another one, made meanwhile, stays.
    async fn drop_client(&self, client: &Client) {
        let mut held = self.client.lock().await;
        if held.take_if(|held| held.is_same_connection(client)).is_some() {
            self.connected.store(false, Ordering::Release);
        }
        drop(held);
        client.close().await;
    }

    /// Closes it for good.
    pub async fn close(&self) {
        self.closed.send_replace(true);
        let client = self.client.lock().await.take();
        self.connected.store(false, Ordering::Release);
        if let Some(client) = client {
            client.close().await;
        }
    }
}

impl McpServers {
    /// The connection, made if there is none. The error is worded for whoever called.
    pub(super) async fn client(&self, link: &Arc<ServerConnection>) -> Result<Client, String> {
        let seen = link.attempts.load(Ordering::Acquire);
        if let Ok(client) = link.client.try_lock()
            && let Some(client) = client.as_ref()
        {
            return Ok(client.clone());
        }
        // On its own, so that a connection that is being made outlives a caller who gives up.
        let (servers, link) = (self.clone(), Arc::clone(link));
        #[expect(
            clippy::disallowed_methods,
            reason = "awaited here; it stops with the servers, with its connection, or at the timeout for connecting"
        )]
        let made = tokio::spawn(async move { servers.connect(&link, seen).await });
        made.await.unwrap_or_else(|_| Err("connecting was interrupted".into()))
    }

    async fn connect(&self, link: &Arc<ServerConnection>, seen: u64) -> Result<Client, String> {
        let mut held = link.client.lock().await;
        if let Some(client) = held.as_ref() {
            return Ok(client.clone());
        }
        let failed_meanwhile = link.attempts.load(Ordering::Acquire) != seen;
        let last = link.breaker.lock().last_error().map(str::to_owned);
        if let (true, Some(last)) = (failed_meanwhile, last) {
            return Err(last);
        }
        if link.is_closed() || self.is_stopped() {
            return Err("is being closed".into());
        }
        let now = self.clock().now();
        if let Err(shut) = link.breaker.lock().try_pass(now) {
            return Err(format!("failed three times and is left alone until {}: {}", shut.until, shut.last));
        }
        let (mut retired, mut stop) = (link.closed.subscribe(), self.stop());
        let made = tokio::select! {
            made = self.connect_and_list(link) => made,
            () = wait_for_stop(&mut retired) => return Err("is being closed".into()),
            () = wait_for_stop(&mut stop) => return Err("is being closed".into()),
        };
        link.attempts.fetch_add(1, Ordering::AcqRel);
        match made {
            Ok(client) => {
                link.breaker.lock().record_connect();
                link.connected.store(true, Ordering::Release);
                *held = Some(client.clone());
                self.watch_connection(link, client.clone());
                Ok(client)
            }
            Err(why) => {
                let why = self.redactor().for_project(link.server.project).redact_text(&why).into_owned();
                link.breaker.lock().record_failure(self.clock().now(), FailureKind::Connecting, &why);
                warn!(server = link.server.name(), "MCP server `{}` {why}", link.server.name());
                self.record_error(link, &why).await;
                Err(why)
            }
        }
    }

    /// Connects and lists: nothing is called before it is known whether it is still what it was.
    async fn connect_and_list(&self, link: &Arc<ServerConnection>) -> Result<Client, String> {
        let target = target::resolve_target(&link.server, self.secrets(), self.settings()).await?;
        let (redactor, name) =
            (self.redactor().for_project(link.server.project), link.server.name().to_owned());
        let options = ClientOptions {
            max_message_bytes: self.settings().max_message_bytes,
            connect_timeout: self.settings().connect_timeout,
            probe_timeout: self.settings().probe_timeout,
            on_stderr: Arc::new(move |line| debug!(server = name, "{}", redactor.redact_text(line))),
            ..ClientOptions::default()
        };
        let client = Client::connect(target, options).await.map_err(|error| error.to_string())?;
        match self.refresh(link, &client).await {
            Ok(()) => {
                info!(server = link.server.name(), version = client.version(), "MCP server connected");
                Ok(client)
            }
            Err(why) => {
                client.close().await;
                Err(why)
            }
        }
    }

    /// Lists the tools and writes down what changed.
    pub(super) async fn refresh(&self, link: &Arc<ServerConnection>, client: &Client) -> Result<(), String> {
        let tools =
            client.list_tools(self.settings().connect_timeout).await.map_err(|error| error.to_string())?;
        let (mut listed, mut usable, mut left_out) = (HashMap::new(), Vec::new(), 0);
        for tool in tools {
            let tool = match self.without_secrets(link, tool) {
                Ok(tool) if is_usable(&tool) => tool,
                _ => {
                    left_out += 1;
                    continue;
                }
            };
            listed.entry(tool.name.clone()).or_insert_with(|| pins::digest(&tool));
            usable.push(tool);
        }
        if left_out > 0 {
            warn!(
                server = link.server.name(),
                tools = left_out,
                "tools of `{}` have names that cannot be used",
                link.server.name()
            );
        }
        *link.listed.write() = listed;
        let (server, now) = (link.server.clone(), self.clock().now());
        let usable = Arc::new(usable);
        let written = self.db().write(move |tx| record_listing(tx, &server, &usable, now)).await;
        let changed = written.map_err(|error: emergent_store::Error| {
            warn!(error = %error, "a server's tools could not be written down");
            "its tools could not be written down".to_owned()
        })?;
        let Some(changed) = changed else {
            return Err("has had more tools than are kept of one server: remove it and add it again".into());
        };
        if !changed.is_empty() && link.server.pin_policy != PinPolicy::Off {
            warn!(
                server = link.server.name(),
                tools = changed.join(", "),
                "MCP server `{}` changed tools that were seen before",
                link.server.name()
            );
        }
        Ok(())
    }

    /// A tool as it is kept and shown: a server may have written into it what it was given.
    fn without_secrets(&self, link: &ServerConnection, tool: RemoteTool) -> Result<RemoteTool, String> {
        let redactor = self.redactor().for_project(link.server.project);
        let Cow::Owned(clean) = redactor.redact_text(tool.text.get()) else { return Ok(tool) };
        let clean = RawValue::from_string(clean).or_else(|_| {
            // A secret of digits alone stood there as a number.
            let mut value: Value = serde_json::from_str(tool.text.get())?;
            redactor.redact_value(&mut value);
            to_raw_value(&value)
        });
        RemoteTool::parse(clean.map_err(|error| error.to_string())?)
    }

    async fn record_error(&self, link: &Arc<ServerConnection>, why: &str) {
        let (id, version, why) = (link.server.id, link.server.version, why.replace('\0', ""));
        let noted =
            self.db().write(move |tx| mcp_servers::record_contact(tx, id, version, None, Some(&why))).await;
        if let Err(error) = noted {
            let error: emergent_store::Error = error;
            warn!(error = %error, "a server's error could not be written down");
        }
    }

    /// Hears announcements as long as the connection lasts, and makes it again when it is lost.
    fn watch_connection(&self, link: &Arc<ServerConnection>, client: Client) {
        let (weak, link) = (self.downgrade(), Arc::clone(link));
        let (mut stop, mut retired) = (self.stop(), link.closed.subscribe());
        #[expect(
            clippy::disallowed_methods,
            reason = "it ends with its connection, or when the servers stop"
        )]
        tokio::spawn(async move {
            let mut changed = client.tools_changed();
            let lost = loop {
                tokio::select! {
                    lost = client.closed() => break lost,
                    () = wait_for_stop(&mut stop) => return,
                    // Whoever retires it closes it.
                    () = wait_for_stop(&mut retired) => return,
                    heard = changed.changed() => {
                        let (Ok(()), Some(servers)) = (heard, weak.upgrade()) else { return };
                        if let Err(why) = servers.refresh(&link, &client).await {
                            debug!(server = link.server.name(), "a changed list was not read: {why}");
                        }
                        drop(servers);
                        tokio::time::sleep(MIN_LISTING_INTERVAL).await;
                    }
                }
            };
            link.drop_client(&client).await;
            drop(client);
            if link.is_closed() {
                return;
            }
            warn!(server = link.server.name(), "MCP server `{}`: {lost}", link.server.name());
            for attempt in 0..MAX_RECONNECTS {
                let pause = BACKOFF.delay(attempt);
                tokio::select! {
                    () = tokio::time::sleep(pause) => {}
                    () = wait_for_stop(&mut stop) => return,
                    () = wait_for_stop(&mut retired) => return,
                }
                let Some(servers) = weak.upgrade() else { return };
                if link.is_closed() || link.is_connected() || servers.client(&link).await.is_ok() {
                    return;
                }
            }
        });
    }

    /// What became of a call, for the breaker.
    pub(super) async fn record_call(
        &self,
        link: &Arc<ServerConnection>,
        client: &Client,
        done: Result<(), &McpError>,
    ) {
        match done {
            Err(error) if error.is_server_failure() => {
                let why = self
                    .redactor()
                    .for_project(link.server.project)
                    .redact_text(&error.to_string())
                    .into_owned();
                link.breaker.lock().record_failure(self.clock().now(), FailureKind::Calling, &why);
                self.record_error(link, &why).await;
                // A server that does not answer may have lost its wits: the next call begins anew.
                let shut = link.breaker.lock().is_open(self.clock().now());
                if shut {
                    link.drop_client(client).await;
                }
            }
            _ => link.breaker.lock().record_success(),
        }
    }
}

/// Names that a whitelist and a database can hold.
fn is_usable(tool: &RemoteTool) -> bool {
    let fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ':' | '/');
    !tool.name.is_empty() && tool.name.len() <= 128 && tool.name.chars().all(fine)
}

/// Writes down a listing; returns the names of tools that are not what they were. `None`: it would be
/// more than is kept of one server, and nothing was written.
fn record_listing(
    tx: &mut Tx<'_>,
    server: &McpServer,
    listed: &[RemoteTool],
    now: emergent_domain::time::Timestamp,
) -> Result<Option<Vec<String>>, emergent_store::Error> {
    let Some(row) = mcp_servers::lock(tx, server.project, server.id)? else { return Ok(Some(Vec::new())) };
    if row.version != server.version {
        return Ok(Some(Vec::new()));
    }
    let known = mcp_tools::list_for_server(tx, server.id)?;
    let write = pins::updates_for_listing(&known, listed, row.pin_policy, now);
    if !pins::within_limits(&known, &write) {
        return Ok(None);
    }
    for tool in &write {
        mcp_tools::upsert(tx, server.id, tool)?;
    }
    if !write.is_empty() || row.listed_at.is_none() {
        mcp_servers::bump_revision(tx, server.project)?;
    }
    mcp_servers::record_contact(tx, server.id, server.version, Some(now), None)?;
    let known: HashSet<&str> = known.iter().map(|tool| tool.name.as_str()).collect();
    Ok(Some(write.into_iter().map(|tool| tool.name).filter(|name| known.contains(name.as_str())).collect()))
}
