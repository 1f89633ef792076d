//! Tasks that may become tasks of a workflow: which there are, which belong together, and which a standing workflow
//! could not take. A task can be large, so its head is read first, which is small.

use std::collections::{HashMap, HashSet};

use emergent_domain::{
    ids::{ObjectId, ProjectId, WorkflowId},
    task::TaskStatus,
    time::Timestamp,
};

use crate::{
    deletion::size_sql,
    error::Result,
    page, params,
    tasks::IS_LIVE_TASK,
    tx::Tx,
    value::{Param, Row},
};

/// The condition that the run which wrote the newest version of a task `t` goes on: it may not have connected the
/// task with others yet.
const HAS_ACTIVE_AUTHOR: &str = "EXISTS (SELECT 1 FROM agent_runs AS r
    WHERE r.id = t.author_run AND r.status IN ('queued', 'running'))";
/// The most ids of neighbours that one level of [`list_joined`] remembers.
const MAX_LEVEL: usize = 10_000;

/// Where a task is in the order of [`list_unassigned`].
pub type TaskPosition = (Timestamp, ObjectId);

/// Which tasks [`list_unassigned`] finds.
#[derive(Debug, Clone, Copy)]
pub struct UnassignedFilter {
    /// They were created at this time or later.
    pub since: Timestamp,
    /// They were not changed after this time.
    pub settled: Timestamp,
    /// They come after this one.
    pub after: Option<TaskPosition>,
}

/// The pending tasks of a project that belong to no workflow and are not being written, the oldest first. Those
/// that were refused at their version are left out.
pub fn list_unassigned(
    tx: &mut Tx<'_>,
    project: ProjectId,
    filter: &UnassignedFilter,
    limit: usize,
) -> Result<Vec<TaskPosition>> {
    let after = if filter.after.is_some() { " AND (t.created_at, t.id) > ($6, $7)" } else { "" };
    let sql = format!(
        "SELECT t.created_at, t.id FROM graph_objects AS t
         WHERE t.project_id = $1 AND t.properties->>'workflow_id' IS NULL AND t.properties->>'status' = $2
             AND {IS_LIVE_TASK} AND t.created_at >= $3 AND t.updated_at <= $4 AND NOT {HAS_ACTIVE_AUTHOR}
             AND NOT EXISTS (SELECT 1 FROM task_refusals AS f WHERE f.task_id = t.id AND f.version = t.version){after}
         ORDER BY t.created_at, t.id LIMIT $5"
    );
    let mut params = vec![
        Param::from(project),
        Param::from(TaskStatus::Pending.as_str()),
        Param::from(filter.since),
        Param::from(filter.settled),
        Param::from(limit),
    ];
    if let Some((created_at, id)) = filter.after {
        params.extend([Param::from(created_at), Param::from(id)]);
    }
    tx.query(&sql, &params, |row| Ok((row.get(0)?, row.get(1)?)))
}

/// A task without its contents.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TaskHead {
    pub id: ObjectId,
    pub version: i64,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub workflow: Option<WorkflowId>,
    pub status: TaskStatus,
    /// How many bytes its properties use.
    pub bytes: usize,
    /// Whether the run that wrote its newest version is still active.
    pub has_active_author: bool,
}

impl TaskHead {
    fn from_row(row: &Row<'_>) -> Result<Self> {
        let (workflow, status): (Option<String>, Option<String>) = (row.get(4)?, row.get(5)?);
        Ok(Self {
            id: row.get(0)?,
            version: row.get(1)?,
            created_at: row.get(2)?,
            updated_at: row.get(3)?,
            workflow: workflow.and_then(|id| id.parse().ok()),
            status: status.and_then(|status| TaskStatus::parse(&status)).unwrap_or(TaskStatus::Pending),
            bytes: usize::try_from(row.get::<i64>(6)?).unwrap_or(usize::MAX),
            has_active_author: row.get::<i64>(7)? == 1,
        })
    }
}

/// The heads of the live tasks among these objects, in no order.
pub fn list_heads(tx: &mut Tx<'_>, project: ProjectId, ids: &[ObjectId]) -> Result<Vec<TaskHead>> {
    let size = size_sql(tx.engine(), &["t.properties"]);
    let mut heads = Vec::new();
    for list in page::in_chunks(ids) {
        let sql = format!(
            "SELECT t.id, t.version, t.created_at, t.updated_at, t.properties->>'workflow_id',
                 t.properties->>'status', {size}, CAST(CASE WHEN {HAS_ACTIVE_AUTHOR} THEN 1 ELSE 0 END AS bigint)
             FROM graph_objects AS t WHERE t.id IN ({}) AND {}",
            page::placeholders(2, list.len()),
            page::on_row(&format!("t.project_id = $1 AND {IS_LIVE_TASK}"))
        );
        let mut params = vec![Param::from(project)];
        params.extend(list.iter().map(|id| Param::from(*id)));
        heads.extend(tx.query(&sql, &params, TaskHead::from_row)?);
    }
    Ok(heads)
}

/// How far [`list_joined`] reads.
#[derive(Debug, Clone, Copy)]
pub struct JoinLimits {
    pub max_tasks: usize,
    pub max_bytes: usize,
}

/// Tasks that belong together.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct JoinedTasks {
    /// The oldest comes first.
    pub heads: Vec<TaskHead>,
    /// Whether there are more tasks or bytes than the limits allow. Then at least one limit is exceeded by one task.
    pub is_cut: bool,
}

/// The live tasks that `blocks` edges join with these tasks, in either direction, these included. Edges are not
/// followed beyond a task for which `follow` is false, and it is left out. Stops after the task that exceeds a
/// limit.
pub fn list_joined(
    tx: &mut Tx<'_>,
    project: ProjectId,
    from: &[ObjectId],
    limits: JoinLimits,
    mut follow: impl FnMut(&mut Tx<'_>, &TaskHead) -> Result<bool>,
) -> Result<JoinedTasks> {
    let mut seen: HashSet<ObjectId> = HashSet::new();
    let mut level: Vec<ObjectId> = from.iter().copied().filter(|id| seen.insert(*id)).collect();
    let (mut joined, mut bytes) = (JoinedTasks::default(), 0_usize);
    while !level.is_empty() && !joined.is_cut {
        let mut heads = list_heads(tx, project, &level)?;
        heads.sort_by_key(|head| (head.created_at, head.id));
        let mut ids = Vec::new();
        for head in heads {
            if !joined.is_cut && follow(tx, &head)? {
                bytes = bytes.saturating_add(head.bytes);
                ids.push(head.id);
                joined.heads.push(head);
                joined.is_cut = joined.heads.len() > limits.max_tasks || bytes > limits.max_bytes;
            }
        }
        level = list_neighbours(tx, &ids, &mut seen)?;
    }
    joined.heads.sort_by_key(|head| (head.created_at, head.id));
    Ok(joined)
}

/// The tasks at the other ends of the `blocks` edges of these tasks that were not seen before.
fn list_neighbours(tx: &mut Tx<'_>, ids: &[ObjectId], seen: &mut HashSet<ObjectId>) -> Result<Vec<ObjectId>> {
    let mut found = Vec::new();
    for (this_end, other_end) in [("from_id", "to_id"), ("to_id", "from_id")] {
        for list in page::in_chunks(ids) {
            let sql = format!(
                "SELECT {other_end} FROM graph_relationships
                 WHERE type = 'blocks' AND deleted_at IS NULL AND {this_end} IN ({})",
                page::placeholders(1, list.len())
            );
            let params: Vec<Param<'_>> = list.iter().map(|id| Param::from(*id)).collect();
            tx.for_each_row_while(&sql, &params, |row| {
                let other: ObjectId = row.get(0)?;
                if found.len() < MAX_LEVEL && seen.insert(other) {
                    found.push(other);
                }
                Ok(found.len() < MAX_LEVEL)
            })?;
        }
    }
    Ok(found)
}

/// Whether a token wrote a version of this object that is known.
pub fn has_token_author(tx: &mut Tx<'_>, id: ObjectId) -> Result<bool> {
    let sql = "SELECT 1 FROM graph_objects WHERE id = $1 AND author_token IS NOT NULL
               UNION ALL
               SELECT 1 FROM graph_object_versions WHERE object_id = $1 AND author_token IS NOT NULL LIMIT 1";
    Ok(tx.query_opt(sql, params![id], |_| Ok(()))?.is_some())
}

/// Records why a standing workflow could not take a task. It is not tried again until it has another version.
pub fn upsert_refusal(
    tx: &mut Tx<'_>,
    project: ProjectId,
    task: &TaskHead,
    reason: &str,
    at: Timestamp,
) -> Result<()> {
    tx.execute(
        "INSERT INTO task_refusals (task_id, project_id, version, reason, at) VALUES ($1, $2, $3, $4, $5)
         ON CONFLICT (task_id) DO UPDATE SET version = excluded.version, reason = excluded.reason, at = excluded.at",
        params![task.id, project, task.version, reason, at],
    )?;
    Ok(())
}

/// Forgets the refusals of these tasks, because a workflow has taken them.
pub fn delete_refusals(tx: &mut Tx<'_>, tasks: &[ObjectId]) -> Result<()> {
    for list in page::in_chunks(tasks) {
        let sql =
            format!("DELETE FROM task_refusals WHERE task_id IN ({})", page::placeholders(1, list.len()));
        let params: Vec<Param<'_>> = list.iter().map(|id| Param::from(*id)).collect();
        tx.execute(&sql, &params)?;
    }
    Ok(())
}

/// Why a standing workflow could not take those of these tasks that it refused: the version, and the reason.
pub fn list_refusals(tx: &mut Tx<'_>, tasks: &[ObjectId]) -> Result<HashMap<ObjectId, (i64, String)>> {
    let mut refusals = HashMap::new();
    for list in page::in_chunks(tasks) {
        let sql = format!(
            "SELECT task_id, version, reason FROM task_refusals WHERE task_id IN ({})",
            page::placeholders(1, list.len())
        );
        let params: Vec<Param<'_>> = list.iter().map(|id| Param::from(*id)).collect();
        refusals.extend(tx.query(&sql, &params, |row| Ok((row.get(0)?, (row.get(1)?, row.get(2)?))))?);
    }
    Ok(refusals)
}
