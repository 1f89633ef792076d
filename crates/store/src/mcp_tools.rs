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
    /// The digest of the accepted definition. It was accepted because it was the first one, because of the
    /// pin policy, or by a person.
    pub pinned_digest: String,
    pub pinned_tool: String,
    pub status: ToolStatus,
    pub first_seen: Timestamp,
    pub changed_at: Option<Timestamp>,
    /// The token that accepted the pinned definition; `None` if no person did.
    pub accepted_by: Option<TokenId>,
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
    }
}

/// The tools of a server, by name.
pub fn list_for_server(tx: &mut Tx<'_>, server: McpServerId) -> Result<Vec<StoredTool>> {
    let columns = StoredTool::COLUMNS;
    let sql = format!("SELECT {columns} FROM mcp_server_tools WHERE server_id = $1 ORDER BY name");
    tx.query(&sql, params![server], StoredTool::from_row)
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
    tx.query(&sql, params![project, true], |row| Ok((row.get(0)?, StoredTool::from_row_at(row, 1)?)))
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

/// For each server of a project: how many tools it has, and how many of them differ from their pin.
pub fn counts(tx: &mut Tx<'_>, project: ProjectId) -> Result<Vec<(McpServerId, i64, i64)>> {
    tx.query(
        "SELECT t.server_id, sum(CASE WHEN t.status = 'gone' THEN 0 ELSE 1 END),
                sum(CASE WHEN t.status = 'changed' THEN 1 ELSE 0 END)
         FROM mcp_server_tools AS t JOIN project_mcp_servers AS s ON s.id = t.server_id
         WHERE s.project_id = $1 GROUP BY t.server_id",
        params![project],
        |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
    )
}

/// Inserts or updates a tool of a server.
pub fn upsert(tx: &mut Tx<'_>, server: McpServerId, tool: &StoredTool) -> Result<()> {
    tx.insert_row(
        tool,
        [("server_id", Param::from(server))],
        "ON CONFLICT (server_id, name) DO UPDATE SET tool = excluded.tool, digest = excluded.digest,
             pinned_digest = excluded.pinned_digest, pinned_tool = excluded.pinned_tool,
             status = excluded.status, changed_at = excluded.changed_at, accepted_by = excluded.accepted_by",
    )?;
    Ok(())
}
