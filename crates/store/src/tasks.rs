//! Queries about tasks and the edges between them. Tasks are objects of the type `SpecTask`, which the
//! functions of `objects` write; this module only reads.

use std::collections::{HashMap, HashSet};

use emergent_domain::{
    cursor::{Cursor, Page, ResultPage},
    ids::{ObjectId, ProjectId, WorkflowId},
    object::Object,
    task::TaskStatus,
    text,
};

use crate::{
    engine::Engine,
    error::Result,
    page, params,
    row::TableRow,
    tx::Tx,
    value::{Param, Row},
};

/// The condition that a task `t` is blocked: a live task that blocks it is not completed. A scalar subquery looks each
/// blocker up by its id; PostgreSQL might make a join with all live objects out of anything else.
const IS_BLOCKED: &str = "EXISTS (
    SELECT 1 FROM graph_relationships AS b
    WHERE b.to_id = t.id AND b.type = 'blocks' AND b.deleted_at IS NULL
      AND (SELECT p.deleted_at IS NULL AND p.properties->>'status' <> 'completed'
           FROM graph_objects AS p WHERE p.id = b.from_id))";
pub(crate) const IS_LIVE_TASK: &str = "t.type = 'SpecTask' AND t.deleted_at IS NULL";

/// Which tasks to list. Every field that is set must match.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TaskFilter {
    pub workflow: Option<WorkflowId>,
    pub status: Option<TaskStatus>,
    /// Only pending tasks that are not blocked. Such a task may still name the run of an earlier attempt.
    pub available: bool,
}

/// Tasks of a project, newest first.
pub fn list(
    tx: &mut Tx<'_>,
    project: ProjectId,
    filter: &TaskFilter,
    page: &Page,
) -> Result<ResultPage<Object>> {
    let (sql, params) = list_sql(project, filter, page);
    page::query_page(tx, page.limit, &sql, &params, Object::from_row, |task| Cursor {
        created_at: task.created_at,
        id: task.id.0,
    })
}

/// The statement of [`list`], for tests that check its query plan.
pub fn list_sql(project: ProjectId, filter: &TaskFilter, page: &Page) -> (String, Vec<Param<'static>>) {
    let mut params = vec![Param::from(project)];
    let mut sql = format!(
        "SELECT {} FROM graph_objects AS t WHERE t.project_id = $1 AND {IS_LIVE_TASK}",
        Object::columns_of("t")
    );
    if let Some(workflow) = filter.workflow {
        params.push(Param::from(workflow.to_string()));
        sql.push_str(&format!(" AND t.properties->>'workflow_id' = ${}", params.len()));
    }
    let status = filter.status.or(filter.available.then_some(TaskStatus::Pending));
    if let Some(status) = status {
        params.push(Param::from(status.as_str()));
        sql.push_str(&format!(" AND t.properties->>'status' = ${}", params.len()));
    }
    if filter.available {
        sql.push_str(&format!(" AND NOT {IS_BLOCKED}"));
    }
    let (after, values) = page::after_cursor_sql(page, "t.created_at", "t.id", params.len() + 1);
    params.extend(values);
    sql.push_str(&format!("{after} ORDER BY t.created_at DESC, t.id DESC{}", page::limit_sql(page)));
    (sql, params)
}

/// Every task of a workflow, the oldest first. They are sorted here: while the table is small, PostgreSQL would read all
/// tasks of the project from an index that has this order.
pub fn list_for_workflow(tx: &mut Tx<'_>, project: ProjectId, workflow: WorkflowId) -> Result<Vec<Object>> {
    let sql = format!(
        "SELECT {} FROM graph_objects AS t WHERE t.project_id = $1 AND t.properties->>'workflow_id' = $2
             AND {IS_LIVE_TASK}",
        Object::columns_of("t")
    );
    let mut tasks: Vec<Object> = tx.query(&sql, params![project, workflow.to_string()], Object::from_row)?;
    tasks.sort_by_key(|task| (task.created_at, task.id));
    Ok(tasks)
}

/// The tasks of a workflow with one of these statuses, the oldest first, at most `limit`. A task without a status is
/// pending.
pub fn list_in_status(
    tx: &mut Tx<'_>,
    project: ProjectId,
    workflow: WorkflowId,
    statuses: &[TaskStatus],
    limit: usize,
) -> Result<Vec<Object>> {
    let sql = format!(
        "SELECT {} FROM graph_objects AS t WHERE t.project_id = $1 AND t.properties->>'workflow_id' = $2
             AND {IS_LIVE_TASK} AND COALESCE(t.properties->>'status', 'pending') IN ({})
         ORDER BY t.created_at, t.id LIMIT $3",
        Object::columns_of("t"),
        page::placeholders(4, statuses.len())
    );
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut params = vec![Param::from(project), Param::from(workflow.to_string()), Param::from(limit)];
    params.extend(statuses.iter().map(|status| Param::from(status.as_str())));
    tx.query(&sql, &params, Object::from_row)
}

/// How a task ended: its kind, the agent that executed it, and whether it completed or failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskOutcome {
    pub kind: String,
    pub agent: String,
    pub completed: bool,
}

/// The outcomes of the newest tasks of a project that had a run: at most `limit` completed and `limit` failed
/// tasks. Tasks of the workflow `except` are left out.
pub fn list_outcomes(
    tx: &mut Tx<'_>,
    project: ProjectId,
    except: WorkflowId,
    limit: i64,
) -> Result<Vec<TaskOutcome>> {
    let sql = format!(
        "SELECT t.properties->>'kind', t.properties->>'assigned_agent', t.properties->>'workflow_id',
             t.properties->>'run_id'
         FROM graph_objects AS t
         WHERE t.project_id = $1 AND t.properties->>'status' = $2 AND {IS_LIVE_TASK}
         ORDER BY t.created_at DESC, t.id DESC LIMIT $3"
    );
    let except = except.to_string();
    let mut outcomes = Vec::new();
    for status in [TaskStatus::Completed, TaskStatus::Failed] {
        let read = |row: &Row<'_>| -> Result<_> {
            let text = |column| row.get::<Option<String>>(column);
            Ok((text(0)?, text(1)?, text(2)?, text(3)?))
        };
        for row in tx.query(&sql, params![project, status.as_str(), limit], read)? {
            let (Some(kind), Some(agent), workflow, Some(_)) = row else { continue };
            if workflow.as_deref() != Some(except.as_str()) {
                outcomes.push(TaskOutcome { kind, agent, completed: status == TaskStatus::Completed });
            }
        }
    }
    Ok(outcomes)
}

/// How many tasks a workflow has.
pub fn count(tx: &mut Tx<'_>, project: ProjectId, workflow: WorkflowId) -> Result<i64> {
    let sql = format!(
        "SELECT count(*) FROM graph_objects AS t WHERE t.project_id = $1 AND t.properties->>'workflow_id' = $2
             AND {IS_LIVE_TASK}"
    );
    Ok(tx.query_opt(&sql, params![project, workflow.to_string()], |row| row.get(0))?.unwrap_or(0))
}

/// A task that has its key as a property.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyedTask {
    pub id: ObjectId,
    /// Whether it names a workflow.
    pub has_workflow: bool,
}

/// The live tasks with this property `key` whose objects have no key, the oldest first. Tasks that a workflow made have
/// objects with keys, and are not among them.
pub fn list_by_property_key(tx: &mut Tx<'_>, project: ProjectId, key: &str) -> Result<Vec<KeyedTask>> {
    let sql = format!(
        "SELECT t.id, t.properties->>'workflow_id' FROM graph_objects AS t
         WHERE t.project_id = $1 AND t.key IS NULL AND t.properties->>'key' = $2 AND {IS_LIVE_TASK}
         ORDER BY t.created_at, t.id"
    );
    let read = |row: &Row<'_>| -> Result<KeyedTask> {
        let workflow: Option<String> = row.get(1)?;
        Ok(KeyedTask { id: row.get(0)?, has_workflow: workflow.is_some_and(|id| !id.is_empty()) })
    };
    tx.query(&sql, params![project, key], read)
}

/// The keys and ids of the tasks of a workflow. A task without a key has its id instead.
pub fn list_keys(
    tx: &mut Tx<'_>,
    project: ProjectId,
    workflow: WorkflowId,
) -> Result<Vec<(String, ObjectId)>> {
    let sql = format!(
        "SELECT t.properties->>'key', t.id FROM graph_objects AS t
         WHERE t.project_id = $1 AND t.properties->>'workflow_id' = $2 AND {IS_LIVE_TASK}"
    );
    let read = |row: &Row<'_>| Ok((row.get::<Option<String>>(0)?, row.get::<ObjectId>(1)?));
    let rows = tx.query(&sql, params![project, workflow.to_string()], read)?;
    Ok(rows.into_iter().map(|(key, id)| (key.unwrap_or_else(|| id.to_string()), id)).collect())
}

/// The live blockers of a task, and its live dependents.
pub fn neighbours(tx: &mut Tx<'_>, project: ProjectId, task: ObjectId) -> Result<(Vec<Object>, Vec<Object>)> {
    let mut select = |this_end: &str, other_end: &str| {
        let sql = format!(
            "SELECT {} FROM graph_relationships AS b JOIN graph_objects AS t ON t.id = b.{other_end}
             WHERE b.{this_end} = $1 AND b.type = 'blocks' AND b.deleted_at IS NULL AND {}
             ORDER BY t.created_at, t.id",
            Object::columns_of("t"),
            page::on_row(&format!("t.project_id = $2 AND {IS_LIVE_TASK}"))
        );
        tx.query(&sql, params![task, project], Object::from_row)
    };
    Ok((select("to_id", "from_id")?, select("from_id", "to_id")?))
}

/// The `blocks` edges among the tasks of a workflow, as (blocker, blocked), in a stable order.
pub fn list_blocks(
    tx: &mut Tx<'_>,
    project: ProjectId,
    workflow: WorkflowId,
) -> Result<Vec<(ObjectId, ObjectId)>> {
    let sql = format!(
        "SELECT t.id FROM graph_objects AS t
         WHERE t.project_id = $1 AND t.properties->>'workflow_id' = $2 AND {IS_LIVE_TASK}"
    );
    let tasks: Vec<ObjectId> = tx.query(&sql, params![project, workflow.to_string()], |row| row.get(0))?;
    list_blocks_of(tx, &tasks)
}

/// The `blocks` edges that lead to these tasks, as (blocker, blocked), in a stable order.
pub fn list_blocks_of(tx: &mut Tx<'_>, tasks: &[ObjectId]) -> Result<Vec<(ObjectId, ObjectId)>> {
    let mut blocks = match tx.engine() {
        Engine::Sqlite => sqlite_blocks_of(tx, tasks)?,
        Engine::Postgres => postgres_blocks_of(tx, tasks)?,
    };
    blocks.sort_unstable();
    // A task that was named twice.
    blocks.dedup();
    Ok(blocks)
}

/// The condition that a live task is at the start of the edge `b`.
const IS_FROM_LIVE_TASK: &str =
    "(SELECT p.deleted_at FROM graph_objects AS p WHERE p.id = b.from_id) IS NULL";

fn sqlite_blocks_of(tx: &mut Tx<'_>, tasks: &[ObjectId]) -> Result<Vec<(ObjectId, ObjectId)>> {
    let mut blocks = Vec::new();
    for list in page::in_chunks(tasks) {
        let sql = format!(
            "SELECT b.from_id, b.to_id FROM graph_relationships AS b
             WHERE b.to_id IN ({}) AND b.type = 'blocks' AND b.deleted_at IS NULL AND {IS_FROM_LIVE_TASK}",
            page::placeholders(1, list.len())
        );
        let params: Vec<Param<'_>> = list.into_iter().map(Param::from).collect();
        blocks.extend(tx.query(&sql, &params, |row| Ok((row.get(0)?, row.get(1)?)))?);
    }
    Ok(blocks)
}

/// Looks up the edges of each task by itself, by the index that begins with `to_id`, whatever the statistics say. For a list
/// of tasks, or a join, PostgreSQL reads all edges of the database if it plans for a large table without statistics. While
/// the table is empty any index is as good, so the edges are read in the order that only this one has.
fn postgres_blocks_of(tx: &mut Tx<'_>, tasks: &[ObjectId]) -> Result<Vec<(ObjectId, ObjectId)>> {
    let sql = format!(
        "SELECT b.from_id, b.to_id FROM unnest(CAST($1 AS uuid[])) AS task(id) CROSS JOIN LATERAL (
             SELECT b.from_id, b.to_id FROM graph_relationships AS b
             WHERE b.to_id = task.id AND {} AND b.deleted_at IS NULL AND {IS_FROM_LIVE_TASK}
             ORDER BY b.to_id, b.type, b.from_id OFFSET 0) AS b",
        page::on_row("b.type = 'blocks'")
    );
    let ids = Param::Array(tasks.iter().copied().map(Param::from).collect());
    tx.query(&sql, &[ids], |row| Ok((row.get(0)?, row.get(1)?)))
}

/// Whether a live task that is not completed blocks this task.
pub fn is_blocked(tx: &mut Tx<'_>, task: ObjectId) -> Result<bool> {
    let sql = format!("SELECT 1 FROM graph_objects AS t WHERE t.id = $1 AND {IS_BLOCKED}");
    Ok(tx.query_opt(&sql, params![task], |row| row.get::<i64>(0))?.is_some())
}

/// The most `blocks` edges that are followed to find out which tasks wait for others.
pub const MAX_FOLLOWED_BLOCKS: usize = 20_000;

/// What can be reached from some tasks along `blocks`.
#[derive(Debug, Default)]
pub struct ReachableBlocks {
    /// The edges, as (blocker, blocked).
    pub edges: Vec<(ObjectId, ObjectId)>,
    /// There are more than [`MAX_FOLLOWED_BLOCKS`].
    pub is_cut: bool,
}

/// The `blocks` edges that can be reached from these tasks along `blocks`. Reads the edges level by level.
pub fn reachable_blocks(tx: &mut Tx<'_>, from: &[ObjectId]) -> Result<ReachableBlocks> {
    let mut seen: HashSet<ObjectId> = HashSet::new();
    let mut level: Vec<ObjectId> = from.iter().copied().filter(|id| seen.insert(*id)).collect();
    let mut reached = ReachableBlocks::default();
    while !level.is_empty() {
        let mut next = Vec::new();
        for list in page::in_chunks(&level) {
            let sql = format!(
                "SELECT from_id, to_id FROM graph_relationships
                 WHERE type = 'blocks' AND deleted_at IS NULL AND from_id IN ({})
                 LIMIT ${}",
                page::placeholders(1, list.len()),
                list.len() + 1
            );
            let mut params: Vec<Param<'_>> = list.iter().map(|id| Param::from(*id)).collect();
            // One more shows that there are others.
            let rest = MAX_FOLLOWED_BLOCKS + 1 - reached.edges.len();
            params.push(Param::from(i64::try_from(rest).unwrap_or(i64::MAX)));
            tx.for_each_row(&sql, &params, |row| {
                let (blocker, blocked) = (row.get(0)?, row.get(1)?);
                reached.edges.push((blocker, blocked));
                if seen.insert(blocked) {
                    next.push(blocked);
                }
                Ok(())
            })?;
            if reached.edges.len() > MAX_FOLLOWED_BLOCKS {
                reached.edges.truncate(MAX_FOLLOWED_BLOCKS);
                reached.is_cut = true;
                return Ok(reached);
            }
        }
        level = next;
    }
    Ok(reached)
}

/// The most characters of a task's name in a message. A task that was written as an object can have a title of megabytes.
pub const MAX_NAME_CHARS: usize = 80;
/// Nothing has a longer key than this, in characters.
const MAX_KEY_CHARS: usize = 512;

/// The names and workflows of those of these objects that are tasks, deleted tasks included.
pub fn task_names(
    tx: &mut Tx<'_>,
    project: ProjectId,
    ids: &[ObjectId],
) -> Result<HashMap<ObjectId, TaskName>> {
    let mut names = HashMap::new();
    for list in page::in_chunks(ids) {
        let sql = format!(
            "SELECT id, substr(properties->>'key', 1, {}), substr(properties->>'title', 1, {}), \
                 substr(properties->>'workflow_id', 1, 64)
             FROM graph_objects WHERE id IN ({}) AND {}",
            MAX_KEY_CHARS + 1,
            MAX_NAME_CHARS + 1,
            page::placeholders(2, list.len()),
            page::on_row("project_id = $1 AND type = 'SpecTask'")
        );
        let mut params = vec![Param::from(project)];
        params.extend(list.iter().map(|id| Param::from(*id)));
        tx.for_each_row(&sql, &params, |row| {
            let id: ObjectId = row.get(0)?;
            let (key, title, workflow): (Option<String>, Option<String>, Option<String>) =
                (row.get(1)?, row.get(2)?, row.get(3)?);
            let key = key.filter(|key| !key.is_empty());
            let name = key.clone().or_else(|| title.filter(|title| !title.is_empty()));
            let name = name.map_or_else(|| id.to_string(), |name| text::truncate(&name, MAX_NAME_CHARS));
            let key = key.filter(|key| key.chars().nth(MAX_KEY_CHARS).is_none());
            let workflow = workflow.and_then(|id| id.parse().ok());
            names.insert(id, TaskName { name, key, workflow });
            Ok(())
        })?;
    }
    Ok(names)
}

/// The name of a task for messages to people, and its workflow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskName {
    /// The key, else the title, else the id; at most [`MAX_NAME_CHARS`] characters.
    pub name: String,
    /// The key that the task has as a property.
    pub key: Option<String>,
    /// `None` when the task names no workflow.
    pub workflow: Option<WorkflowId>,
}

/// The live discussions of these tasks, each with its task, the oldest first.
pub fn list_discussions(
    tx: &mut Tx<'_>,
    project: ProjectId,
    tasks: &[ObjectId],
) -> Result<Vec<(ObjectId, Object)>> {
    // Edges and objects are read separately: most tasks have no such edge, and for a join the query planner
    // might scan all objects of the project.
    let mut tasks_by_discussion: HashMap<ObjectId, Vec<ObjectId>> = HashMap::new();
    for list in page::in_chunks(tasks) {
        let sql = format!(
            "SELECT to_id, from_id FROM graph_relationships
             WHERE type = 'spawned_discussion' AND deleted_at IS NULL AND from_id IN ({})",
            page::placeholders(1, list.len())
        );
        let params: Vec<Param<'_>> = list.iter().map(|id| Param::from(*id)).collect();
        for (discussion, task) in tx.query(&sql, &params, |row| Ok((row.get(0)?, row.get(1)?)))? {
            tasks_by_discussion.entry(discussion).or_default().push(task);
        }
    }
    let ids: Vec<ObjectId> = tasks_by_discussion.keys().copied().collect();
    let mut discussions = Vec::new();
    for list in page::in_chunks(&ids) {
        let sql = format!(
            "SELECT {} FROM graph_objects AS o WHERE o.id IN ({}) AND {}",
            Object::columns_of("o"),
            page::placeholders(2, list.len()),
            page::on_row("o.project_id = $1 AND o.deleted_at IS NULL")
        );
        let mut params = vec![Param::from(project)];
        params.extend(list.iter().map(|id| Param::from(*id)));
        discussions.extend(tx.query(&sql, &params, Object::from_row)?);
    }
    discussions.sort_by_key(|object: &Object| (object.created_at, object.id));
    let with_tasks = |object: Object| {
        let tasks = tasks_by_discussion.get(&object.id).cloned().unwrap_or_default();
        tasks.into_iter().map(move |task| (task, object.clone()))
    };
    Ok(discussions.into_iter().flat_map(with_tasks).collect())
}
