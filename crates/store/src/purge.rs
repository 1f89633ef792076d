//! Ends what a deleted project still does, and removes its rows, in bounded steps.

use emergent_domain::{
    ids::{ProjectId, WorkflowId},
    time::Timestamp,
};
use uuid::Uuid;

use crate::{
    deletion::{Child, Family, delete_children, delete_family, delete_in},
    error::Result,
    mcp_servers, page, params,
    projects::DeletedProject,
    retention::RUNS,
    runs,
    search::{embeddings, write, write::SearchIndex},
    tx::Tx,
    value::Param,
    workflows,
};

/// The reason that cancelled runs of a deleted project record.
const REASON: &str = "its project was deleted";
/// How many rows with their own rows one step removes.
const PARENTS: usize = 100;

/// Takes from a deleted project what it could still act with: tokens, secrets, triggers and external servers.
pub fn end_access(tx: &mut Tx<'_>, project: ProjectId, now: Timestamp) -> Result<()> {
    tx.execute(
        "UPDATE tokens SET revoked_at = $2 WHERE project_id = $1 AND revoked_at IS NULL",
        params![project, now],
    )?;
    for table in ["secrets", "secret_bindings", "schedules", "event_triggers"] {
        tx.execute(&format!("DELETE FROM {table} WHERE project_id = $1"), params![project])?;
    }
    tx.execute("UPDATE project_mcp_servers SET enabled = $2 WHERE project_id = $1", params![project, false])?;
    // Every server then closes its connections, and ends its programs.
    mcp_servers::bump_revision(tx, project)
}

/// Cancels up to `limit` runs and workflows of a deleted project, and takes as many rows from its embedding
/// queue. False when there may be more.
pub fn cancel_work(tx: &mut Tx<'_>, project: ProjectId, now: Timestamp, limit: usize) -> Result<bool> {
    let cancelled = runs::record::cancel_project(tx, project, REASON, now, limit)?.len();
    let ended: Vec<WorkflowId> = tx.query(
        "UPDATE workflows SET status = 'cancelled', escalation = NULL, owner = NULL, completed_at = $2,
             updated_at = $2, revision = revision + 1
         WHERE id IN (SELECT id FROM workflows
             WHERE project_id = $1 AND status IN ('planning', 'running', 'escalated') LIMIT $3)
         RETURNING id",
        params![project, now, limit],
        |row| row.get(0),
    )?;
    for id in &ended {
        tx.wake(&workflows::changed_channel(*id))?;
        tx.wake(&workflows::events_channel(*id))?;
    }
    let queued = delete_own(tx, "embedding_queue", "no", project, limit)?;
    Ok(cancelled < limit && ended.len() < limit && queued < limit)
}

/// One kind of rows of a project.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    Objects,
    Relationships,
    Documents,
    Runs,
    Workflows,
    Agents,
    Servers,
    Rest,
}

impl Step {
    /// All steps. What refers to other rows comes first.
    pub const ALL: [Step; 8] = [
        Step::Relationships,
        Step::Objects,
        Step::Documents,
        Step::Runs,
        Step::Workflows,
        Step::Agents,
        Step::Servers,
        Step::Rest,
    ];
}

const WORKFLOWS: Family = Family {
    table: "workflows",
    children: &[Child { table: "workflow_events", parent: "workflow_id", key: "seq" }],
};
const AGENTS: Family = Family {
    table: "agent_definitions",
    children: &[Child { table: "agent_definition_versions", parent: "agent_id", key: "version" }],
};
const SERVERS: Family = Family {
    table: "project_mcp_servers",
    children: &[Child { table: "mcp_server_tools", parent: "server_id", key: "name" }],
};
const RELATIONSHIPS: Family = Family {
    table: "graph_relationships",
    children: &[
        Child { table: "graph_relationship_versions", parent: "relationship_id", key: "version" },
        Child { table: "graph_sources", parent: "entity_id", key: "chunk_id" },
    ],
};
const OBJECTS: Family = Family {
    table: "graph_objects",
    children: &[
        Child { table: "graph_object_versions", parent: "object_id", key: "version" },
        Child { table: "graph_sources", parent: "entity_id", key: "chunk_id" },
    ],
};
const DOCUMENTS: Family = Family {
    table: "documents",
    children: &[Child { table: "graph_sources", parent: "document_id", key: "chunk_id" }],
};

/// The tables with a column `project_id`, and what identifies their rows within a project.
const OWN_ROWS: [(&str, &str); 15] = [
    ("trigger_firings", "id"),
    ("schedules", "id"),
    ("event_triggers", "agent_id"),
    ("trigger_cursors", "project_id"),
    ("budget_limits", "agent"),
    ("budget_counters", "name"),
    ("embedding_queue", "no"),
    ("embedding_models", "project_id"),
    ("installed_products", "id"),
    ("product_prompts", "name"),
    ("secrets", "name"),
    ("secret_bindings", "id"),
    ("template_packs", "id"),
    ("project_template_packs", "pack_id"),
    ("tokens", "id"),
];

/// Removes about `limit` rows of a deleted project; false when there may be more of this kind.
pub fn delete_rows(tx: &mut Tx<'_>, project: DeletedProject, step: Step, limit: usize) -> Result<bool> {
    match step {
        Step::Objects => remove_objects(tx, project, limit),
        Step::Documents => remove_documents(tx, project, limit),
        Step::Relationships => remove_family(tx, &RELATIONSHIPS, project, &LIVE_AND_DELETED, limit),
        Step::Runs => remove_family(tx, &RUNS, project, &ANY, limit),
        Step::Workflows => remove_family(tx, &WORKFLOWS, project, &ANY, limit),
        Step::Agents => remove_family(tx, &AGENTS, project, &ANY, limit),
        Step::Servers => remove_family(tx, &SERVERS, project, &ANY, limit),
        Step::Rest => {
            for (table, key) in OWN_ROWS {
                if delete_own(tx, table, key, project.id, limit)? >= limit {
                    return Ok(false);
                }
            }
            Ok(true)
        }
    }
}

/// The model calls of a project after an id, in the order of their ids. They have no index by project, so the
/// caller reads them outside of a write transaction.
pub fn list_model_calls(tx: &mut Tx<'_>, project: ProjectId, after: Uuid, limit: usize) -> Result<Vec<Uuid>> {
    let sql = "SELECT id FROM model_calls WHERE id > $2 AND project_id = $1 ORDER BY id LIMIT $3";
    tx.query(sql, params![project, after, limit], |row| row.get(0))
}

pub fn delete_model_calls(tx: &mut Tx<'_>, ids: &[Uuid]) -> Result<()> {
    delete_in(tx, "model_calls", "id", ids)?;
    Ok(())
}

/// Conditions that together find all rows, each with an index.
const ANY: [&str; 1] = [""];
const LIVE_AND_DELETED: [&str; 2] = [" AND deleted_at IS NULL", " AND deleted_at IS NOT NULL"];

fn list_ids(tx: &mut Tx<'_>, table: &str, project: DeletedProject, conditions: &[&str]) -> Result<Vec<Uuid>> {
    for condition in conditions {
        let sql = format!("SELECT id FROM {table} WHERE project_id = $1{condition} LIMIT $2");
        let ids = tx.query(&sql, params![project.id, PARENTS], |row| row.get(0))?;
        if !ids.is_empty() {
            return Ok(ids);
        }
    }
    Ok(Vec::new())
}

/// True when there was nothing to remove.
fn remove_family(
    tx: &mut Tx<'_>,
    family: &Family,
    project: DeletedProject,
    conditions: &[&str],
    limit: usize,
) -> Result<bool> {
    let ids = list_ids(tx, family.table, project, conditions)?;
    if ids.is_empty() {
        return Ok(true);
    }
    delete_family(tx, family, &ids, limit)?;
    Ok(false)
}

fn remove_objects(tx: &mut Tx<'_>, project: DeletedProject, limit: usize) -> Result<bool> {
    let ids = list_ids(tx, OBJECTS.table, project, &LIVE_AND_DELETED)?;
    if ids.is_empty() {
        return Ok(true);
    }
    let sql = format!("SELECT no FROM graph_objects WHERE id IN ({})", page::placeholders(1, ids.len()));
    let values: Vec<Param<'_>> = ids.iter().copied().map(Param::from).collect();
    let numbers: Vec<i64> = tx.query(&sql, &values, |row| row.get(0))?;
    remove_from_search(tx, SearchIndex::Objects, "object", project.id, &numbers)?;
    delete_family(tx, &OBJECTS, &ids, limit)?;
    Ok(false)
}

fn remove_documents(tx: &mut Tx<'_>, project: DeletedProject, limit: usize) -> Result<bool> {
    let ids = list_ids(tx, DOCUMENTS.table, project, &LIVE_AND_DELETED)?;
    if ids.is_empty() {
        return Ok(true);
    }
    let sql = format!(
        "SELECT no FROM document_chunks WHERE document_id IN ({}) LIMIT $1",
        page::placeholders(2, ids.len())
    );
    let mut values = vec![Param::from(limit)];
    values.extend(ids.iter().copied().map(Param::from));
    let numbers: Vec<i64> = tx.query(&sql, &values, |row| row.get(0))?;
    remove_from_search(tx, SearchIndex::Chunks, "chunk", project.id, &numbers)?;
    delete_in(tx, "document_chunks", "no", &numbers)?;
    if numbers.len() < limit {
        delete_family(tx, &DOCUMENTS, &ids, limit)?;
    }
    Ok(false)
}

/// Removes the texts and vectors of rows, and what is recorded about embedding them.
fn remove_from_search(
    tx: &mut Tx<'_>,
    index: SearchIndex,
    kind: &str,
    project: ProjectId,
    numbers: &[i64],
) -> Result<()> {
    for no in numbers {
        write::remove(tx, index, *no)?;
    }
    embeddings::remove(tx, index, project, numbers)?;
    for list in page::in_chunks(numbers) {
        let sql = format!(
            "DELETE FROM embedding_refusals WHERE kind = $1 AND no IN ({})",
            page::placeholders(2, list.len())
        );
        let mut values = vec![Param::from(kind)];
        values.extend(list.into_iter().map(Param::from));
        tx.execute(&sql, &values)?;
    }
    Ok(())
}

/// Deletes up to `limit` rows of a project, and returns how many there were.
fn delete_own(
    tx: &mut Tx<'_>,
    table: &'static str,
    key: &'static str,
    project: ProjectId,
    limit: usize,
) -> Result<usize> {
    delete_children(tx, &Child { table, parent: "project_id", key }, &[project.0], limit)
}
