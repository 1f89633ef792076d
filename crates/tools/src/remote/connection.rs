//! The connection to one version of one MCP server. It is opened when it is first needed and reopened when
//! it is lost; a circuit breaker pauses attempts while the server fails.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use emergent_domain::{
    mcp_server::McpServer,
    redact::{HeldSecret, Redactor},
    time::Timestamp,
};
use emergent_mcp::client::{Client as McpClient, ClientOptions, LargeMessages, Target};
use emergent_net::backoff::Backoff;
use emergent_store::mcp_servers;
use parking_lot::{Mutex, RwLock};
use tokio::sync::watch;
use tracing::{debug, info, warn};

use super::{
    McpServers,
    breaker::{Breaker, FailureKind},
    client::{CallFailure, RemoteClient, RemoteTarget},
    content,
    secret_versions::SecretVersions,
    stderr_tail::StderrTail,
    target::{self, ResolvedTarget},
    tool::MAX_FAILURE_BYTES,
    wait_for_stop,
};

/// How many times a lost connection is reopened in the background. After that, the next call reopens it.
const MAX_RECONNECTS: u32 = 6;
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(500), Duration::from_secs(16));
/// The minimum time between two listings, for a server that announces changes all the time.
const MIN_LISTING_INTERVAL: Duration = Duration::from_secs(2);

/// How many values that a server was sent are remembered; the current ones come first, then the newest.
const MAX_SENT_SECRETS: usize = 200;

/// The connection to one version of one server, open or not.
pub struct ServerConnection {
    pub server: McpServer,
    pub breaker: Mutex<Breaker>,
    /// The open connection. The lock is held while connecting, so that only one caller connects.
    client: tokio::sync::Mutex<Option<RemoteClient>>,
    /// Counts attempts to connect, so that a caller who waited for a failed attempt gets its error instead
    /// of trying again.
    attempts: AtomicU64,
    /// Becomes true when the server is changed, disabled or deleted.
    closed: watch::Sender<bool>,
    /// The digest of each tool in the last listing, by the name of the tool.
    pub listed: RwLock<HashMap<String, String>>,
    /// The secrets that the server was sent, now or earlier, and that it may say.
    sent: RwLock<Arc<[HeldSecret]>>,
    connected: AtomicBool,
    /// The project's share of the limits for large messages.
    pub large_messages: LargeMessages,
    /// Whether the row of the server has an error that this process stored.
    pub has_stored_error: AtomicBool,
    /// The secrets of the server when the connection was first used.
    pub secret_versions: Mutex<Option<SecretVersions>>,
}

impl ServerConnection {
    /// `sent`: the secrets that earlier connections of the server were given.
    pub fn new(server: McpServer, sent: Arc<[HeldSecret]>, large_messages: LargeMessages) -> Arc<Self> {
        Arc::new(Self {
            server,
            breaker: Mutex::default(),
            client: tokio::sync::Mutex::default(),
            attempts: AtomicU64::new(0),
            closed: watch::channel(false).0,
            listed: RwLock::default(),
            sent: RwLock::new(sent),
            connected: AtomicBool::new(false),
            large_messages,
            has_stored_error: AtomicBool::new(false),
            secret_versions: Mutex::default(),
        })
    }

    pub fn is_closed(&self) -> bool {
        *self.closed.borrow()
    }

    pub fn is_connected(&self) -> bool {
        self.connected.load(Ordering::Acquire)
    }

    /// The digest of a tool in the last listing; `None` if the server has no such tool.
    pub fn current_digest(&self, tool: &str) -> Option<String> {
        self.listed.read().get(tool).cloned()
    }

    /// The secrets that the server was sent, now or earlier.
    pub fn sent_secrets(&self) -> Arc<[HeldSecret]> {
        Arc::clone(&self.sent.read())
    }

    /// Adds secrets that the server is about to be sent. Those of earlier connections stay: a server may have
    /// stored what it was given.
    fn add_sent(&self, mut secrets: Vec<HeldSecret>) -> Arc<[HeldSecret]> {
        let mut sent = self.sent.write();
        let max = secrets.len().max(MAX_SENT_SECRETS);
        for earlier in sent.iter() {
            if secrets.len() < max && !secrets.iter().any(|secret| secret.is_same(earlier)) {
                secrets.push(earlier.clone());
            }
        }
        *sent = secrets.into();
        Arc::clone(&sent)
    }

    /// Closes a client that was lost or fails. A client that was connected in the meantime stays open.
    async fn drop_client(&self, client: &RemoteClient) {
        let mut current = self.client.lock().await;
        if current.take_if(|current| current.is_same_connection(client)).is_some() {
            self.connected.store(false, Ordering::Release);
        }
        drop(current);
        client.close().await;
    }

    /// Closes the connection permanently.
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
    /// Hides the secrets that a server was sent in what the server says, whoever reads it: a model, a caller, a
    /// record or the status of the server. Those of other servers are not searched for: a placeholder would
    /// confirm a guess, to the server with the next call, or to whoever configured the server and reads the record.
    pub(super) fn sent_redactor(&self, connection: &ServerConnection) -> Redactor {
        self.redactor().for_secrets(&connection.sent_secrets())
    }

    /// What is shown of an error of a server: without the secrets that the server was sent, and then shortened.
    pub(super) fn shown_error(&self, connection: &ServerConnection, reason: &str) -> String {
        content::redact_error(&self.sent_redactor(connection), reason, MAX_FAILURE_BYTES)
    }

    /// The open client of a connection; connects if there is none. The error completes a sentence that begins
    /// with the server's name, such as "is being closed".
    pub(super) async fn client(&self, connection: &Arc<ServerConnection>) -> Result<RemoteClient, String> {
        let attempts_before = connection.attempts.load(Ordering::Acquire);
        if let Ok(client) = connection.client.try_lock()
            && let Some(client) = client.as_ref()
        {
            return Ok(client.clone());
        }
        // In a task of its own, so that connecting continues if the caller is cancelled.
        let (servers, connection) = (self.clone(), Arc::clone(connection));
        #[expect(
            clippy::disallowed_methods,
            reason = "awaited here; it stops with the servers, with its connection, or at the timeout for connecting"
        )]
        let connecting = tokio::spawn(async move { servers.connect(&connection, attempts_before).await });
        connecting.await.unwrap_or_else(|_| Err("could not be connected: the attempt was interrupted".into()))
    }

    /// Connects, unless another caller did or failed since `attempts_before` was read.
    async fn connect(
        &self,
        connection: &Arc<ServerConnection>,
        attempts_before: u64,
    ) -> Result<RemoteClient, String> {
        let mut current = connection.client.lock().await;
        if let Some(client) = current.as_ref() {
            return Ok(client.clone());
        }
        let failed_meanwhile = connection.attempts.load(Ordering::Acquire) != attempts_before;
        let last_error = connection.breaker.lock().last_error().map(str::to_owned);
        if let (true, Some(error)) = (failed_meanwhile, last_error) {
            return Err(error);
        }
        if connection.is_closed() || self.is_stopped() {
            return Err("is being closed".into());
        }
        let (mut closed, mut stop) = (connection.closed.subscribe(), self.stop());
        let resolved = tokio::select! {
            resolved = self.resolve(connection) => resolved,
            () = wait_for_stop(&mut closed) => return Err("is being closed".into()),
            () = wait_for_stop(&mut stop) => return Err("is being closed".into()),
        };
        let target = match resolved {
            Ok(target) => target,
            // If the settings are to blame and not the server, the breaker does not count it: a secret that is set
            // has effect at once.
            Err(reason) => return Err(self.record_failed_connect(connection, reason).await),
        };
        let now = self.clock().now();
        if let Err(open) = connection.breaker.lock().try_pass(now) {
            return Err(format!("failed three times and is left alone until {}: {}", open.until, open.last));
        }
        let connected = tokio::select! {
            connected = self.connect_and_list(connection, target) => connected,
            () = wait_for_stop(&mut closed) => return Err("is being closed".into()),
            () = wait_for_stop(&mut stop) => return Err("is being closed".into()),
        };
        connection.attempts.fetch_add(1, Ordering::AcqRel);
        match connected {
            Ok(client) => {
                connection.breaker.lock().record_connect();
                connection.connected.store(true, Ordering::Release);
                *current = Some(client.clone());
                // An agent has no connection that could be lost, and announces nothing.
                if let RemoteClient::Mcp(client) = &client {
                    self.watch_connection(connection, client.clone());
                }
                Ok(client)
            }
            Err(reason) => {
                let reason = self.record_failed_connect(connection, reason).await;
                let now = self.clock().now();
                connection.breaker.lock().record_failure(now, FailureKind::Connecting, &reason);
                Err(reason)
            }
        }
    }

    /// The target of a connection, with the secrets that are sent to it. The error is without them.
    async fn resolve(&self, connection: &ServerConnection) -> Result<RemoteTarget, String> {
        let resolved = target::resolve_target(&connection.server, self.secrets(), self.settings()).await;
        let ResolvedTarget { target, sent } =
            resolved.map_err(|reason| self.shown_error(connection, &reason))?;
        self.remember_sent(connection, sent).await;
        Ok(target)
    }

    /// Gives a program the cache folder of its server. The program keeps it until its process has ended.
    async fn prepare_cache(
        &self,
        connection: &ServerConnection,
        target: &mut RemoteTarget,
    ) -> Result<(), String> {
        let (Some(caches), RemoteTarget::Mcp(Target::Stdio(program))) = (&self.0.program_caches, target)
        else {
            return Ok(());
        };
        let (project, server) = (connection.server.project, connection.server.id);
        let folder = caches.folder_of(server);
        let cache_use = caches.prepare(project, server, self.settings().connect_timeout).await;
        let failed = |error| format!("has no cache folder (`{}`): {error}", folder.display());
        program.kept = Some(cache_use.map_err(failed)?);
        program.sandbox.cache = Some(folder);
        Ok(())
    }

    /// Logs and stores that a server could not be connected. `reason` is shown as it is, and returned.
    async fn record_failed_connect(&self, connection: &ServerConnection, reason: String) -> String {
        let name = connection.server.name();
        warn!(server = name, "MCP server `{name}` {}", reason.replace('\n', " | "));
        self.store_error(connection, reason.clone()).await;
        reason
    }

    /// Connects and lists the tools. A tool is called only after its current digest is known, so that a
    /// changed tool is held back. The error is without the secrets of the server. That of a program has the end of its
    /// standard error: before the first call, no caller has sent anything that the program could repeat there.
    async fn connect_and_list(
        &self,
        connection: &Arc<ServerConnection>,
        mut target: RemoteTarget,
    ) -> Result<RemoteClient, String> {
        let (redactor, name) =
            (self.redactor().for_project(connection.server.project), connection.server.name().to_owned());
        let tail = Arc::new(StderrTail::new(self.sent_redactor(connection)));
        let (started, written) = (Arc::clone(&tail), Arc::clone(&tail));
        let options = ClientOptions {
            max_message_bytes: self.settings().max_message_bytes,
            large_messages: connection.large_messages.clone(),
            connect_timeout: self.settings().connect_timeout_for(&connection.server),
            probe_timeout: self.settings().probe_timeout,
            asks_for_input: true,
            on_start: Arc::new(move || started.clear()),
            on_stderr: Arc::new(move |line| {
                debug!(server = name, "{}", redactor.redact_text(line));
                written.push(line);
            }),
            ..ClientOptions::default()
        };
        let shown = |reason: String| tail.add_to(&self.shown_error(connection, &reason));
        self.prepare_cache(connection, &mut target).await.map_err(shown)?;
        let client = RemoteClient::connect(target, options).await.map_err(shown)?;
        match self.refresh(connection, &client).await {
            Ok(()) => {
                info!(server = connection.server.name(), version = client.version(), "MCP server connected");
                Ok(client)
            }
            Err(reason) => {
                client.close().await;
                Err(shown(reason))
            }
        }
    }

    /// Adds the secrets that a server is about to be sent, and those that it may have been sent before this
    /// process started: it has a binding for them.
    async fn remember_sent(&self, connection: &ServerConnection, mut sent: Vec<HeldSecret>) {
        match self.secrets().hold_bound(&connection.server).await {
            Ok(bound) => sent.extend(bound),
            // The connection needs only those that it sends, which could be read.
            Err(error) => {
                let name = connection.server.name();
                warn!(server = name, error = %error, "the other secrets of MCP server `{name}` could not be read");
            }
        }
        let mut distinct: Vec<HeldSecret> = Vec::with_capacity(sent.len());
        for secret in sent {
            if !distinct.iter().any(|one| one.is_same(&secret)) {
                distinct.push(secret);
            }
        }
        let all = connection.add_sent(distinct);
        if !all.is_empty() {
            self.0.sent_secrets.lock().insert(connection.server.id, all);
        }
    }

    /// Stores the last error of a server, without the secrets that it was sent, so that every process shows it.
    pub(super) async fn record_error(&self, connection: &ServerConnection, reason: &str) {
        self.store_error(connection, self.shown_error(connection, reason)).await;
    }

    /// Stores the last error of a server. It must not contain a secret.
    async fn store_error(&self, connection: &ServerConnection, shown: String) {
        connection.has_stored_error.store(true, Ordering::Release);
        let (shown, now) = (shown.replace('\0', ""), self.clock().now());
        self.record_contact(connection, Some((shown, now))).await;
    }

    /// Stores how the last contact with a server ended.
    async fn record_contact(&self, connection: &ServerConnection, error: Option<(String, Timestamp)>) {
        let (id, version) = (connection.server.id, connection.server.version);
        let stored = self.db().write(move |tx| {
            let error = error.as_ref().map(|(reason, at)| (reason.as_str(), *at));
            mcp_servers::record_contact(tx, id, version, error)
        });
        if let Err(error) = stored.await {
            let error: emergent_store::Error = error;
            warn!(error = %error, "the last contact with an MCP server could not be stored");
        }
    }

    /// Starts a task that lists the tools again when the server announces a change, and reopens the
    /// connection when it is lost.
    fn watch_connection(&self, connection: &Arc<ServerConnection>, client: McpClient) {
        let (weak_servers, connection) = (self.downgrade(), Arc::clone(connection));
        let (mut stop, mut closed) = (self.stop(), connection.closed.subscribe());
        #[expect(
            clippy::disallowed_methods,
            reason = "it ends with its connection, or when the servers stop"
        )]
        tokio::spawn(async move {
            let mut changed = client.tools_changed();
            let shared = RemoteClient::Mcp(client.clone());
            let close_reason = loop {
                tokio::select! {
                    close_reason = client.closed() => break close_reason,
                    () = wait_for_stop(&mut stop) => return,
                    // `close` closes the client.
                    () = wait_for_stop(&mut closed) => return,
                    announced = changed.changed() => {
                        let (Ok(()), Some(servers)) = (announced, weak_servers.upgrade()) else { return };
                        if let Err(reason) = servers.refresh_or_record(&connection, &shared).await {
                            debug!(
                                server = connection.server.name(),
                                "the changed tools could not be listed: {reason}"
                            );
                        }
                        drop(servers);
                        tokio::time::sleep(MIN_LISTING_INTERVAL).await;
                    }
                }
            };
            connection.drop_client(&shared).await;
            drop((client, shared));
            if connection.is_closed() {
                return;
            }
            warn!(
                server = connection.server.name(),
                "MCP server `{}` {close_reason}",
                connection.server.name()
            );
            if let Some(servers) = weak_servers.upgrade()
                && !connection.is_connected()
            {
                servers.record_error(&connection, &close_reason.without_quotes()).await;
            }
            for attempt in 0..MAX_RECONNECTS {
                let delay = BACKOFF.delay(attempt);
                tokio::select! {
                    () = tokio::time::sleep(delay) => {}
                    () = wait_for_stop(&mut stop) => return,
                    () = wait_for_stop(&mut closed) => return,
                }
                let Some(servers) = weak_servers.upgrade() else { return };
                if connection.is_closed()
                    || connection.is_connected()
                    || servers.client(&connection).await.is_ok()
                {
                    return;
                }
            }
        });
    }

    /// Records the outcome of a call in the breaker. What the server said is left out: it may repeat what the
    /// caller sent, and others would see there whether that is a secret.
    pub(super) async fn record_call(
        &self,
        connection: &Arc<ServerConnection>,
        client: &RemoteClient,
        outcome: Result<(), CallFailure>,
    ) {
        match outcome {
            Err(CallFailure { is_server_failure: true, reason, .. }) => {
                connection.breaker.lock().record_failure(self.clock().now(), FailureKind::Calling, &reason);
                self.record_error(connection, &reason).await;
                // The server may be in a broken state, so the next call opens a new connection.
                let is_open = connection.breaker.lock().is_open(self.clock().now());
                if is_open {
                    connection.drop_client(client).await;
                }
            }
            _ => {
                connection.breaker.lock().record_success();
                if connection.has_stored_error.swap(false, Ordering::AcqRel) {
                    self.record_contact(connection, None).await;
                }
            }
        }
    }
}
