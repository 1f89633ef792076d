//! The tools of external MCP servers as they were last listed, and what was accepted of them.

use emergent_domain::{
    ids::{McpServerId, ProjectId, TokenId},
    mcp_server::ToolStatus,
    time::Timestamp,
};

use crate::{
    error::{Error, Result},
    params,
    tx::Tx,
    value::Row,
};

#[derive(Debug, Clone, PartialEq)]
pub struct StoredTool {
    pub name: String,
    /// As the server sent it, to the letter, but for secrets.
    pub tool: String,
    pub digest: String,
    /// What was accepted: by being the first, by policy, or by somebody.
    pub pinned_digest: String,
    pub pinned_tool: String,
    pub status: ToolStatus,
    pub first_seen: Timestamp,
    pub changed_at: Option<Timestamp>,
    pub accepted_by: Option<TokenId>,
}

const COLUMNS: &str = "t.name, t.tool, t.digest, t.pinned_digest, t.pinned_tool, t.status, t.first_seen, t.changed_at, t.accepted_by";

fn from_row(row: &Row<'_>) -> Result<StoredTool> {
    let status: String = row.get(5)?;
    Ok(StoredTool {
        name: row.get(0)?,
        tool: row.get(1)?,
        digest: row.get(2)?,
        pinned_digest: row.get(3)?,
        pinned_tool: row.get(4)?,
        status: ToolStatus::parse(&status).ok_or(Error::Column { column: 5, expected: "a tool's status" })?,
        first_seen: row.get(6)?,
        changed_at: row.get(7)?,
        accepted_by: row.get(8)?,
    })
}

/// By name.
pub fn list_for_server(tx: &mut Tx<'_>, server: McpServerId) -> Result<Vec<StoredTool>> {
    let sql = format!("SELECT {COLUMNS} FROM mcp_server_tools AS t WHERE t.server_id = $1 ORDER BY t.name");
    tx.query(&sql, params![server], from_row)
}

/// Those of all enabled servers of a project, by server and name; not those that are gone.
pub fn list_for_project(tx: &mut Tx<'_>, project: ProjectId) -> Result<Vec<(McpServerId, StoredTool)>> {
    let sql = format!(
        "SELECT {COLUMNS}, t.server_id FROM mcp_server_tools AS t
         JOIN project_mcp_servers AS s ON s.id = t.server_id
         WHERE s.project_id = $1 AND s.enabled = $2 AND t.status <> 'gone' ORDER BY s.name, t.name"
    );
    tx.query(&sql, params![project, true], |row| Ok((row.get(9)?, from_row(row)?)))
}

/// The names of the tools that each server of a project was last seen to have, whether or not the
/// server is enabled and whether or not the tool is held back.
pub fn list_names(tx: &mut Tx<'_>, project: ProjectId) -> Result<Vec<(McpServerId, String)>> {
    tx.query(
        "SELECT t.server_id, t.name FROM mcp_server_tools AS t
         JOIN project_mcp_servers AS s ON s.id = t.server_id
         WHERE s.project_id = $1 AND t.status <> 'gone' ORDER BY s.name, t.name",
        params![project],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )
}

/// How many tools of each server of a project there are, and how many differ from what was accepted.
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

/// Writes what is known of a tool.
pub fn upsert(tx: &mut Tx<'_>, server: McpServerId, tool: &StoredTool) -> Result<()> {
    tx.execute(
        "INSERT INTO mcp_server_tools (server_id, name, tool, digest, pinned_digest, pinned_tool, status, first_seen,
             changed_at, accepted_by)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
         ON CONFLICT (server_id, name) DO UPDATE SET tool = excluded.tool, digest = excluded.digest,
             pinned_digest = excluded.pinned_digest, pinned_tool = excluded.pinned_tool,
             status = excluded.status, changed_at = excluded.changed_at, accepted_by = excluded.accepted_by",
        params![
            server,
            &tool.name,
            &tool.tool,
            &tool.digest,
            &tool.pinned_digest,
            &tool.pinned_tool,
            tool.status.as_str(),
            tool.first_seen,
            tool.changed_at,
            tool.accepted_by
        ],
    )?;
    Ok(())
}
