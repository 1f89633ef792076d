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
    mcp_server::{McpServer, ProgramPatterns},
    redact::Redactor,
    time::Clock,
    tool_name::glob_matches,
};
use emergent_mcp::client::RemoteTool;
use emergent_secrets::Secrets;
use emergent_store::{Db, Tx, mcp_servers, mcp_tools};
use futures_util::future::join_all;
use hashlink::LruCache;
use parking_lot::Mutex;
use serde_json::value::RawValue;
use tokio::sync::watch;
use tracing::warn;

mod breaker;
mod connection;
mod content;
mod error;
mod manage;
mod pins;
mod status;
mod target;
mod tool;

use connection::ServerConnection;
pub use error::Error;
pub use manage::{NewServer, ServerPatch};
pub use status::{Inspection, ServerWithCounts, Status, is_held_back};
use tool::ServerTool;

use crate::Tool;

/// The tools of this many projects are cached.
const CACHE_CAPACITY: usize = 1_000;
/// How often the servers are read from the database if no notification arrives.
const POLL_INTERVAL: Duration = Duration::from_secs(30);

/// Which servers may be used, and the limits of their connections.
#[derive(Debug, Clone)]
pub struct RemoteSettings {
    /// Whether programs may be run as MCP servers.
    pub allow_stdio: bool,
    /// The programs that tokens of one project may configure.
    pub programs: ProgramPatterns,
    /// The data folder of this process, which programs may neither read nor change.
    pub hidden_folder: Option<PathBuf>,
    /// The binary that supervises programs; see [`emergent_mcp::client::Sandbox`].
    pub supervisor: Option<PathBuf>,
    /// Whether MCP servers may have addresses of this machine or of its private network.
    pub allow_private_hosts: bool,
    /// The time limit for connecting, and for listing tools.
    pub connect_timeout: Duration,
    /// How long a program may take to reply to the first request. After that, the client assumes an older
    /// revision of the protocol.
    pub probe_timeout: Duration,
    /// How long the start of a run waits for servers whose tools were never listed.
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
            hidden_folder: None,
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
    /// The tools of each project, with the revision at which they were read.
    tool_cache: Mutex<LruCache<ProjectId, RemoteTools>>,
    stop: watch::Sender<bool>,
}

/// The external tools of one project.
#[derive(Clone)]
pub struct RemoteTools {
    pub tools: Arc<Vec<Arc<dyn Tool>>>,
    /// Increases with every change of the servers or tools of the project; -1 if it could not be read.
    pub revision: i64,
    /// Enabled servers whose tools were never listed.
    unlisted: Arc<Vec<McpServer>>,
}

impl RemoteTools {
    /// No tools, and not complete: the project or the database could not be read.
    fn empty() -> Self {
        Self { tools: Arc::default(), revision: -1, unlisted: Arc::default() }
    }

    /// Whether these are all external tools: they were read, and every enabled server was listed.
    pub fn is_complete(&self) -> bool {
        self.unlisted.is_empty() && self.revision >= 0
    }
}

impl McpServers {
    pub fn new(db: Db, clock: Clock, secrets: Secrets, settings: RemoteSettings) -> Self {
        Self(Arc::new(Inner {
            db,
            clock,
            secrets,
            settings,
            connections: Mutex::default(),
            tool_cache: Mutex::new(LruCache::new(CACHE_CAPACITY)),
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

    /// The stored external tools of a project. This connects to no server: it reads the revision of the
    /// project, and uses the cache if the revision has not changed.
    pub async fn project_tools(&self, project: ProjectId) -> RemoteTools {
        let read = self.db().read(move |tx| mcp_servers::revision(tx, project)).await;
        let revision = match read {
            Ok(Some(revision)) => revision,
            Ok(None) => return RemoteTools::empty(),
            Err(error) => return self.cached_after_error(project, &error),
        };
        if let Some(cached) = self.0.tool_cache.lock().get(&project)
            && cached.revision == revision
        {
            return cached.clone();
        }
        match self.db().read(move |tx| load_rows(tx, project)).await {
            Ok((revision, servers, tools)) => self.cache(project, revision, servers, tools),
            Err(error) => self.cached_after_error(project, &error),
        }
    }

    /// The cached tools, for when the database cannot be read. The run will report the failure itself when it
    /// uses the database.
    fn cached_after_error(&self, project: ProjectId, error: &emergent_store::Error) -> RemoteTools {
        warn!(error = %error, "the external tools of a project could not be read");
        self.0.tool_cache.lock().get(&project).cloned().unwrap_or_else(RemoteTools::empty)
    }

    /// Builds the tools that are offered to a project from its rows, and caches them.
    fn cache(
        &self,
        project: ProjectId,
        revision: i64,
        servers: Vec<McpServer>,
        stored_tools: Vec<(McpServerId, mcp_tools::StoredTool)>,
    ) -> RemoteTools {
        let enabled: Vec<McpServer> = servers.into_iter().filter(|server| server.enabled).collect();
        let connections: HashMap<McpServerId, Arc<ServerConnection>> =
            enabled.iter().map(|server| (server.id, self.connection(server))).collect();
        let mut tools = Vec::new();
        for (id, tool) in stored_tools {
            let Some(connection) = connections.get(&id) else { continue };
            let server = &connection.server;
            if !pins::is_offered(&tool, server.pin_policy)
                || !filter_allows(&server.tool_filter, server.name(), &tool.name)
            {
                continue;
            }
            let parsed = RawValue::from_string(tool.tool).map_err(|error| error.to_string());
            match parsed.and_then(RemoteTool::parse) {
                Ok(remote) => {
                    tools.extend(ServerTool::from_listing(self.downgrade(), connection, remote, tool.digest))
                }
                Err(error) => warn!(server = server.name(), "a stored tool cannot be parsed: {error}"),
            }
        }
        let unlisted = enabled.into_iter().filter(|server| server.listed_at.is_none()).collect();
        let remote = RemoteTools { tools: Arc::new(tools), revision, unlisted: Arc::new(unlisted) };
        self.0.tool_cache.lock().insert(project, remote.clone());
        remote
    }

    /// Like [`McpServers::project_tools`], for the start of a run: it first connects to servers that were
    /// never reached, within a time limit. The run starts without the servers that do not respond.
    pub async fn tools_for_run(&self, project: ProjectId) -> RemoteTools {
        let remote = self.project_tools(project).await;
        if remote.unlisted.is_empty() {
            return remote;
        }
        let connections: Vec<_> = remote.unlisted.iter().map(|server| self.connection(server)).collect();
        let connecting = join_all(connections.iter().map(|connection| self.client(connection)));
        let _ = tokio::time::timeout(self.settings().run_start_timeout, connecting).await;
        self.project_tools(project).await
    }

    /// The connection of this version of a server, connected or not.
    fn connection(&self, server: &McpServer) -> Arc<ServerConnection> {
        let mut connections = self.0.connections.lock();
        match connections.get(&server.id) {
            // The filter, the pin policy and the timeout can change without a new version.
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
        let connection = ServerConnection::new(server.clone());
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
            Ok(Some(server)) if server.enabled => Ok(self.connection(&server)),
            Ok(Some(_)) => Err("is switched off".into()),
            Ok(None) => Err("is no longer in this project".into()),
            Err(error) => {
                let error: emergent_store::Error = error;
                warn!(error = %error, "an MCP server could not be read");
                Err("could not be looked up".into())
            }
        }
    }

    /// Closes stale connections until `stop` becomes true, then all connections.
    pub async fn run(&self, mut stop: watch::Receiver<bool>) {
        let mut changed = self.db().waiter(mcp_servers::CHANGED_CHANNEL);
        loop {
            tokio::select! {
                () = changed.wait(POLL_INTERVAL) => self.close_stale().await,
                () = wait_for_stop(&mut stop) => break,
            }
        }
        self.shutdown().await;
    }

    /// Closes the connections of servers that were changed, disabled or deleted.
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

/// The revision of a project, its servers, and its tools by server.
type Rows = (i64, Vec<McpServer>, Vec<(McpServerId, mcp_tools::StoredTool)>);

fn load_rows(tx: &mut Tx<'_>, project: ProjectId) -> Result<Rows, emergent_store::Error> {
    let revision = mcp_servers::revision(tx, project)?.unwrap_or(-1);
    Ok((revision, mcp_servers::list_all(tx, project)?, mcp_tools::list_for_project(tx, project)?))
}

/// Whether everything that can change without a new version is equal.
fn same_filter_and_policy(server: &McpServer, other: &McpServer) -> bool {
    server.pin_policy == other.pin_policy
        && server.timeout_seconds == other.timeout_seconds
        && server.tool_filter == other.tool_filter
        && server.product == other.product
}

/// Whether a pattern of the filter matches `tool` or `server.tool`.
fn filter_allows(filter: &[String], server: &str, tool: &str) -> bool {
    let qualified = format!("{server}.{tool}");
    filter.iter().any(|glob| glob_matches(glob, tool) || glob_matches(glob, &qualified))
}
