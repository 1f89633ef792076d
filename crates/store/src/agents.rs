//! Agents and their versions. `agent_definitions` has one row per agent with the columns that lists and
//! lookups need; `agent_definition_versions` has the whole definition of every version, the newest
//! included.

use emergent_domain::{
    agent::{Agent, AgentDefinition, AgentVersion},
    author::Author,
    cursor::{Cursor, Page, ResultPage},
    ids::{AgentId, ProjectId},
};
use uuid::Uuid;

use crate::{
    author,
    error::Result,
    page, params,
    row::{RowReader, TableRow, read_row, to_param},
    tx::Tx,
    value::Param,
};

const COLUMNS: &str = Agent::COLUMNS;
const VERSIONS: &str = "agent_definition_versions";
/// The most versions that are compared to find who saved a definition.
const MAX_COMPARED_VERSIONS: usize = 100;
/// The most bytes of definitions that a list of external agents reads.
const MAX_EXTERNAL_BYTES: usize = 16 << 20;
/// Joins each agent with its current version.
const FROM: &str = "agent_definitions AS a
     JOIN agent_definition_versions AS v ON v.agent_id = a.id AND v.version = a.version";

read_row! {
    Agent in "agent_definitions" {
        id: "a.id",
        project: "a.project_id",
        version: "a.version",
        definition: "v.definition" @ "agent_definition_versions",
        created_at: "a.created_at",
        updated_at: "a.updated_at",
        deleted_at: "a.deleted_at",
    }
}

read_row! {
    AgentVersion in "agent_definition_versions" {
        version: "v.version",
        definition: "v.definition",
        created_at: "v.created_at",
        author: author("v.author_token", "v.author_run", "v.author_tool_call"),
    }
}

/// A page of the versions of an agent, which may be deleted, newest first. The cursor has the number of a
/// version in place of an id, because two versions may have been written at the same time.
pub fn list_versions(
    tx: &mut Tx<'_>,
    project: ProjectId,
    id: AgentId,
    page: &Page,
) -> Result<ResultPage<AgentVersion>> {
    let mut params = vec![Param::from(id), Param::from(project)];
    let mut after = "";
    if let Some(cursor) = page.after {
        after = " AND v.version < $3";
        params.push(Param::from(i64::try_from(cursor.id.as_u128()).unwrap_or(i64::MAX)));
    }
    let sql = format!(
        "SELECT {} FROM agent_definition_versions AS v JOIN agent_definitions AS a ON a.id = v.agent_id
         WHERE v.agent_id = $1 AND a.project_id = $2{after} ORDER BY v.version DESC{}",
        AgentVersion::COLUMNS,
        page::limit_sql(page)
    );
    page::query_page(tx, page.limit, &sql, &params, AgentVersion::from_row, |version| Cursor {
        created_at: version.created_at,
        id: Uuid::from_u128(u128::try_from(version.version).unwrap_or_default()),
    })
}

/// The live agent with this id.
pub fn get(tx: &mut Tx<'_>, project: ProjectId, id: AgentId) -> Result<Option<Agent>> {
    let sql = format!(
        "SELECT {COLUMNS} FROM {FROM} WHERE a.id = $1 AND a.project_id = $2 AND a.deleted_at IS NULL"
    );
    tx.query_opt(&sql, params![id, project], Agent::from_row)
}

/// An agent that may be deleted: runs refer to their agent even after its deletion.
pub fn get_including_deleted(tx: &mut Tx<'_>, project: ProjectId, id: AgentId) -> Result<Option<Agent>> {
    let sql = format!("SELECT {COLUMNS} FROM {FROM} WHERE a.id = $1 AND a.project_id = $2");
    tx.query_opt(&sql, params![id, project], Agent::from_row)
}

/// The live agent of this name.
pub fn get_by_name(tx: &mut Tx<'_>, project: ProjectId, name: &str) -> Result<Option<Agent>> {
    let sql = format!(
        "SELECT {COLUMNS} FROM {FROM} WHERE a.project_id = $1 AND a.name = $2 AND a.deleted_at IS NULL"
    );
    tx.query_opt(&sql, params![project, name], Agent::from_row)
}

/// The definition of one version of an agent, which may be deleted.
pub fn get_version(tx: &mut Tx<'_>, id: AgentId, version: i64) -> Result<Option<AgentDefinition>> {
    let sql = "SELECT definition FROM agent_definition_versions WHERE agent_id = $1 AND version = $2";
    tx.query_opt(sql, params![id, version], |row| row.read(0, VERSIONS, "definition"))
}

/// Who wrote a version.
pub fn version_author(tx: &mut Tx<'_>, id: AgentId, version: i64) -> Result<Option<Author>> {
    let sql = "SELECT author_token, author_run, author_tool_call FROM agent_definition_versions
               WHERE agent_id = $1 AND version = $2";
    tx.query_opt(sql, params![id, version], |row| {
        let mut reader = RowReader::new(row, VERSIONS, 0);
        author::read(&mut reader, ["author_token", "author_run", "author_tool_call"])
    })
}

/// Who saved the definition of a version. An agent also gets a new version when another one becomes the default
/// agent; whoever caused that did not save the definition.
pub fn definition_author(tx: &mut Tx<'_>, agent: AgentId, mut version: i64) -> Result<Option<Author>> {
    let without_default = |definition| AgentDefinition { is_default: false, ..definition };
    let Some(definition) = get_version(tx, agent, version)?.map(without_default) else { return Ok(None) };
    for _ in 0..MAX_COMPARED_VERSIONS {
        let before = get_version(tx, agent, version - 1)?;
        if before.map(without_default).as_ref() != Some(&definition) {
            return version_author(tx, agent, version);
        }
        version -= 1;
    }
    Ok(None)
}

/// The live agents of a project, by name.
pub fn list_all(tx: &mut Tx<'_>, project: ProjectId) -> Result<Vec<Agent>> {
    let sql = format!(
        "SELECT {COLUMNS} FROM {FROM} WHERE a.project_id = $1 AND a.deleted_at IS NULL ORDER BY a.name"
    );
    tx.query(&sql, params![project], Agent::from_row)
}

/// The live external agents of a project, by name: at most `limit`, and as many as have this many bytes.
pub fn list_external(tx: &mut Tx<'_>, project: ProjectId, limit: usize) -> Result<Vec<Agent>> {
    let sql = format!(
        "SELECT {COLUMNS} FROM {FROM}
         WHERE a.project_id = $1 AND a.deleted_at IS NULL AND a.visibility = 'external' ORDER BY a.name LIMIT $2"
    );
    Ok(tx.query_up_to(MAX_EXTERNAL_BYTES, &sql, params![project, limit], Agent::from_row)?.0)
}

/// The live agents that are marked as default. There is at most one, unless another program wrote to
/// the database.
pub fn list_defaults(tx: &mut Tx<'_>, project: ProjectId) -> Result<Vec<Agent>> {
    let sql = format!(
        "SELECT {COLUMNS} FROM {FROM}
         WHERE a.project_id = $1 AND a.deleted_at IS NULL AND a.is_default = $2 ORDER BY a.id"
    );
    tx.query(&sql, params![project, true], Agent::from_row)
}

/// The names of the live agents of a project.
pub fn list_names(tx: &mut Tx<'_>, project: ProjectId) -> Result<Vec<String>> {
    let sql = "SELECT name FROM agent_definitions WHERE project_id = $1 AND deleted_at IS NULL ORDER BY name";
    tx.query(sql, params![project], |row| row.get(0))
}

/// The names of the live agents of a project that are not internal.
pub fn list_visible_names(tx: &mut Tx<'_>, project: ProjectId) -> Result<Vec<String>> {
    let sql = "SELECT name FROM agent_definitions
               WHERE project_id = $1 AND deleted_at IS NULL AND visibility <> 'internal' ORDER BY name";
    tx.query(sql, params![project], |row| row.get(0))
}

/// A live agent whose definition has a trigger, without a schedule or event trigger that fires it.
const MISSING_TRIGGER_SQL: &str = "a.deleted_at IS NULL AND a.trigger_on IS NOT NULL
    AND NOT EXISTS (SELECT 1 FROM schedules AS s WHERE s.agent_id = a.id AND s.product = '')
    AND NOT EXISTS (SELECT 1 FROM event_triggers AS t WHERE t.agent_id = a.id)";

/// The live projects with agents whose trigger nothing fires: they were saved before the tables of
/// triggers existed, or their trigger cannot be read.
pub fn projects_missing_triggers(tx: &mut Tx<'_>) -> Result<Vec<ProjectId>> {
    let sql = format!(
        "SELECT DISTINCT a.project_id FROM agent_definitions AS a
         JOIN projects AS p ON p.id = a.project_id AND p.deleted_at IS NULL
         WHERE {MISSING_TRIGGER_SQL} ORDER BY a.project_id"
    );
    tx.query(&sql, &[], |row| row.get(0))
}

/// The agents that [`projects_missing_triggers`] is about, of one project.
pub fn list_missing_triggers(tx: &mut Tx<'_>, project: ProjectId) -> Result<Vec<Agent>> {
    let sql = format!(
        "SELECT {COLUMNS} FROM {FROM} WHERE a.project_id = $1 AND {MISSING_TRIGGER_SQL} ORDER BY a.id"
    );
    tx.query(&sql, params![project], Agent::from_row)
}

/// A page of live agents, newest first, without internal ones unless `include_internal`.
pub fn list(
    tx: &mut Tx<'_>,
    project: ProjectId,
    include_internal: bool,
    page: &Page,
) -> Result<ResultPage<Agent>> {
    let mut params = vec![Param::from(project)];
    let (after, values) = page::after_cursor_sql(page, "a.created_at", "a.id", 2);
    params.extend(values);
    let visibility = if include_internal { "" } else { " AND a.visibility <> 'internal'" };
    let sql = format!(
        "SELECT {COLUMNS} FROM {FROM} WHERE a.project_id = $1 AND a.deleted_at IS NULL{visibility}{after}
         ORDER BY a.created_at DESC, a.id DESC{}",
        page::limit_sql(page)
    );
    page::query_page(tx, page.limit, &sql, &params, Agent::from_row, |agent| Cursor {
        created_at: agent.created_at,
        id: agent.id.0,
    })
}

/// Inserts an agent and its version. The caller has checked that no live agent has the name.
pub fn insert(tx: &mut Tx<'_>, agent: &Agent, by: Author) -> Result<()> {
    let constant_columns = [
        ("id", Param::from(agent.id)),
        ("project_id", Param::from(agent.project)),
        ("created_at", Param::from(agent.created_at)),
    ];
    tx.insert_columns(Agent::TABLE, constant_columns.into_iter().chain(changing_columns(agent)), "")?;
    insert_version(tx, agent, by)
}

/// Writes the next version of an agent, which may be its tombstone. Returns false when the stored version is
/// not the previous one, because another transaction wrote first.
pub fn update(tx: &mut Tx<'_>, next: &Agent, by: Author) -> Result<bool> {
    let previous = [Param::from(next.id), Param::from(next.version - 1)];
    let changed =
        tx.update_columns(Agent::TABLE, changing_columns(next), "id = $1 AND version = $2", previous)?;
    if changed == 0 {
        return Ok(false);
    }
    insert_version(tx, next, by)?;
    Ok(true)
}

/// The columns of `agent_definitions` that change with each version.
fn changing_columns(agent: &Agent) -> [(&'static str, Param<'_>); 10] {
    let definition = &agent.definition;
    [
        ("version", Param::from(agent.version)),
        ("updated_at", Param::from(agent.updated_at)),
        ("deleted_at", Param::from(agent.deleted_at)),
        ("product", Param::from(definition.product.as_deref())),
        ("name", Param::from(&definition.name)),
        ("description", Param::from(&definition.description)),
        ("visibility", Param::from(definition.visibility.as_str())),
        ("flow_type", Param::from(definition.flow_type.as_str())),
        ("is_default", Param::from(definition.is_default)),
        ("trigger_on", Param::from(definition.trigger.as_deref())),
    ]
}

fn insert_version(tx: &mut Tx<'_>, agent: &Agent, by: Author) -> Result<()> {
    let [token, run, tool_call] = author::params(by);
    let columns = [
        ("agent_id", Param::from(agent.id)),
        ("version", Param::from(agent.version)),
        ("definition", to_param(&agent.definition, VERSIONS, "definition")?),
        ("created_at", Param::from(agent.updated_at)),
        ("author_token", token),
        ("author_run", run),
        ("author_tool_call", tool_call),
    ];
    tx.insert_columns(VERSIONS, columns, "")?;
    Ok(())
}
