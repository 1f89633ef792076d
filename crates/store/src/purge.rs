//! Ends what a deleted project still does, and removes its rows, in bounded steps.

use emergent_domain::{
    ids::{ProjectId, WorkflowId},
    time::Timestamp,
};
use uuid::Uuid;

use crate::{
    deletion::{Allowance, Child, Family, delete_children, delete_family, delete_in, size_sql},
    error::Result,
    inbox_items, mcp_servers, page, params,
    projects::DeletedProject,
    retention::RUNS,
    runs,
    search::{embeddings, write, write::SearchIndex},
    tx::Tx,
    value::Param,
    workflows,
};

/// The queue of the jobs that end and remove projects.
pub const QUEUE: &str = "cleanup";
/// The reason that cancelled runs of a deleted project record.
const REASON: &str = "its project was deleted";
/// How many rows with their own rows one step removes.
const PARENTS: usize = 100;

/// Takes from a deleted project what it could still act with: tokens, secrets, triggers, addresses of clients
/// and external servers.
pub fn end_access(tx: &mut Tx<'_>, project: ProjectId, now: Timestamp) -> Result<()> {
    tx.execute(
        "UPDATE tokens SET revoked_at = $2 WHERE project_id = $1 AND revoked_at IS NULL",
        params![project, now],
    )?;
    for table in ["secrets", "secret_bindings", "schedules", "event_triggers", "a2a_push_configs"] {
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
    inbox_items::withdraw(tx, &ended)?;
    for id in &ended {
        tx.wake(&workflows::changed_channel(*id))?;
        tx.wake(&workflows::events_channel(*id))?;
    }
    let queued = delete_children(tx, &EMBEDDING_QUEUE, &[project.0], &mut Allowance::new(limit))?;
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
    large: &["settings", "summary"],
    children: &[
        Child { table: "workflow_events", parent: "workflow_id", key: "seq", large: &["data"] },
        Child { table: "inbox_items", parent: "id", key: "id", large: &["title", "decision"] },
    ],
};
const AGENTS: Family = Family {
    table: "agent_definitions",
    large: &[],
    children: &[Child {
        table: "agent_definition_versions",
        parent: "agent_id",
        key: "version",
        large: &["definition"],
    }],
};
const SERVERS: Family = Family {
    table: "project_mcp_servers",
    large: &["config"],
    children: &[Child {
        table: "mcp_server_tools",
        parent: "server_id",
        key: "name",
        large: &["tool", "pinned_tool"],
    }],
};
const RELATIONSHIPS: Family = Family {
    table: "graph_relationships",
    large: &["properties"],
    children: &[
        Child {
            table: "graph_relationship_versions",
            parent: "relationship_id",
            key: "version",
            large: &["properties"],
        },
        Child { table: "graph_sources", parent: "entity_id", key: "chunk_id", large: &[] },
    ],
};
const OBJECTS: Family = Family {
    table: "graph_objects",
    large: &["properties", "labels"],
    children: &[
        Child {
            table: "graph_object_versions",
            parent: "object_id",
            key: "version",
            large: &["properties", "labels"],
        },
        Child { table: "graph_sources", parent: "entity_id", key: "chunk_id", large: &[] },
    ],
};
const DOCUMENTS: Family = Family {
    table: "documents",
    large: &["content", "metadata"],
    children: &[Child { table: "graph_sources", parent: "document_id", key: "chunk_id", large: &[] }],
};

/// A table with a column `project_id`.
const fn own_rows(table: &'static str, key: &'static str, large: &'static [&'static str]) -> Child {
    Child { table, parent: "project_id", key, large }
}

/// The tables whose rows are found by their project alone.
const OWN_ROWS: [Child; 23] = [
    own_rows("project_events", "seq", &[]),
    own_rows("inbox_items", "id", &["title", "decision"]),
    own_rows("chat_memories", "message_id", &[]),
    own_rows("chat_messages", "id", &["content", "retrieval_context", "citations"]),
    own_rows("chat_conversations", "id", &[]),
    own_rows("task_refusals", "task_id", &[]),
    own_rows("trigger_firings", "id", &[]),
    own_rows("schedules", "id", &["config", "dispatch"]),
    own_rows("event_triggers", "agent_id", &["config", "dispatch"]),
    own_rows("trigger_cursors", "project_id", &[]),
    own_rows("budget_limits", "agent", &[]),
    own_rows("budget_counters", "name", &[]),
    own_rows("model_calls", "id", &[]),
    EMBEDDING_QUEUE,
    own_rows("embedding_models", "project_id", &[]),
    own_rows("installed_products", "id", &["manifest"]),
    own_rows("product_prompts", "name", &["prompt"]),
    own_rows("secrets", "name", &[]),
    own_rows("secret_bindings", "id", &[]),
    own_rows("template_packs", "id", &["pack"]),
    own_rows("project_template_packs", "pack_id", &[]),
    own_rows("idempotency_keys", "key", &["body"]),
    own_rows("tokens", "id", &[]),
];
const EMBEDDING_QUEUE: Child = own_rows("embedding_queue", "no", &[]);

/// Removes about `limit` rows of a deleted project, and fewer if they are large; false when there may be more of
/// this kind.
pub fn delete_rows(tx: &mut Tx<'_>, project: DeletedProject, step: Step, limit: usize) -> Result<bool> {
    let mut allowance = Allowance::new(limit);
    match step {
        Step::Objects => remove_objects(tx, project, &mut allowance),
        Step::Documents => remove_documents(tx, project, limit, &mut allowance),
        Step::Relationships => remove_family(tx, &RELATIONSHIPS, project, &LIVE_AND_DELETED, &mut allowance),
        Step::Runs => remove_family(tx, &RUNS, project, &ANY, &mut allowance),
        Step::Workflows => remove_family(tx, &WORKFLOWS, project, &ANY, &mut allowance),
        Step::Agents => remove_family(tx, &AGENTS, project, &ANY, &mut allowance),
        Step::Servers => remove_family(tx, &SERVERS, project, &ANY, &mut allowance),
        Step::Rest => {
            for rows in &OWN_ROWS {
                delete_children(tx, rows, &[project.id.0], &mut allowance)?;
                if allowance.is_spent() {
                    return Ok(false);
                }
            }
            Ok(delete_jobs(tx, project.id, limit)? < limit)
        }
    }
}

/// Deletes up to `limit` jobs of a project, and returns how many there were. Left are running jobs and those that
/// end the project: their workers complete them, and they are pruned later as all completed jobs.
fn delete_jobs(tx: &mut Tx<'_>, project: ProjectId, limit: usize) -> Result<usize> {
    let deleted = tx.execute(
        "DELETE FROM jobs WHERE id IN (
             SELECT id FROM jobs WHERE project_id = $1
                 AND (status IN ('done', 'dead') OR (status = 'queued' AND queue <> $3)) LIMIT $2)",
        params![project, limit, QUEUE],
    )?;
    Ok(usize::try_from(deleted).unwrap_or(usize::MAX))
}

/// Conditions that together find all rows, each with an index.
const ANY: [&str; 1] = [""];
const LIVE_AND_DELETED: [&str; 2] = [" AND deleted_at IS NULL", " AND deleted_at IS NOT NULL"];

/// Some rows of a project, fewer if they are large.
fn list_ids(
    tx: &mut Tx<'_>,
    family: &Family,
    project: DeletedProject,
    conditions: &[&str],
    allowance: &Allowance,
) -> Result<Vec<Uuid>> {
    let (table, size) = (family.table, size_sql(tx.engine(), family.large));
    for condition in conditions {
        let sql = format!("SELECT id, {size} FROM {table} WHERE project_id = $1{condition} LIMIT $2");
        let found = tx.query(&sql, params![project.id, PARENTS], |row| Ok((row.get(0)?, row.get(1)?)))?;
        if !found.is_empty() {
            return Ok(allowance.take_rows(found));
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
    allowance: &mut Allowance,
) -> Result<bool> {
    let ids = list_ids(tx, family, project, conditions, allowance)?;
    if ids.is_empty() {
        return Ok(true);
    }
    delete_family(tx, family, &ids, allowance)?;
    Ok(false)
}

fn remove_objects(tx: &mut Tx<'_>, project: DeletedProject, allowance: &mut Allowance) -> Result<bool> {
    let ids = list_ids(tx, &OBJECTS, project, &LIVE_AND_DELETED, allowance)?;
    if ids.is_empty() {
        return Ok(true);
    }
    let sql = format!("SELECT no FROM graph_objects WHERE id IN ({})", page::placeholders(1, ids.len()));
    let values: Vec<Param<'_>> = ids.iter().copied().map(Param::from).collect();
    let numbers: Vec<i64> = tx.query(&sql, &values, |row| row.get(0))?;
    remove_from_search(tx, SearchIndex::Objects, "object", project.id, &numbers)?;
    delete_family(tx, &OBJECTS, &ids, allowance)?;
    Ok(false)
}

fn remove_documents(
    tx: &mut Tx<'_>,
    project: DeletedProject,
    limit: usize,
    allowance: &mut Allowance,
) -> Result<bool> {
    let ids = list_ids(tx, &DOCUMENTS, project, &LIVE_AND_DELETED, allowance)?;
    if ids.is_empty() {
        return Ok(true);
    }
    let sql = format!(
        "SELECT no, {} FROM document_chunks WHERE document_id IN ({}) LIMIT $1",
        size_sql(tx.engine(), &["text"]),
        page::placeholders(2, ids.len())
    );
    let mut values = vec![Param::from(limit)];
    values.extend(ids.iter().copied().map(Param::from));
    let found = tx.query(&sql, &values, |row| Ok((row.get(0)?, row.get(1)?)))?;
    let numbers: Vec<i64> = allowance.take_rows(found);
    if numbers.is_empty() {
        delete_family(tx, &DOCUMENTS, &ids, allowance)?;
        return Ok(false);
    }
    remove_from_search(tx, SearchIndex::Chunks, "chunk", project.id, &numbers)?;
    delete_in(tx, "document_chunks", "no", &numbers)?;
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
