//! Reads the MCP servers of a project: their rows, tools and status, and a connection test.

use std::sync::Arc;

use emergent_domain::{
    cursor::{Page, ResultPage},
    ids::{McpServerId, ProjectId},
    mcp_server::{McpServer, ServerSpec, ToolStatus, TransportKind},
    time::Timestamp,
};
use emergent_net::address;
use emergent_store::{
    Tx, mcp_servers,
    mcp_tools::{self, StoredTool, ToolCounts},
};
use tokio::time::Instant;

use super::{Error, McpServers, connection::ServerConnection, pins};

/// The status of a server, as this process sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    Disabled,
    /// The server is a program that is not run here.
    Blocked,
    Connected,
    /// The server was listed before, and will be connected again when it is needed.
    Idle,
    /// The last attempt to connect or to call failed, in this process or another one.
    Failing,
    /// The server was never connected.
    New,
}

impl Status {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Disabled => "disabled",
            Self::Blocked => "blocked",
            Self::Connected => "connected",
            Self::Idle => "idle",
            Self::Failing => "failing",
            Self::New => "new",
        }
    }
}

/// The result of [`McpServers::inspect`].
#[derive(Debug, Clone)]
pub struct Inspection {
    /// The revision of MCP that the server uses; `None` if connecting or listing failed.
    pub protocol: Option<String>,
    pub tools: Vec<StoredTool>,
    pub error: Option<String>,
    /// How long the inspection took.
    pub millis: u64,
}

/// A server and the numbers of its tools.
pub type ServerWithCounts = (McpServer, ToolCounts);

impl McpServers {
    pub async fn get(&self, project: ProjectId, id: McpServerId) -> Result<ServerWithCounts, Error> {
        let read = move |tx: &mut Tx<'_>| {
            let server = mcp_servers::get(tx, project, id)?.ok_or_else(|| Error::no_server(id))?;
            let counts = mcp_tools::counts(tx, project)?;
            Ok(with_counts(server, &counts))
        };
        self.db().read(read).await
    }

    /// Finds the server that has this name.
    pub async fn find_by_name(&self, project: ProjectId, name: String) -> Result<McpServerId, Error> {
        let read = move |tx: &mut Tx<'_>| {
            // No name contains NUL, and PostgreSQL rejects such a parameter.
            let found =
                if name.contains('\0') { None } else { mcp_servers::get_by_name(tx, project, &name)? };
            Ok(found.ok_or_else(|| Error::no_server(name.escape_default()))?.id)
        };
        self.db().read(read).await
    }

    pub async fn list(&self, project: ProjectId, page: Page) -> Result<ResultPage<ServerWithCounts>, Error> {
        let read = move |tx: &mut Tx<'_>| {
            let servers = mcp_servers::list(tx, project, &page)?;
            let counts = mcp_tools::counts(tx, project)?;
            let items = servers.items.into_iter().map(|server| with_counts(server, &counts)).collect();
            Ok(ResultPage { items, next: servers.next })
        };
        self.db().read(read).await
    }

    /// The servers of all projects, each with the name of its project; at most `limit`.
    pub async fn list_all_projects(&self, limit: usize) -> Result<Vec<(String, ServerWithCounts)>, Error> {
        let read = move |tx: &mut Tx<'_>| {
            let servers = mcp_servers::list_in_all_projects(tx, limit)?;
            let mut counts = Vec::new();
            let mut counted = None;
            for (_, server) in &servers {
                // The servers of a project follow each other.
                if counted != Some(server.project) {
                    counts.extend(mcp_tools::counts(tx, server.project)?);
                    counted = Some(server.project);
                }
            }
            let items = servers.into_iter().map(|(project, server)| (project, with_counts(server, &counts)));
            Ok(items.collect())
        };
        self.db().read(read).await
    }

    /// A server and its stored tools, with those that the server no longer has.
    pub async fn tools(
        &self,
        project: ProjectId,
        id: McpServerId,
    ) -> Result<(McpServer, Vec<StoredTool>), Error> {
        let read = move |tx: &mut Tx<'_>| {
            let server = mcp_servers::get(tx, project, id)?.ok_or_else(|| Error::no_server(id))?;
            Ok((server, mcp_tools::list_for_server(tx, id)?))
        };
        self.db().read(read).await
    }

    /// Connects to a server now, even if its circuit breaker is open, and lists its tools.
    pub async fn inspect(&self, project: ProjectId, id: McpServerId) -> Result<Inspection, Error> {
        let (server, ..) = self.get(project, id).await?;
        if !server.enabled {
            return Err(Error::Conflict(format!("`{}` is switched off: enable it first", server.name())));
        }
        let started = Instant::now();
        let connection = self.up_to_date_connection(&server).await;
        connection.breaker.lock().record_success();
        let listed = match self.client(&connection).await {
            Ok(client) => match self.refresh_or_record(&connection, &client).await {
                Ok(()) => Ok(client.version()),
                Err(reason) => Err(reason),
            },
            Err(reason) => Err(reason),
        };
        let (protocol, error) = match listed {
            Ok(version) => (Some(version), None),
            Err(reason) => (None, Some(self.sent_redactor(&connection).redact_text(&reason).into_owned())),
        };
        let tools = match &error {
            None => self
                .tools(project, id)
                .await?
                .1
                .into_iter()
                .filter(|tool| tool.status != ToolStatus::Gone)
                .collect(),
            Some(_) => Vec::new(),
        };
        let millis = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        Ok(Inspection { protocol, tools, error, millis })
    }

    /// The status of a server, from its row and the connection of this process.
    pub fn status(&self, server: &McpServer) -> Status {
        let connected = self.find_connection(server).is_some_and(|connection| connection.is_connected());
        match server {
            _ if !server.enabled => Status::Disabled,
            _ if self.is_blocked(&server.spec) || !self.is_admitted(server) => Status::Blocked,
            // The last contact counts, in whichever process it was: an open connection may be of no use.
            McpServer { last_error: Some(_), .. } => Status::Failing,
            _ if connected => Status::Connected,
            McpServer { listed_at: Some(_), .. } => Status::Idle,
            _ => Status::New,
        }
    }

    /// Why a server that was added can never be reached here: its address is a literal private one, and those are
    /// refused. Names are not resolved, because what they lead to can change.
    pub fn address_warning(&self, server: &McpServer) -> Option<String> {
        let (ServerSpec::Sse { url, .. } | ServerSpec::Http { url, .. } | ServerSpec::A2a { url, .. }) =
            &server.spec
        else {
            return None;
        };
        let parsed = reqwest::Url::parse(url).ok()?;
        let reason = address::check(&parsed, self.settings().allow_private_hosts).err()?;
        Some(format!("its address cannot be used: {reason}"))
    }

    /// Until when the circuit breaker of a server is open in this process; `None` if it is closed.
    pub fn breaker_open_until(&self, server: &McpServer) -> Option<Timestamp> {
        let now = self.clock().now();
        self.find_connection(server).and_then(|connection| connection.breaker.lock().open_until(now))
    }

    /// The connection of exactly this version of a server, if this process has one.
    fn find_connection(&self, server: &McpServer) -> Option<Arc<ServerConnection>> {
        let connection = self.0.connections.lock().get(&server.id).map(Arc::clone);
        connection.filter(|connection| connection.server.version == server.version)
    }

    /// Whether whoever configured the server may still have its program run.
    fn is_admitted(&self, server: &McpServer) -> bool {
        self.settings().programs.allow_spec(&server.spec, server.configured_by)
    }

    /// Whether the server is a program, and programs are not run here.
    pub fn is_blocked(&self, spec: &ServerSpec) -> bool {
        spec.transport() == TransportKind::Stdio && !self.settings().allow_stdio
    }
}

fn with_counts(server: McpServer, counts: &[(McpServerId, ToolCounts)]) -> ServerWithCounts {
    let counts = counts.iter().find(|(id, _)| *id == server.id).map(|(_, counts)| *counts);
    (server, counts.unwrap_or_default())
}

/// Whether a new or changed tool is held back from the project's agents until somebody accepts it.
pub fn is_held_back(server: &McpServer, tool: &StoredTool) -> bool {
    tool.status != ToolStatus::Gone && !pins::is_offered(tool, server.pin_policy)
}
