//! Firings: one row for each time a trigger fired. Rows are unique by (schedule, time) and by (agent, object,
//! version), so that the database prevents a trigger from firing twice.

use std::collections::HashMap;

use emergent_domain::{
    change::FeedPosition,
    cursor::{Cursor, Page, ResultPage},
    ids::{AgentId, FiringId, ProjectId, RunId, WorkflowId},
    time::Timestamp,
    trigger::{EventKind, Firing, FiringCause, FiringStatus},
};
use uuid::Uuid;

use crate::{
    engine::Engine,
    error::Result,
    page,
    row::{RowReader, TableRow, row},
    tx::Tx,
    value::{Param, Row},
};

row! {
    Firing in "trigger_firings" {
        id: "id",
        project: "project_id",
        agent: "agent_id",
        fired: CauseColumns(
            "schedule_id", "scheduled_at", "event", "entity_id", "entity_type", "entity_version", "event_txid",
            "event_seq"
        ),
        cause: "cause_run_id",
        cause_depth: "cause_depth",
        status: "status",
        reason: "reason",
        run: "run_id",
        workflow: "workflow_id",
        trigger_name: "trigger_name",
        due_at: "due_at",
        created_at: "created_at",
        settled_at: "settled_at",
    }
}

const COLUMNS: &str = Firing::COLUMNS;

/// Codec of the cause: a schedule and its time, or an event. The columns of the other kind are NULL.
struct CauseColumns;

impl CauseColumns {
    fn read(reader: &mut RowReader<'_, '_>, columns: [&'static str; 8]) -> Result<FiringCause> {
        let [schedule_id, scheduled_at, event, entity, entity_type, version, txid, seq] = columns;
        let (schedule, at) = (reader.next(schedule_id)?, reader.next(scheduled_at)?);
        let (event_kind, entity_id, type_, entity_version) =
            (reader.next(event)?, reader.next(entity)?, reader.next(entity_type)?, reader.next(version)?);
        let (txid, seq): (Option<i64>, Option<i64>) = (reader.next(txid)?, reader.next(seq)?);
        Ok(match schedule {
            Some(schedule) => FiringCause::Schedule { schedule, at: reader.required(at, scheduled_at)? },
            None => FiringCause::Event {
                event: reader.required(event_kind, event)?,
                entity: reader.required(entity_id, entity)?,
                entity_type: reader.required(type_, entity_type)?,
                version: reader.required(entity_version, version)?,
                at: txid.zip(seq).map(|(txid, seq)| FeedPosition { txid, seq }),
            },
        })
    }

    fn write<'a>(cause: &'a FiringCause, params: &mut Vec<Param<'a>>) -> Result<()> {
        params.extend(match cause {
            FiringCause::Schedule { schedule, at } => [
                Param::from(*schedule),
                Param::from(*at),
                Param::Null,
                Param::Null,
                Param::Null,
                Param::Null,
                Param::Null,
                Param::Null,
            ],
            FiringCause::Event { event, entity, entity_type, version, at } => [
                Param::Null,
                Param::Null,
                Param::from(*event),
                Param::from(*entity),
                Param::from(entity_type),
                Param::from(*version),
                Param::from(at.map(|at| at.txid)),
                Param::from(at.map(|at| at.seq)),
            ],
        });
        Ok(())
    }
}

/// Adds firings and returns how many were new. An existing one stays as it is.
pub fn insert(tx: &mut Tx<'_>, firings: &[Firing]) -> Result<u64> {
    tx.insert_rows(firings, [], |_| [], "ON CONFLICT DO NOTHING")
}

/// Which firings [`list_due`] returns.
#[derive(Debug, Clone, Copy)]
pub enum DueFirings<'a> {
    /// Those of all triggers but these.
    Without(&'a [AgentId]),
    /// Those of these triggers.
    Only(&'a [AgentId]),
}

impl DueFirings<'_> {
    fn includes(self, agent: AgentId) -> bool {
        match self {
            Self::Without(agents) => !agents.contains(&agent),
            Self::Only(agents) => agents.contains(&agent),
        }
    }
}

/// The due pending firings of events of a project that this version can read, the longest due first: at most `limit`,
/// and of each trigger in `limits` at most so many. Those that are left out are not read, because many may wait: each
/// trigger is looked up by itself then.
pub fn list_due(
    tx: &mut Tx<'_>,
    project: ProjectId,
    which: DueFirings<'_>,
    limits: &HashMap<AgentId, usize>,
    now: Timestamp,
    limit: usize,
) -> Result<Vec<Firing>> {
    match which {
        DueFirings::Only([]) => return Ok(Vec::new()),
        DueFirings::Without([]) if limits.is_empty() => return list_due_of(tx, project, None, now, limit),
        _ => {}
    }
    let mut triggers = list_due_triggers(tx, project, now)?;
    triggers.retain(|(agent, _)| which.includes(*agent));
    triggers.sort_by_key(|(_, since)| *since);
    let mut due: Vec<Firing> = Vec::new();
    for (agent, since) in triggers {
        // The firings of this trigger and of those after it are due later than all that fit.
        if due.len() == limit && due.last().is_some_and(|last| last.due_at <= since) {
            break;
        }
        let limit_of_trigger = limits.get(&agent).map_or(limit, |own| limit.min(*own));
        due.extend(list_due_of(tx, project, Some(agent), now, limit_of_trigger)?);
        due.sort_by_key(|firing| (firing.due_at, firing.id));
        due.truncate(limit);
    }
    Ok(due)
}

/// The due pending firings of events of a project, or of one of its triggers, that this version can read, the longest
/// due first.
fn list_due_of(
    tx: &mut Tx<'_>,
    project: ProjectId,
    agent: Option<AgentId>,
    now: Timestamp,
    limit: usize,
) -> Result<Vec<Firing>> {
    let condition = if agent.is_some() { " AND agent_id = $3" } else { "" };
    let sql = |limit: &str, exclude: &str| {
        format!(
            "SELECT {COLUMNS} FROM trigger_firings
             WHERE project_id = $1 AND status = 'pending' AND entity_id IS NOT NULL
                 AND due_at <= $2{condition}{exclude}
             ORDER BY due_at, id LIMIT {limit}"
        )
    };
    let mut params = vec![Param::from(project), Param::from(now)];
    params.extend(agent.map(Param::from));
    tx.query_claimable::<Firing, _>(&params, limit, sql, Firing::from_row)
}

/// The triggers of a project with due pending firings of events, each with the time since which its first one is due.
/// Each takes one lookup in an index, however many of its firings wait.
fn list_due_triggers(
    tx: &mut Tx<'_>,
    project: ProjectId,
    now: Timestamp,
) -> Result<Vec<(AgentId, Timestamp)>> {
    let sql = match tx.engine() {
        // For a comparison of rows, SQLite would read all firings of the trigger before.
        Engine::Sqlite => {
            "SELECT project_id, agent_id, due_at FROM trigger_firings
             WHERE project_id = $1 AND agent_id > $2 AND status = 'pending' AND entity_id IS NOT NULL
             ORDER BY agent_id, due_at LIMIT 1"
        }
        // Only one index has this order, so PostgreSQL takes it whatever it knows of the table. The trigger that is
        // found may be of another project.
        Engine::Postgres => {
            "SELECT project_id, agent_id, due_at FROM trigger_firings
             WHERE (project_id, agent_id) > ($1, $2) AND status = 'pending' AND entity_id IS NOT NULL
             ORDER BY project_id, agent_id, due_at LIMIT 1"
        }
    };
    let (mut triggers, mut after) = (Vec::new(), AgentId(Uuid::nil()));
    loop {
        let next: Option<(ProjectId, AgentId, Timestamp)> =
            tx.query_opt(sql, &[Param::from(project), Param::from(after)], |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?))
            })?;
        let Some((_, agent, since)) = next.filter(|(of, _, _)| *of == project) else { return Ok(triggers) };
        if since <= now {
            triggers.push((agent, since));
        }
        after = agent;
    }
}

/// Whether a project has a due pending firing of an event of other triggers than these.
pub fn has_due_without(
    tx: &mut Tx<'_>,
    project: ProjectId,
    agents: &[AgentId],
    now: Timestamp,
) -> Result<bool> {
    let others = DueFirings::Without(agents);
    Ok(list_due_triggers(tx, project, now)?.into_iter().any(|(agent, _)| others.includes(agent)))
}

/// The due pending firings of an agent that this version can read, in the order of their events. The order is that of
/// the feed, because the servers that read it may have different clocks. The condition names no project: an agent is of
/// one only, and with it the database may choose to read and to sort all due firings.
pub fn list_first_due(tx: &mut Tx<'_>, agent: AgentId, now: Timestamp, limit: usize) -> Result<Vec<Firing>> {
    let sql = |limit: &str, exclude: &str| {
        format!(
            "SELECT {COLUMNS} FROM trigger_firings
             WHERE agent_id = $1 AND status = 'pending' AND entity_id IS NOT NULL AND due_at <= $2{exclude}
             ORDER BY event_txid, event_seq, id LIMIT {limit}"
        )
    };
    let params = [Param::from(agent), Param::from(now)];
    tx.query_claimable::<Firing, _>(&params, limit, sql, Firing::from_row)
}

/// How many pending firings of an agent's events are due.
pub fn count_due(tx: &mut Tx<'_>, project: ProjectId, agent: AgentId, now: Timestamp) -> Result<i64> {
    let sql = "SELECT count(*) FROM trigger_firings
               WHERE project_id = $1 AND status = 'pending' AND entity_id IS NOT NULL AND agent_id = $2
                   AND due_at <= $3";
    let params = [Param::from(project), Param::from(agent), Param::from(now)];
    Ok(tx.query_opt(sql, &params, |row| row.get(0))?.unwrap_or(0))
}

/// The pending firings of events for an agent that this version can read, oldest first. With `entity`, only
/// those about that object.
pub fn list_pending(
    tx: &mut Tx<'_>,
    project: ProjectId,
    agent: AgentId,
    entity: Option<Uuid>,
    limit: usize,
) -> Result<Vec<Firing>> {
    let sql = |limit: &str, exclude: &str| list_pending_sql(entity.is_some(), limit, exclude);
    let mut params = vec![Param::from(project), Param::from(agent)];
    params.extend(entity.map(Param::from));
    tx.query_claimable::<Firing, _>(&params, limit, sql, Firing::from_row)
}

/// The statement of [`list_pending`]. Many firings of an agent may wait, and an object may have many that are settled,
/// which are kept for ever by default. Each of the two orders is therefore that of an index of the pending ones.
pub fn list_pending_sql(of_entity: bool, limit: &str, exclude: &str) -> String {
    let (condition, order) = match of_entity {
        true => (" AND entity_id = $3", "created_at, id"),
        false => ("", "event_txid, event_seq, id"),
    };
    let of_project = page::on_row("project_id = $1");
    format!(
        "SELECT {COLUMNS} FROM trigger_firings
         WHERE agent_id = $2 AND {of_project} AND status = 'pending' AND entity_id IS NOT NULL{condition}{exclude}
         ORDER BY {order} LIMIT {limit}"
    )
}

/// A `WITH` clause `waiting` with the projects that have pending firings of events, and a row without a project. Each
/// takes one lookup in an index, however many firings wait.
const WAITING_PROJECTS: &str = "WITH RECURSIVE waiting (project_id) AS (
    SELECT (SELECT f.project_id FROM trigger_firings AS f
            WHERE f.status = 'pending' AND f.entity_id IS NOT NULL ORDER BY f.project_id LIMIT 1)
    UNION ALL
    SELECT (SELECT f.project_id FROM trigger_firings AS f
            WHERE f.status = 'pending' AND f.entity_id IS NOT NULL AND f.project_id > w.project_id
            ORDER BY f.project_id LIMIT 1)
    FROM waiting AS w WHERE w.project_id IS NOT NULL)";

/// When the first pending firing of an event in the project `w` is due, of those that match a condition. It is a
/// subquery with an order, so that PostgreSQL looks it up in the index that has this order.
fn first_due_sql(condition: &str) -> String {
    format!(
        "(SELECT f.due_at FROM trigger_firings AS f
          WHERE f.project_id = w.project_id AND f.status = 'pending' AND f.entity_id IS NOT NULL{condition}
          ORDER BY f.due_at LIMIT 1)"
    )
}

/// The live projects with pending firings of events that are due.
pub(super) fn projects_with_due(tx: &mut Tx<'_>, now: Timestamp) -> Result<Vec<ProjectId>> {
    tx.query(&projects_with_due_sql(), &[Param::from(now)], |row| row.get(0))
}

/// The statement that finds the projects with due firings. It is public so that a test can show its plan. With a CROSS
/// JOIN, SQLite keeps the order of the tables: few projects have firings that wait, and all would be read otherwise.
pub fn projects_with_due_sql() -> String {
    format!(
        "{WAITING_PROJECTS} SELECT w.project_id FROM waiting AS w
         CROSS JOIN projects AS p
         WHERE p.id = w.project_id AND p.deleted_at IS NULL AND {} <= $1",
        first_due_sql("")
    )
}

/// When the next pending firing of an event in a live project is due; `None` when there is none.
pub fn next_due_at(tx: &mut Tx<'_>) -> Result<Option<Timestamp>> {
    min_due(tx, &next_due_at_sql(), &[])
}

/// The statement of [`next_due_at`].
pub fn next_due_at_sql() -> String {
    min_due_sql(&first_due_sql(""))
}

/// When the next pending firing of an event in a live project becomes due after `now`. Those that are due already may
/// wait for a long time.
pub fn next_due_after(tx: &mut Tx<'_>, now: Timestamp) -> Result<Option<Timestamp>> {
    min_due(tx, &next_due_after_sql(), &[Param::from(now)])
}

/// The statement of [`next_due_after`].
pub fn next_due_after_sql() -> String {
    min_due_sql(&first_due_sql(" AND f.due_at > $1"))
}

fn min_due_sql(first_due: &str) -> String {
    format!(
        "{WAITING_PROJECTS} SELECT min({first_due}) FROM waiting AS w
         CROSS JOIN projects AS p
         WHERE p.id = w.project_id AND p.deleted_at IS NULL"
    )
}

fn min_due(tx: &mut Tx<'_>, sql: &str, params: &[Param<'_>]) -> Result<Option<Timestamp>> {
    Ok(tx.query_opt(sql, params, |row| row.get::<Option<Timestamp>>(0))?.flatten())
}

/// The most pending firings of one kind of event that are counted. It keeps a scrape of the metrics short, however many
/// wait.
pub const MAX_COUNTED: i64 = 10_000;

/// The number of pending firings of events in live projects, by the kind of event, of each at most [`MAX_COUNTED`].
/// Kinds without firings are left out. So are kinds that this version does not know.
pub fn count_waiting(tx: &mut Tx<'_>) -> Result<Vec<(EventKind, i64)>> {
    count_by_event(tx, &count_waiting_sql(), None)
}

/// The statement that counts the pending firings of one kind of event.
pub fn count_waiting_sql() -> String {
    // The firings of projects that are deleted stay until these are removed.
    let in_live_project =
        "(SELECT p.id FROM projects AS p WHERE p.id = f.project_id AND p.deleted_at IS NULL) IS NOT NULL";
    count_pending_sql(in_live_project)
}

/// Like [`count_waiting`], but only in one project.
pub(crate) fn count_waiting_in(tx: &mut Tx<'_>, project: ProjectId) -> Result<Vec<(EventKind, i64)>> {
    count_by_event(tx, &count_pending_sql("f.project_id = $2"), Some(project))
}

fn count_pending_sql(condition: &str) -> String {
    format!(
        "SELECT count(*) FROM (
             SELECT 1 FROM trigger_firings AS f
             WHERE f.event = $1 AND f.status = 'pending' AND f.entity_id IS NOT NULL AND {condition}
             LIMIT {MAX_COUNTED}) AS waiting"
    )
}

fn count_by_event(tx: &mut Tx<'_>, sql: &str, project: Option<ProjectId>) -> Result<Vec<(EventKind, i64)>> {
    let mut counts = Vec::new();
    for event in EventKind::ALL {
        let mut params = vec![Param::from(*event)];
        params.extend(project.map(Param::from));
        let count: i64 = tx.query_opt(sql, &params, |row| row.get(0))?.unwrap_or(0);
        if count > 0 {
            counts.push((*event, count));
        }
    }
    Ok(counts)
}

/// Settles firings and returns how many were still pending. Settled firings do not change.
pub fn settle(
    tx: &mut Tx<'_>,
    ids: &[FiringId],
    status: FiringStatus,
    reason: Option<&str>,
    run: Option<RunId>,
    now: Timestamp,
) -> Result<u64> {
    let mut settled = 0;
    for list in page::in_chunks(ids) {
        let sql = format!(
            "UPDATE trigger_firings SET status = $1, reason = $2, run_id = $3, settled_at = $4
             WHERE status = 'pending' AND id IN ({})",
            page::placeholders(5, list.len())
        );
        let mut params =
            vec![Param::from(status.as_str()), Param::from(reason), Param::from(run), Param::from(now)];
        params.extend(list.into_iter().map(Param::from));
        settled += tx.execute(&sql, &params)?;
    }
    Ok(settled)
}

/// Settles firings that started a workflow together.
pub fn settle_with_workflow(
    tx: &mut Tx<'_>,
    ids: &[FiringId],
    workflow: WorkflowId,
    now: Timestamp,
) -> Result<()> {
    settle(tx, ids, FiringStatus::Admitted, None, None, now)?;
    for list in page::in_chunks(ids) {
        let sql = format!(
            "UPDATE trigger_firings SET workflow_id = $1 WHERE id IN ({})",
            page::placeholders(2, list.len())
        );
        let mut params = vec![Param::from(workflow)];
        params.extend(list.into_iter().map(Param::from));
        tx.execute(&sql, &params)?;
    }
    Ok(())
}

/// Skips all pending firings of all projects, and returns how many there were.
pub fn skip_pending(tx: &mut Tx<'_>, reason: &str, now: Timestamp) -> Result<u64> {
    let sql = "UPDATE trigger_firings SET status = 'skipped', reason = $1, settled_at = $2 WHERE status = 'pending'";
    tx.execute(sql, &[Param::from(reason), Param::from(now)])
}

/// Which firings to list; a field that is `None` matches all.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct FiringFilter {
    pub agent: Option<AgentId>,
    pub status: Option<FiringStatus>,
}

/// A firing with the name of its agent, which may be deleted.
#[derive(Debug, Clone, PartialEq)]
pub struct ListedFiring {
    pub firing: Firing,
    pub agent_name: String,
}

/// The firings of a project, newest first.
pub fn list(
    tx: &mut Tx<'_>,
    project: ProjectId,
    filter: &FiringFilter,
    page: &Page,
) -> Result<ResultPage<ListedFiring>> {
    let mut params = vec![Param::from(project)];
    let (after, values) = page::after_cursor_sql(page, "created_at", "id", 2);
    params.extend(values);
    let mut conditions = String::new();
    if let Some(agent) = filter.agent {
        params.push(Param::from(agent));
        conditions.push_str(&format!(" AND agent_id = ${}", params.len()));
    }
    if let Some(status) = filter.status {
        params.push(Param::from(status.as_str()));
        conditions.push_str(&format!(" AND status = ${}", params.len()));
    }
    let sql = format!(
        "SELECT (SELECT a.name FROM agent_definitions AS a WHERE a.id = trigger_firings.agent_id), {COLUMNS}
         FROM trigger_firings WHERE project_id = $1{after}{conditions} ORDER BY created_at DESC, id DESC{}",
        page::limit_sql(page)
    );
    let read = |row: &Row<'_>| {
        let agent_name = row.get::<Option<String>>(0)?.unwrap_or_default();
        Ok(ListedFiring { firing: Firing::from_row_at(row, 1)?, agent_name })
    };
    page::query_page(tx, page.limit, &sql, &params, read, |listed| Cursor {
        created_at: listed.firing.created_at,
        id: listed.firing.id.0,
    })
}
