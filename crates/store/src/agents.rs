//! Agents and their versions. `agent_definitions` says which agents there are and what lists and
//! lookups need; what an agent does is whole in `agent_definition_versions`, the newest included.

use emergent_domain::{
    agent::{Agent, AgentDefinition},
    author::Author,
    cursor::{Cursor, Page, ResultPage},
    ids::{AgentId, ProjectId},
};

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

/// A living agent.
pub fn get(tx: &mut Tx<'_>, project: ProjectId, id: AgentId) -> Result<Option<Agent>> {
    let sql = format!(
        "SELECT {COLUMNS} FROM {FROM} WHERE a.id = $1 AND a.project_id = $2 AND a.deleted_at IS NULL"
    );
    tx.query_opt(&sql, params![id, project], Agent::from_row)
}

/// An agent or its tombstone: runs outlive the agent they are of.
pub fn get_including_deleted(tx: &mut Tx<'_>, project: ProjectId, id: AgentId) -> Result<Option<Agent>> {
    let sql = format!("SELECT {COLUMNS} FROM {FROM} WHERE a.id = $1 AND a.project_id = $2");
    tx.query_opt(&sql, params![id, project], Agent::from_row)
}

/// The living agent of this name.
pub fn get_by_name(tx: &mut Tx<'_>, project: ProjectId, name: &str) -> Result<Option<Agent>> {
    let sql = format!(
        "SELECT {COLUMNS} FROM {FROM} WHERE a.project_id = $1 AND a.name = $2 AND a.deleted_at IS NULL"
    );
    tx.query_opt(&sql, params![project, name], Agent::from_row)
}

/// What an agent was at a version, whether it still lives or not.
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

/// The living agents of a project, by name.
pub fn list_all(tx: &mut Tx<'_>, project: ProjectId) -> Result<Vec<Agent>> {
    let sql = format!(
        "SELECT {COLUMNS} FROM {FROM} WHERE a.project_id = $1 AND a.deleted_at IS NULL ORDER BY a.name"
    );
    tx.query(&sql, params![project], Agent::from_row)
}

/// The living agents that say they are the default one. There is one at most, unless a database
/// was written to by other hands.
pub fn list_defaults(tx: &mut Tx<'_>, project: ProjectId) -> Result<Vec<Agent>> {
    let sql = format!(
        "SELECT {COLUMNS} FROM {FROM}
         WHERE a.project_id = $1 AND a.deleted_at IS NULL AND a.is_default = $2 ORDER BY a.id"
    );
    tx.query(&sql, params![project, true], Agent::from_row)
}

/// The names of the living agents of a project.
pub fn list_names(tx: &mut Tx<'_>, project: ProjectId) -> Result<Vec<String>> {
    let sql = "SELECT name FROM agent_definitions WHERE project_id = $1 AND deleted_at IS NULL ORDER BY name";
    tx.query(sql, params![project], |row| row.get(0))
}

/// A living agent whose definition says a trigger, without anything that would fire it.
const MISSING_TRIGGER_SQL: &str = "a.deleted_at IS NULL AND a.trigger_on IS NOT NULL
    AND NOT EXISTS (SELECT 1 FROM schedules AS s WHERE s.agent_id = a.id AND s.product = '')
    AND NOT EXISTS (SELECT 1 FROM event_triggers AS t WHERE t.agent_id = a.id)";

/// The living projects with agents whose trigger has nothing that fires it: they were saved before
/// there were tables for that, or say a trigger that nobody can read.
pub fn projects_missing_triggers(tx: &mut Tx<'_>) -> Result<Vec<ProjectId>> {
    let sql = format!(
        "SELECT DISTINCT a.project_id FROM agent_definitions AS a
         JOIN projects AS p ON p.id = a.project_id AND p.deleted_at IS NULL
         WHERE {MISSING_TRIGGER_SQL} ORDER BY a.project_id"
    );
    tx.query(&sql, &[], |row| row.get(0))
}

/// Those agents of one project.
pub fn list_missing_triggers(tx: &mut Tx<'_>, project: ProjectId) -> Result<Vec<Agent>> {
    let sql = format!(
        "SELECT {COLUMNS} FROM {FROM} WHERE a.project_id = $1 AND {MISSING_TRIGGER_SQL} ORDER BY a.id"
    );
    tx.query(&sql, params![project], Agent::from_row)
}

/// Living agents, newest first; internal ones only when they are asked for.
pub fn list(
    tx: &mut Tx<'_>,
    project: ProjectId,
    include_internal: bool,
    page: &Page,
) -> Result<ResultPage<Agent>> {
    let mut params = vec![Param::from(project)];
    let (after, values) = page::after_cursor_sql(page, "a.created_at", "a.id", 2);
    params.extend(values);
    let seen = if include_internal { "" } else { " AND a.visibility <> 'internal'" };
    let sql = format!(
        "SELECT {COLUMNS} FROM {FROM} WHERE a.project_id = $1 AND a.deleted_at IS NULL{seen}{after}
         ORDER BY a.created_at DESC, a.id DESC{}",
        page::limit_sql(page)
    );
    let rows = tx.query(&sql, &params, Agent::from_row)?;
    Ok(ResultPage::from_rows(rows, page.limit, |agent| Cursor {
        created_at: agent.created_at,
        id: agent.id.0,
    }))
}

/// Adds an agent as it stands. The caller has seen that the name is free.
pub fn insert(tx: &mut Tx<'_>, agent: &Agent, by: Author) -> Result<()> {
    tx.execute(
        "INSERT INTO agent_definitions (id, version, updated_at, deleted_at, product, name, description, visibility,
             flow_type, is_default, trigger_on, project_id, created_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)",
        &[row_params(agent), vec![Param::from(agent.project), Param::from(agent.created_at)]].concat(),
    )?;
    insert_version(tx, agent, by)
}

/// Writes the next version of an agent, a tombstone too; false when someone wrote in between.
pub fn update(tx: &mut Tx<'_>, next: &Agent, by: Author) -> Result<bool> {
    let changed = tx.execute(
        "UPDATE agent_definitions SET version = $2, updated_at = $3, deleted_at = $4, product = $5, name = $6,
             description = $7, visibility = $8, flow_type = $9, is_default = $10, trigger_on = $11
         WHERE id = $1 AND version = $12",
        &[row_params(next), vec![Param::from(next.version - 1)]].concat(),
    )?;
    if changed == 0 {
        return Ok(false);
    }
    insert_version(tx, next, by)?;
    Ok(true)
}

/// The columns that change with a version; the id first.
fn row_params(agent: &Agent) -> Vec<Param<'_>> {
    let definition = &agent.definition;
    vec![
        Param::from(agent.id),
        Param::from(agent.version),
        Param::from(agent.updated_at),
        Param::from(agent.deleted_at),
        Param::from(definition.product.as_deref()),
        Param::from(&definition.name),
        Param::from(&definition.description),
        Param::from(definition.visibility.as_str()),
        Param::from(definition.flow_type.as_str()),
        Param::from(definition.is_default),
        Param::from(definition.trigger.as_deref()),
    ]
}

fn insert_version(tx: &mut Tx<'_>, agent: &Agent, by: Author) -> Result<()> {
    let [token, run, tool_call] = author::params(by);
    tx.execute(
        "INSERT INTO agent_definition_versions
             (agent_id, version, definition, created_at, author_token, author_run, author_tool_call)
         VALUES ($1, $2, $3, $4, $5, $6, $7)",
        &[
            Param::from(agent.id),
            Param::from(agent.version),
            to_param(&agent.definition, VERSIONS, "definition")?,
            Param::from(agent.updated_at),
            token,
            run,
            tool_call,
        ],
    )?;
    Ok(())
}
