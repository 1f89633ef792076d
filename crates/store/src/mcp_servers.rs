//! The external MCP servers of projects. Every change increments the project's `mcp_revision` and wakes the
//! tasks that manage connections, in every Emergent server.

use emergent_domain::{
    cursor::{Cursor, Page, ResultPage},
    ids::{McpServerId, ProjectId, TokenId},
    mcp_server::{ConfiguredBy, McpServer, ServerSpec, TransportKind},
    time::Timestamp,
};
use serde_json::Value;

use crate::{
    error::{Error, Result},
    page, params,
    row::{RowReader, TableRow, row, to_param},
    secret_bindings,
    tx::Tx,
    value::Param,
};

/// The channel that is woken when an MCP server or one of its tools changes, in any project.
pub const CHANGED_CHANNEL: &str = "mcp";

row! {
    McpServer in "project_mcp_servers" {
        id: "id",
        project: "project_id",
        product: "product",
        spec: SpecColumns("name", "description", "transport", "config"),
        configured_by: ConfiguredByColumn("configured_by"),
        unbound_version: "unbound_version",
        origin_bound_version: "origin_bound_version",
        address_bound_version: "address_bound_version",
        tool_filter: "tool_filter",
        pin_policy: "pin_policy",
        trust: "trust",
        timeout_seconds: "timeout_seconds",
        enabled: "enabled",
        version: "version",
        listed_at: "listed_at",
        tools_accepted_at: "tools_accepted_at",
        last_error: "last_error",
        last_error_at: "last_error_at",
        created_at: "created_at",
        updated_at: "updated_at",
    }
}

const COLUMNS: &str = McpServer::COLUMNS;

/// Reads and writes the description of a server. Three of its fields have their own columns, and `config`
/// holds the others as JSON.
struct SpecColumns;

impl SpecColumns {
    fn read(
        reader: &mut RowReader<'_, '_>,
        [name, description, transport, config]: [&'static str; 4],
    ) -> Result<ServerSpec> {
        let own_columns: [(&str, String); 3] = [
            ("name", reader.next(name)?),
            ("description", reader.next(description)?),
            ("transport", reader.next::<TransportKind>(transport)?.to_string()),
        ];
        let mut fields = reader.next::<Value>(config)?;
        // The settings can contain secrets, so the error does not show them.
        let unreadable = || reader.unreadable(config, "settings that are not shown");
        let map = fields.as_object_mut().ok_or_else(unreadable)?;
        map.extend(own_columns.map(|(field, text)| (field.to_owned(), Value::from(text))));
        serde_json::from_value(fields).map_err(|_| unreadable())
    }

    fn write<'a>(spec: &'a ServerSpec, params: &mut Vec<Param<'a>>) -> Result<()> {
        params.extend([
            Param::from(spec.name()),
            Param::from(spec.description()),
            Param::from(spec.transport()),
            config_param(spec)?,
        ]);
        Ok(())
    }
}

/// Reads and writes who configured a server: the token of one project, or NULL for an operator.
struct ConfiguredByColumn;

impl ConfiguredByColumn {
    fn read(reader: &mut RowReader<'_, '_>, [column]: [&'static str; 1]) -> Result<ConfiguredBy> {
        reader.next::<Option<TokenId>>(column).map(ConfiguredBy::from)
    }

    fn write<'a>(by: &'a ConfiguredBy, params: &mut Vec<Param<'a>>) -> Result<()> {
        params.push(Param::from(by.project_token()));
        Ok(())
    }
}

/// The fields of a description that have no column of their own, as JSON.
fn config_param(spec: &ServerSpec) -> Result<Param<'static>> {
    let mut config = serde_json::to_value(spec).map_err(|source| Error::Unwritable {
        table: McpServer::TABLE,
        column: "config",
        source,
    })?;
    if let Value::Object(config) = &mut config {
        for field in ["name", "description", "transport"] {
            config.remove(field);
        }
    }
    Ok(Param::Json(config.to_string().into()))
}

pub fn get(tx: &mut Tx<'_>, project: ProjectId, id: McpServerId) -> Result<Option<McpServer>> {
    let sql = format!("SELECT {COLUMNS} FROM project_mcp_servers WHERE id = $1 AND project_id = $2");
    tx.query_opt(&sql, params![id, project], McpServer::from_row)
}

/// Reads a server and locks its row until the transaction ends.
pub fn lock(tx: &mut Tx<'_>, project: ProjectId, id: McpServerId) -> Result<Option<McpServer>> {
    let lock = tx.for_update();
    let sql = format!("SELECT {COLUMNS} FROM project_mcp_servers WHERE id = $1 AND project_id = $2{lock}");
    tx.query_opt(&sql, params![id, project], McpServer::from_row)
}

pub fn get_by_name(tx: &mut Tx<'_>, project: ProjectId, name: &str) -> Result<Option<McpServer>> {
    let sql = format!("SELECT {COLUMNS} FROM project_mcp_servers WHERE project_id = $1 AND name = $2");
    tx.query_opt(&sql, params![project, name], McpServer::from_row)
}

/// Every server of a project, by name.
pub fn list_all(tx: &mut Tx<'_>, project: ProjectId) -> Result<Vec<McpServer>> {
    let sql = format!("SELECT {COLUMNS} FROM project_mcp_servers WHERE project_id = $1 ORDER BY name");
    tx.query(&sql, params![project], McpServer::from_row)
}

/// The servers of all live projects, with the names of their projects, by project and name.
pub fn list_in_all_projects(tx: &mut Tx<'_>, limit: usize) -> Result<Vec<(String, McpServer)>> {
    let sql = format!(
        "SELECT (SELECT p.name FROM projects AS p WHERE p.id = project_id), {COLUMNS} FROM project_mcp_servers
         WHERE project_id IN (SELECT id FROM projects WHERE deleted_at IS NULL)
         ORDER BY project_id, name LIMIT $1"
    );
    tx.query(&sql, params![limit], |row| Ok((row.get(0)?, McpServer::from_row_at(row, 1)?)))
}

/// A page of the servers of a project, newest first.
pub fn list(tx: &mut Tx<'_>, project: ProjectId, page: &Page) -> Result<ResultPage<McpServer>> {
    let mut params = vec![Param::from(project)];
    let (after, values) = page::after_cursor_sql(page, "created_at", "id", 2);
    params.extend(values);
    let sql = format!(
        "SELECT {COLUMNS} FROM project_mcp_servers WHERE project_id = $1{after}
         ORDER BY created_at DESC, id DESC{}",
        page::limit_sql(page)
    );
    page::query_page(tx, page.limit, &sql, &params, McpServer::from_row, |server| Cursor {
        created_at: server.created_at,
        id: server.id.0,
    })
}

/// The servers of live projects that an operator should confirm, each with the name of its project; see
/// [`McpServer::needs_confirmation`].
pub fn list_unconfirmed(tx: &mut Tx<'_>) -> Result<Vec<(String, McpServer)>> {
    let sql = format!(
        "SELECT p.name, {} FROM project_mcp_servers AS s JOIN projects AS p ON p.id = s.project_id
         WHERE s.unbound_version = s.version AND s.configured_by IS NULL AND s.enabled = $1
             AND p.deleted_at IS NULL
         ORDER BY p.name, s.name",
        McpServer::columns_of("s")
    );
    tx.query(&sql, params![true], |row| Ok((row.get(0)?, McpServer::from_row_at(row, 1)?)))
}

/// The id and version of every enabled server of a live project.
pub fn list_enabled_versions(tx: &mut Tx<'_>) -> Result<Vec<(McpServerId, i64)>> {
    tx.query(
        "SELECT s.id, s.version FROM project_mcp_servers AS s JOIN projects AS p ON p.id = s.project_id
         WHERE s.enabled = $1 AND p.deleted_at IS NULL",
        params![true],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )
}

/// The id of every server of a live project.
pub fn list_ids(tx: &mut Tx<'_>) -> Result<Vec<McpServerId>> {
    let sql = "SELECT s.id FROM project_mcp_servers AS s JOIN projects AS p ON p.id = s.project_id
               WHERE p.deleted_at IS NULL";
    tx.query(sql, &[], |row| row.get(0))
}

/// How often a project's servers and their tools were changed; `None` when no live project has this id.
pub fn revision(tx: &mut Tx<'_>, project: ProjectId) -> Result<Option<i64>> {
    tx.query_opt(
        "SELECT mcp_revision FROM projects WHERE id = $1 AND deleted_at IS NULL",
        params![project],
        |row| row.get(0),
    )
}

/// Increments the revision of a project, whose servers or tools changed, and wakes the waiters for it.
pub fn bump_revision(tx: &mut Tx<'_>, project: ProjectId) -> Result<()> {
    tx.execute("UPDATE projects SET mcp_revision = mcp_revision + 1 WHERE id = $1", params![project])?;
    tx.wake(CHANGED_CHANNEL)?;
    tx.wake(&format!("{CHANGED_CHANNEL}:{project}"))
}

/// Inserts a server; false when the project has a server of that name.
pub fn insert(tx: &mut Tx<'_>, server: &McpServer) -> Result<bool> {
    let inserted = tx.insert_row(server, [], "ON CONFLICT (project_id, name) DO NOTHING")?;
    if inserted == 1 {
        bump_revision(tx, server.project)?;
    }
    Ok(inserted == 1)
}

/// Writes a server whose row the caller has locked. When its version changes, `listed_at` and the last error
/// are cleared, because they are about connections to the previous version. When the server is enabled, the last error
/// is cleared too: nothing was tried since.
pub fn update(tx: &mut Tx<'_>, server: &McpServer) -> Result<()> {
    tx.execute(
        "UPDATE project_mcp_servers SET product = $2, name = $3, description = $4, transport = $5, config = $6,
             tool_filter = $7, pin_policy = $8, timeout_seconds = $9, enabled = $10,
             listed_at = CASE WHEN version = $11 THEN listed_at END,
             last_error = CASE WHEN version = $11 AND (enabled OR NOT $10) THEN last_error END,
             last_error_at = CASE WHEN version = $11 AND (enabled OR NOT $10) THEN last_error_at END,
             version = $11, updated_at = $12, trust = $13, tools_accepted_at = $14, configured_by = $15,
             unbound_version = $16
         WHERE id = $1",
        &[
            Param::from(server.id),
            Param::from(server.product.as_deref()),
            Param::from(server.name()),
            Param::from(server.spec.description()),
            Param::from(server.spec.transport()),
            config_param(&server.spec)?,
            to_param(&server.tool_filter, McpServer::TABLE, "tool_filter")?,
            Param::from(server.pin_policy),
            Param::from(server.timeout_seconds),
            Param::from(server.enabled),
            Param::from(server.version),
            Param::from(server.updated_at),
            Param::from(server.trust),
            Param::from(server.tools_accepted_at),
            Param::from(server.configured_by.project_token()),
            Param::from(server.unbound_version),
        ],
    )?;
    bump_revision(tx, server.project)
}

/// Deletes a server with its listed tools and the bindings of its secrets; false when there is none.
pub fn delete(tx: &mut Tx<'_>, project: ProjectId, id: McpServerId) -> Result<bool> {
    let deleted = tx
        .execute("DELETE FROM project_mcp_servers WHERE id = $1 AND project_id = $2", params![id, project])?;
    if deleted == 0 {
        return Ok(false);
    }
    tx.execute("DELETE FROM mcp_server_tools WHERE server_id = $1", params![id])?;
    secret_bindings::delete_for_owner(tx, project, &secret_bindings::server_owner(id))?;
    bump_revision(tx, project)?;
    Ok(true)
}

/// Inserts a server of a product, or updates the product's server of that name. An update does not change
/// whether the server is enabled, trusted and how its tools are pinned, which people may have set. Tools that
/// come with it are held back, also if the server moves. Returns `None` when a server of another product, or one without a product, has the name.
pub fn upsert_for_product(
    tx: &mut Tx<'_>,
    project: ProjectId,
    product: &str,
    spec: &ServerSpec,
    tool_filter: &[String],
    by: ConfiguredBy,
    now: Timestamp,
) -> Result<Option<McpServerId>> {
    let Some(existing) = get_by_name(tx, project, spec.name())? else {
        let server = McpServer {
            product: Some(product.to_owned()),
            tool_filter: tool_filter.to_vec(),
            ..McpServer::new(project, spec.clone(), by, now)
        };
        return Ok(insert(tx, &server)?.then_some(server.id));
    };
    if existing.product.as_deref() != Some(product) {
        return Ok(None);
    }
    let id = existing.id;
    let version = existing.version + i64::from(existing.spec != *spec);
    if version != existing.version || existing.tool_filter != tool_filter {
        let tool_filter = tool_filter.to_vec();
        let configured_by = if version == existing.version { existing.configured_by } else { by };
        let next = McpServer {
            spec: spec.clone(),
            configured_by,
            tool_filter,
            version,
            updated_at: now,
            ..existing
        };
        update(tx, &next)?;
    }
    Ok(Some(id))
}

/// Deletes a server of a product; false when the product has none of that name.
pub fn delete_for_product(tx: &mut Tx<'_>, project: ProjectId, product: &str, name: &str) -> Result<bool> {
    match get_by_name(tx, project, name)? {
        Some(server) if server.product.as_deref() == Some(product) => delete(tx, project, server.id),
        _ => Ok(false),
    }
}

/// Records that the tools of a version of a server were listed, and forgets its last error. `accepted` says
/// that all tools of the listing were accepted. This does not increment the revision, because the caller
/// knows whether a tool has changed.
pub fn record_listing(
    tx: &mut Tx<'_>,
    id: McpServerId,
    version: i64,
    listed_at: Timestamp,
    accepted: bool,
) -> Result<()> {
    tx.execute(
        "UPDATE project_mcp_servers SET listed_at = $3, last_error = NULL, last_error_at = NULL,
             tools_accepted_at = coalesce($4, tools_accepted_at)
         WHERE id = $1 AND version = $2",
        params![id, version, listed_at, accepted.then_some(listed_at)],
    )?;
    Ok(())
}

/// Records how the last contact with a version of a server ended: its error and when, or `None` when it
/// succeeded. This does not increment the revision, because no tool has changed.
pub fn record_contact(
    tx: &mut Tx<'_>,
    id: McpServerId,
    version: i64,
    error: Option<(&str, Timestamp)>,
) -> Result<()> {
    tx.execute(
        "UPDATE project_mcp_servers SET last_error = $3, last_error_at = $4 WHERE id = $1 AND version = $2",
        params![id, version, error.map(|(reason, _)| reason), error.map(|(_, at)| at)],
    )?;
    Ok(())
}
