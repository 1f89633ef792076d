//! [`McpServers`], the external MCP servers of all projects: their tools and the connections to them. If a
//! server fails, only its own tools are unavailable.

use std::{
    collections::{HashMap, HashSet},
    path::PathBuf,
    sync::{Arc, Weak},
    time::Duration,
};

use emergent_domain::{
    ids::{McpServerId, ProjectId},
    mcp_server::{DEFAULT_TIMEOUT, McpServer, ProgramPatterns, TransportKind},
    redact::{HeldSecret, Redactor},
    time::Clock,
};
use emergent_mcp::client::{Hidden, LargeMessages};
use emergent_secrets::Secrets;
use emergent_store::{Db, mcp_servers};
use futures_util::future::join_all;
use hashlink::LruCache;
use parking_lot::Mutex;
use tokio::sync::watch;
use tracing::warn;

mod agent;
mod availability;
mod breaker;
mod client;
mod connection;
mod content;
mod error;
mod listing;
mod manage;
mod pins;
mod program_cache;
mod project_tools;
mod secret_versions;
mod status;
mod stderr_tail;
mod target;
mod tool;

pub(crate) use availability::FailedServers;
use connection::ServerConnection;
pub use error::Error;
pub use manage::{NewServer, ServerPatch};
use program_cache::ProgramCaches;
pub use project_tools::{AcceptedTool, HeldTool, NameConflict, RemoteTools};
pub use status::{Inspection, ServerWithCounts, Status, is_held_back};

/// The tools of this many projects are cached.
const CACHE_CAPACITY: usize = 1_000;
/// The secrets that so many servers were sent are remembered; those of open connections in any case.
const MAX_REMEMBERED_SERVERS: usize = 10_000;
/// How often the servers are read from the database if no notification arrives.
const POLL_INTERVAL: Duration = Duration::from_secs(30);

/// Which servers may be used, and the limits of their connections.
#[derive(Debug, Clone)]
pub struct RemoteSettings {
    /// Whether programs may be run as MCP servers.
    pub allow_stdio: bool,
    /// The programs that tokens of one project may configure.
    pub programs: ProgramPatterns,
    /// The data folder of this process and the files with its credentials, which programs may neither read nor
    /// change.
    pub hidden: Hidden,
    /// The folder below which each program has a cache of its own; usually in the data folder. `None`: programs have
    /// none.
    pub cache_folder: Option<PathBuf>,
    /// The binary that supervises programs; see [`emergent_mcp::client::Sandbox`].
    pub supervisor: Option<PathBuf>,
    /// Whether MCP servers may have addresses of this machine or of its private network.
    pub allow_private_hosts: bool,
    /// The time limit for connecting, and for listing tools. That of a program can be longer:
    /// [`Self::connect_timeout_for`].
    pub connect_timeout: Duration,
    /// How long a program may take to reply to the first request. After that, the client assumes an older
    /// revision of the protocol.
    pub probe_timeout: Duration,
    /// How long the start of a run waits for servers whose tools were never listed, or that failed.
    pub run_start_timeout: Duration,
    /// How long a program may take to exit after its input is closed, and again after a signal to terminate.
    pub grace: Duration,
    /// The most bytes of one message.
    pub max_message_bytes: usize,
}

impl Default for RemoteSettings {
    fn default() -> Self {
        Self {
            allow_stdio: true,
            programs: ProgramPatterns::default(),
            hidden: Hidden::default(),
            cache_folder: None,
            supervisor: None,
            allow_private_hosts: false,
            connect_timeout: Duration::from_secs(30),
            probe_timeout: Duration::from_secs(3),
            run_start_timeout: Duration::from_secs(10),
            grace: Duration::from_secs(2),
            max_message_bytes: 8 << 20,
        }
    }
}

impl RemoteSettings {
    /// The time limit for connecting to a server, and for listing its tools. A program may have to download its
    /// package at its first start, so it gets the timeout of its calls if somebody raised that above the default.
    pub fn connect_timeout_for(&self, server: &McpServer) -> Duration {
        let is_raised = server.timeout_seconds > DEFAULT_TIMEOUT;
        match server.spec.transport() {
            TransportKind::Stdio if is_raised => {
                let raised = Duration::from_secs(u64::try_from(server.timeout_seconds).unwrap_or_default());
                self.connect_timeout.max(raised)
            }
            _ => self.connect_timeout,
        }
    }
}

/// The external MCP servers of all projects; clones share them.
#[derive(Clone)]
pub struct McpServers(Arc<Inner>);

/// A reference that does not keep the servers alive, for tools and background tasks.
pub(crate) struct WeakMcpServers(Weak<Inner>);

impl WeakMcpServers {
    fn upgrade(&self) -> Option<McpServers> {
        self.0.upgrade().map(McpServers)
    }
}

struct Inner {
    db: Db,
    clock: Clock,
    secrets: Secrets,
    settings: RemoteSettings,
    /// The connection of each server, for the newest version of the server that was used.
    connections: Mutex<HashMap<McpServerId, Arc<ServerConnection>>>,
    /// The secrets that each server was sent. A connection of a later version begins with them.
    sent_secrets: Mutex<LruCache<McpServerId, Arc<[HeldSecret]>>>,
    /// The tools of each project, with the revision at which they were read.
    tool_cache: Mutex<LruCache<ProjectId, RemoteTools>>,
    /// The limits for large messages of all servers, and the share of each project.
    large_messages: LargeMessages,
    large_message_shares: Mutex<LruCache<ProjectId, LargeMessages>>,
    /// `None`: programs have no caches.
    program_caches: Option<ProgramCaches>,
    stop: watch::Sender<bool>,
}

impl McpServers {
    pub fn new(db: Db, clock: Clock, secrets: Secrets, settings: RemoteSettings) -> Self {
        let program_caches = settings.cache_folder.clone().map(ProgramCaches::new);
        Self(Arc::new(Inner {
            db,
            clock,
            secrets,
            settings,
            connections: Mutex::default(),
            sent_secrets: Mutex::new(LruCache::new(MAX_REMEMBERED_SERVERS)),
            tool_cache: Mutex::new(LruCache::new(CACHE_CAPACITY)),
            large_messages: LargeMessages::default(),
            large_message_shares: Mutex::new(LruCache::new(CACHE_CAPACITY)),
            program_caches,
            stop: watch::channel(false).0,
        }))
    }

    fn db(&self) -> &Db {
        &self.0.db
    }

    fn clock(&self) -> &Clock {
        &self.0.clock
    }

    fn secrets(&self) -> &Secrets {
        &self.0.secrets
    }

    fn redactor(&self) -> &Redactor {
        self.0.secrets.redactor()
    }

    pub fn settings(&self) -> &RemoteSettings {
        &self.0.settings
    }

    fn downgrade(&self) -> WeakMcpServers {
        WeakMcpServers(Arc::downgrade(&self.0))
    }

    /// Becomes true when the servers are shut down.
    fn stop(&self) -> watch::Receiver<bool> {
        self.0.stop.subscribe()
    }

    fn is_stopped(&self) -> bool {
        *self.0.stop.borrow()
    }

    /// The number of open connections.
    pub fn open_connections(&self) -> usize {
        self.0.connections.lock().values().filter(|connection| connection.is_connected()).count()
    }

    /// The share of a project of the limits for large messages.
    fn large_messages(&self, project: ProjectId) -> LargeMessages {
        let mut shares = self.0.large_message_shares.lock();
        if let Some(share) = shares.get(&project) {
            return share.clone();
        }
        let share = self.0.large_messages.new_share();
        shares.insert(project, share.clone());
        share
    }

    /// The connection of this version of a server, connected or not.
    fn connection(&self, server: &McpServer) -> Arc<ServerConnection> {
        let mut connections = self.0.connections.lock();
        match connections.get(&server.id) {
            // The filter, the pin policy, the timeout and who configured it can change without a new version.
            Some(connection)
                if connection.server.version == server.version
                    && same_filter_and_policy(&connection.server, server) =>
            {
                return Arc::clone(connection);
            }
            // The caller has read an outdated row.
            Some(connection) if connection.server.version > server.version => return Arc::clone(connection),
            _ => {}
        }
        let sent = self.0.sent_secrets.lock().get(&server.id).map(Arc::clone).unwrap_or_default();
        let large = self.large_messages(server.project);
        let connection = ServerConnection::new(server.clone(), sent, large);
        if let Some(old) = connections.insert(server.id, Arc::clone(&connection)) {
            #[expect(
                clippy::disallowed_methods,
                reason = "not awaited: it closes one connection, within the grace period of its program"
            )]
            tokio::spawn(async move { old.close().await });
        }
        connection
    }

    /// The connection of the current version of a server, for a tool that a run got before the server
    /// changed. The error completes a sentence that begins with the server's name.
    async fn current_connection(&self, server: &McpServer) -> Result<Arc<ServerConnection>, String> {
        let (project, id) = (server.project, server.id);
        let row = self.db().read(move |tx| mcp_servers::get(tx, project, id)).await;
        match row {
            Ok(Some(server)) if server.enabled => Ok(self.up_to_date_connection(&server).await),
            Ok(Some(_)) => Err("is switched off".into()),
            Ok(None) => Err("is no longer in this project".into()),
            Err(error) => {
                let error: emergent_store::Error = error;
                warn!(error = %error, "an MCP server could not be read");
                Err("could not be looked up".into())
            }
        }
    }

    /// Closes stale connections and removes unused caches until `stop` becomes true, then closes all connections.
    pub async fn run(&self, stop: watch::Receiver<bool>) {
        self.warn_of_unconfirmed().await;
        // Removing large caches takes long, and no program is ended later because of it.
        tokio::join!(self.close_stale_until(stop.clone()), self.remove_unused_caches_until(stop));
        self.shutdown().await;
    }

    async fn close_stale_until(&self, mut stop: watch::Receiver<bool>) {
        let mut changed = self.db().waiter(mcp_servers::CHANGED_CHANNEL);
        loop {
            tokio::select! {
                () = changed.wait(POLL_INTERVAL) => self.close_stale().await,
                () = wait_for_stop(&mut stop) => return,
            }
        }
    }

    async fn remove_unused_caches_until(&self, mut stop: watch::Receiver<bool>) {
        let mut changed = self.db().waiter(mcp_servers::CHANGED_CHANNEL);
        loop {
            self.remove_caches(stop.clone()).await;
            tokio::select! {
                () = changed.wait(POLL_INTERVAL) => {}
                () = wait_for_stop(&mut stop) => return,
            }
        }
    }

    /// Says which programs are started only because they were configured before it was recorded by whom.
    async fn warn_of_unconfirmed(&self) {
        let unconfirmed = match self.db().read(mcp_servers::list_unconfirmed).await {
            Ok(unconfirmed) => unconfirmed,
            Err(error) => {
                let error: emergent_store::Error = error;
                return warn!(error = %error, "the MCP servers could not be read");
            }
        };
        for (project, server) in unconfirmed {
            let name = server.name();
            warn!(
                project,
                server = name,
                "the MCP server `{name}` was configured before it was recorded by whom, and has the rights of an \
                 operator's: look at it, then confirm it with a token that spans projects (`emergent mcp-server \
                 set {name} --enabled true -p {project}`), or disable it"
            );
        }
    }

    /// Closes the connections of servers that were changed, disabled or deleted, or whose secrets were.
    pub async fn close_stale(&self) {
        if self.0.connections.lock().is_empty() {
            return;
        }
        let current = match self.db().read(mcp_servers::list_enabled_versions).await {
            Ok(current) => current.into_iter().collect::<HashSet<_>>(),
            Err(error) => {
                let error: emergent_store::Error = error;
                warn!(error = %error, "the MCP servers could not be read");
                return;
            }
        };
        let stale: Vec<_> = {
            let mut connections = self.0.connections.lock();
            let stale_ids: Vec<_> = connections
                .iter()
                .filter(|(id, connection)| !current.contains(&(**id, connection.server.version)))
                .map(|(id, _)| *id)
                .collect();
            stale_ids.into_iter().filter_map(|id| connections.remove(&id)).collect()
        };
        join_all(stale.iter().map(|connection| connection.close())).await;
        self.close_with_old_secrets().await;
    }

    /// Removes the caches of servers that no longer exist and whose programs have ended, and those that grew too large.
    pub async fn remove_unused_caches(&self) {
        self.remove_caches(self.stop()).await;
    }

    async fn remove_caches(&self, stop: watch::Receiver<bool>) {
        let Some(caches) = &self.0.program_caches else { return };
        let removed = async {
            // The folders are listed before the servers: the folder of a new server is not taken for one of a
            // deleted one.
            let mut unused = caches.list().await?;
            if unused.is_empty() {
                return Ok(());
            }
            let existing: Result<_, emergent_store::Error> = self.db().read(mcp_servers::list_ids).await;
            for server in existing.map_err(std::io::Error::other)? {
                unused.servers.remove(&server);
            }
            caches.remove(unused, stop).await
        };
        if let Err(error) = removed.await {
            warn!(error = %error, "the caches of programs that were removed could not be deleted");
        }
    }

    /// Closes all connections and ends all programs. Later attempts to connect fail.
    pub async fn shutdown(&self) {
        self.0.stop.send_replace(true);
        let connections: Vec<_> =
            self.0.connections.lock().drain().map(|(_, connection)| connection).collect();
        join_all(connections.iter().map(|connection| connection.close())).await;
    }
}

/// Waits until the value becomes true, or its sender is dropped.
async fn wait_for_stop(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}

/// Whether everything that can change without a new version is equal.
fn same_filter_and_policy(server: &McpServer, other: &McpServer) -> bool {
    server.pin_policy == other.pin_policy
        && server.trust == other.trust
        && server.timeout_seconds == other.timeout_seconds
        && server.tool_filter == other.tool_filter
        && server.product == other.product
        && server.configured_by == other.configured_by
}
