//! The tools of external MCP servers: each as the server last listed it, and the accepted definition that it
//! is pinned to.

use emergent_domain::{
    ids::{McpServerId, ProjectId, TokenId},
    mcp_server::ToolStatus,
    time::Timestamp,
};

use crate::{
    error::Result,
    params,
    row::{TableRow, row},
    tx::Tx,
    value::Param,
};

/// The stored row of a tool.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredTool {
    pub name: String,
    /// The definition exactly as the server sent it, with secrets redacted.
    pub tool: String,
    /// The digest of `tool`.
    pub digest: String,
    /// The digest of the accepted definition; empty for a tool that was never accepted. It was accepted with
    /// the first listing of the server, because the server is trusted, because of the pin policy, or by a
    /// person.
    pub pinned_digest: String,
    pub pinned_tool: String,
    pub status: ToolStatus,
    pub first_seen: Timestamp,
    pub changed_at: Option<Timestamp>,
    /// The token that accepted the pinned definition; `None` if no person did.
    pub accepted_by: Option<TokenId>,
    /// When the tool was first accepted; `None` if it never was.
    pub accepted_at: Option<Timestamp>,
}

row! {
    StoredTool in "mcp_server_tools" {
        name: "name",
        tool: "tool",
        digest: "digest",
        pinned_digest: "pinned_digest",
        pinned_tool: "pinned_tool",
        status: "status",
        first_seen: "first_seen",
        changed_at: "changed_at",
        accepted_by: "accepted_by",
        accepted_at: "accepted_at",
    }
}

impl StoredTool {
    /// The tool with the status that its row stands for. A tool that was never accepted is stored as
    /// `changed`, so that an earlier version, which knows no `new`, holds it back.
    fn with_new_status(self) -> Self {
        match (self.status, self.accepted_at) {
            (ToolStatus::Changed, None) => Self { status: ToolStatus::New, ..self },
            _ => self,
        }
    }

    fn with_stored_status(&self) -> Self {
        match self.status {
            ToolStatus::New => Self { status: ToolStatus::Changed, accepted_at: None, ..self.clone() },
            _ => self.clone(),
        }
    }
}

/// How many tools a server has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ToolCounts {
    /// All tools that the server listed last.
    pub tools: i64,
    /// Those that were never accepted.
    pub new: i64,
    /// Those that differ from what was accepted.
    pub changed: i64,
}

/// The tools of a server, by name.
pub fn list_for_server(tx: &mut Tx<'_>, server: McpServerId) -> Result<Vec<StoredTool>> {
    let columns = StoredTool::COLUMNS;
    let sql = format!("SELECT {columns} FROM mcp_server_tools WHERE server_id = $1 ORDER BY name");
    tx.query(&sql, params![server], |row| Ok(StoredTool::from_row(row)?.with_new_status()))
}

/// The tools of all enabled servers of a project, by server and name, without those that their server no
/// longer lists.
pub fn list_for_project(tx: &mut Tx<'_>, project: ProjectId) -> Result<Vec<(McpServerId, StoredTool)>> {
    let sql = format!(
        "SELECT t.server_id, {} FROM mcp_server_tools AS t
         JOIN project_mcp_servers AS s ON s.id = t.server_id
         WHERE s.project_id = $1 AND s.enabled = $2 AND t.status <> 'gone' ORDER BY s.name, t.name",
        StoredTool::columns_of("t")
    );
    tx.query(&sql, params![project, true], |row| {
        Ok((row.get(0)?, StoredTool::from_row_at(row, 1)?.with_new_status()))
    })
}

/// The tools that were accepted in a project, the first accepted first, and since when: also those of disabled
/// servers, those that are held back since, and those that their server no longer lists.
pub fn list_accepted(tx: &mut Tx<'_>, project: ProjectId) -> Result<Vec<(McpServerId, String, Timestamp)>> {
    tx.query(
        "SELECT t.server_id, t.name, coalesce(t.accepted_at, t.first_seen) FROM mcp_server_tools AS t
         JOIN project_mcp_servers AS s ON s.id = t.server_id
         WHERE s.project_id = $1 AND (t.accepted_at IS NOT NULL OR t.status = 'live')
         ORDER BY coalesce(t.accepted_at, t.first_seen), s.created_at, s.name, t.name",
        params![project],
        |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
    )
}

/// Accepts every tool of a server that is held back because it is new.
pub fn accept_new(tx: &mut Tx<'_>, server: McpServerId, now: Timestamp) -> Result<()> {
    tx.execute(
        "UPDATE mcp_server_tools
         SET status = 'live', pinned_digest = digest, pinned_tool = tool, accepted_at = $2
         WHERE server_id = $1 AND status = 'changed' AND accepted_at IS NULL",
        params![server, now],
    )?;
    Ok(())
}

/// The names of the tools that each server of a project last listed, even if the server is disabled or the
/// tool is held back.
pub fn list_names(tx: &mut Tx<'_>, project: ProjectId) -> Result<Vec<(McpServerId, String)>> {
    tx.query(
        "SELECT t.server_id, t.name FROM mcp_server_tools AS t
         JOIN project_mcp_servers AS s ON s.id = t.server_id
         WHERE s.project_id = $1 AND t.status <> 'gone' ORDER BY s.name, t.name",
        params![project],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )
}

/// Those of [`list_names`] that are held back: new tools that were not accepted yet, and changed ones.
pub fn list_held_names(tx: &mut Tx<'_>, project: ProjectId) -> Result<Vec<(McpServerId, String)>> {
    tx.query(
        "SELECT t.server_id, t.name FROM mcp_server_tools AS t
         JOIN project_mcp_servers AS s ON s.id = t.server_id
         WHERE s.project_id = $1 AND t.status NOT IN ('live', 'gone')",
        params![project],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )
}

/// For each server of a project: how many tools it has, and how many of them are new or changed.
pub fn counts(tx: &mut Tx<'_>, project: ProjectId) -> Result<Vec<(McpServerId, ToolCounts)>> {
    tx.query(
        "SELECT t.server_id, sum(CASE WHEN t.status = 'gone' THEN 0 ELSE 1 END),
                sum(CASE WHEN t.status = 'changed' AND t.accepted_at IS NULL THEN 1 ELSE 0 END),
                sum(CASE WHEN t.status = 'changed' AND t.accepted_at IS NOT NULL THEN 1 ELSE 0 END)
         FROM mcp_server_tools AS t JOIN project_mcp_servers AS s ON s.id = t.server_id
         WHERE s.project_id = $1 GROUP BY t.server_id",
        params![project],
        |row| Ok((row.get(0)?, ToolCounts { tools: row.get(1)?, new: row.get(2)?, changed: row.get(3)? })),
    )
}

/// Inserts or updates a tool of a server.
pub fn upsert(tx: &mut Tx<'_>, server: McpServerId, tool: &StoredTool) -> Result<()> {
    tx.insert_row(
        &tool.with_stored_status(),
        [("server_id", Param::from(server))],
        "ON CONFLICT (server_id, name) DO UPDATE SET tool = excluded.tool, digest = excluded.digest,
             pinned_digest = excluded.pinned_digest, pinned_tool = excluded.pinned_tool,
             status = excluded.status, changed_at = excluded.changed_at, accepted_by = excluded.accepted_by,
             accepted_at = excluded.accepted_at",
    )?;
    Ok(())
}
