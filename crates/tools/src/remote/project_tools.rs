//! [`RemoteTools`], the external tools that a project has: which are offered, which are held back, and whose
//! tool a bare name means.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use emergent_domain::{
    ids::{McpServerId, ProjectId},
    mcp_server::{McpServer, ToolStatus},
    time::Timestamp,
    tool_name::external,
};
use emergent_mcp::client::RemoteTool;
use emergent_store::{
    Tx, mcp_servers,
    mcp_tools::{self, StoredTool},
};
use serde_json::value::RawValue;
use tracing::warn;

use super::{McpServers, connection::ServerConnection, pins, status::is_held_back, tool::ServerTool};
use crate::Tool;

/// The external tools of one project.
#[derive(Clone)]
pub struct RemoteTools {
    /// The tools that are offered, the first accepted first.
    pub tools: Arc<Vec<Arc<dyn Tool>>>,
    /// Increases with every change of the servers or tools of the project; -1 if it could not be read.
    pub revision: i64,
    /// The server that each bare name means: the one whose tool of this name was accepted first. It keeps the
    /// name while it is disabled, or its tool is held back or gone, so that no other server can take it over.
    pub owners: Arc<HashMap<String, String>>,
    /// Every tool that was accepted, the first accepted first, also those that are not offered now.
    pub accepted: Arc<Vec<AcceptedTool>>,
    /// The names that tools of several servers have.
    pub conflicts: Arc<Vec<NameConflict>>,
    /// The tools of enabled servers that are held back.
    pub held: Arc<Vec<HeldTool>>,
    /// All servers of the project, as they were when the revision changed.
    pub(crate) servers: Arc<Vec<McpServer>>,
}

/// A tool that was accepted, whether it is offered now or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcceptedTool {
    pub server: String,
    /// The escaped name.
    pub name: String,
    pub since: Timestamp,
}

/// Accepted tools of several servers that have the same name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NameConflict {
    /// The escaped name.
    pub name: String,
    /// The server that the bare name means.
    pub owner: String,
    /// The other servers, whose tools can only be listed as `server.tool`.
    pub others: Vec<String>,
}

/// A tool that is held back until a person accepts it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldTool {
    pub server: String,
    /// The escaped name.
    pub name: String,
    pub status: ToolStatus,
}

impl RemoteTools {
    /// No tools, and not complete: the project or the database could not be read.
    pub(crate) fn empty() -> Self {
        Self {
            tools: Arc::default(),
            revision: -1,
            owners: Arc::default(),
            accepted: Arc::default(),
            conflicts: Arc::default(),
            held: Arc::default(),
            servers: Arc::default(),
        }
    }

    /// Whether these are all external tools: they were read, and every enabled server was listed.
    pub fn is_complete(&self) -> bool {
        self.revision >= 0 && !self.servers.iter().any(is_unreached)
    }

    /// The names of the enabled servers that were never reached.
    pub fn unreached_servers(&self) -> Vec<String> {
        self.servers
            .iter()
            .filter(|server| is_unreached(server))
            .map(|server| server.name().to_owned())
            .collect()
    }
}

fn is_unreached(server: &McpServer) -> bool {
    server.enabled && server.listed_at.is_none()
}

/// The rows that the external tools of a project are built from.
struct Rows {
    revision: i64,
    servers: Vec<McpServer>,
    tools: Vec<(McpServerId, StoredTool)>,
    /// Server and announced name of every tool that was accepted, and since when, the first accepted first.
    accepted: Vec<(McpServerId, String, Timestamp)>,
}

impl Rows {
    fn load(tx: &mut Tx<'_>, project: ProjectId) -> Result<Self, emergent_store::Error> {
        Ok(Self {
            revision: mcp_servers::revision(tx, project)?.unwrap_or(-1),
            servers: mcp_servers::list_all(tx, project)?,
            tools: mcp_tools::list_for_project(tx, project)?,
            accepted: mcp_tools::list_accepted(tx, project)?,
        })
    }
}

impl McpServers {
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
        match self.db().read(move |tx| Rows::load(tx, project)).await {
            Ok(rows) => self.cache(project, rows),
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
    fn cache(&self, project: ProjectId, rows: Rows) -> RemoteTools {
        let accepted = accepted_tools(&rows.servers, &rows.accepted);
        let (owners, conflicts) = name_owners(&accepted);
        let ranks: HashMap<(McpServerId, &str), usize> = rows
            .accepted
            .iter()
            .enumerate()
            .map(|(rank, (id, name, _))| ((*id, name.as_str()), rank))
            .collect();
        let enabled = rows.servers.iter().filter(|server| server.enabled);
        let connections: HashMap<McpServerId, Arc<ServerConnection>> =
            enabled.map(|server| (server.id, self.connection(server))).collect();
        let (mut ranked, mut held) = (Vec::new(), Vec::new());
        for (id, tool) in &rows.tools {
            let Some(connection) = connections.get(id) else { continue };
            let server = &connection.server;
            if !external::filter_allows(&server.tool_filter, server.name(), &tool.name) {
                continue;
            }
            if is_held_back(server, tool) {
                let name = external::escape(&tool.name).into_owned();
                held.push(HeldTool { server: server.name().to_owned(), name, status: tool.status });
            }
            if pins::is_offered(tool, server.pin_policy) {
                let rank = ranks.get(&(*id, tool.name.as_str())).copied().unwrap_or(usize::MAX);
                ranked.extend(self.offered_tool(connection, tool).map(|tool| (rank, tool)));
            }
        }
        ranked.sort_by_key(|(rank, _)| *rank);
        let remote = RemoteTools {
            tools: Arc::new(ranked.into_iter().map(|(_, tool)| tool).collect()),
            revision: rows.revision,
            owners: Arc::new(owners),
            accepted: Arc::new(accepted),
            conflicts: Arc::new(conflicts),
            held: Arc::new(held),
            servers: Arc::new(rows.servers),
        };
        let before = self.0.tool_cache.lock().insert(project, remote.clone());
        warn_of_conflicts(project, &remote, before.as_ref());
        remote
    }

    /// A stored tool as a tool of the pool; `None` if it cannot be used.
    fn offered_tool(&self, connection: &Arc<ServerConnection>, tool: &StoredTool) -> Option<Arc<dyn Tool>> {
        let parsed = RawValue::from_string(tool.tool.clone()).map_err(|error| error.to_string());
        match parsed.and_then(RemoteTool::parse) {
            Ok(remote) => ServerTool::from_listing(self.downgrade(), connection, remote, tool.digest.clone()),
            Err(error) => {
                warn!(server = connection.server.name(), "a stored tool cannot be parsed: {error}");
                None
            }
        }
    }
}

/// The accepted tools that have names: those that the filter of their server does not exclude.
fn accepted_tools(servers: &[McpServer], accepted: &[(McpServerId, String, Timestamp)]) -> Vec<AcceptedTool> {
    let by_id: HashMap<McpServerId, &McpServer> = servers.iter().map(|server| (server.id, server)).collect();
    let named = accepted.iter().filter_map(|(id, announced, since)| {
        let server = by_id.get(id)?;
        external::filter_allows(&server.tool_filter, server.name(), announced).then(|| AcceptedTool {
            server: server.name().to_owned(),
            name: external::escape(announced).into_owned(),
            since: *since,
        })
    });
    named.collect()
}

/// The server that each bare name means, and the names that several servers have. `accepted` has the first
/// accepted tool first.
fn name_owners(accepted: &[AcceptedTool]) -> (HashMap<String, String>, Vec<NameConflict>) {
    let (mut owners, mut conflicts) =
        (HashMap::<String, String>::new(), BTreeMap::<String, Vec<String>>::new());
    for AcceptedTool { server, name, .. } in accepted {
        match owners.get(name) {
            Some(_) => conflicts.entry(name.clone()).or_default().push(server.clone()),
            None => {
                owners.insert(name.clone(), server.clone());
            }
        }
    }
    let conflicts = conflicts
        .into_iter()
        .filter_map(|(name, others)| Some(NameConflict { owner: owners.get(&name)?.clone(), name, others }))
        .collect();
    (owners, conflicts)
}

/// Warns of conflicts that were not there before.
fn warn_of_conflicts(project: ProjectId, remote: &RemoteTools, before: Option<&RemoteTools>) {
    for conflict in remote.conflicts.iter() {
        if before.is_some_and(|before| before.conflicts.contains(conflict)) {
            continue;
        }
        let NameConflict { name, owner, others } = conflict;
        let others = others.join("`, `");
        warn!(
            project = %project,
            tool = name,
            "the tool `{name}` of the MCP server `{owner}` was accepted first and keeps its bare name; the tools of \
             the same name of `{others}` can be listed as `server.{name}` only"
        );
    }
}

#[cfg(test)]
mod tests {
    use emergent_testkit::fixtures;
    use serde_json::json;

    use super::*;

    fn server(name: &str, filter: &str) -> McpServer {
        let spec = json!({ "name": name, "transport": "http", "url": "https://x.test/" });
        McpServer { tool_filter: vec![filter.into()], ..fixtures::mcp_server(ProjectId::new(), spec) }
    }

    #[test]
    fn a_bare_name_means_the_tool_that_was_accepted_first() {
        let servers = [server("one", "*"), server("two", "*"), server("three", "other_*")];
        let accepted: Vec<_> = [(0, "a.b"), (1, "find"), (0, "find"), (2, "find"), (1, "a_b")]
            .map(|(index, name): (usize, &str)| {
                (servers[index].id, name.to_owned(), Timestamp::from_micros(0))
            })
            .into();
        let (owners, conflicts) = name_owners(&accepted_tools(&servers, &accepted));
        assert_eq!(owners["find"], "two");
        assert_eq!((owners["a%2Eb"].as_str(), owners["a_b"].as_str()), ("one", "two"));
        let conflict = NameConflict { name: "find".into(), owner: "two".into(), others: vec!["one".into()] };
        assert_eq!(conflicts, [conflict], "the filter of `three` excludes its tool");
    }
}
