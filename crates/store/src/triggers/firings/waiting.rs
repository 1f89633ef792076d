//! The pending firings of events of all projects: which projects have due ones, when the next is due, and how many wait.

use emergent_domain::{ids::ProjectId, time::Timestamp, trigger::EventKind};

use crate::{error::Result, tx::Tx, value::Param};

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
pub(in crate::triggers) fn projects_with_due(tx: &mut Tx<'_>, now: Timestamp) -> Result<Vec<ProjectId>> {
    tx.query(&projects_with_due_sql(), &[Param::from(now)], |row| row.get(0))
}

/// The statement of [`projects_with_due`]. With a CROSS JOIN, SQLite keeps the order of the tables: few projects have firings that wait, and all would be read otherwise.
pub(super) fn projects_with_due_sql() -> String {
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
pub(super) fn next_due_at_sql() -> String {
    min_due_sql(&first_due_sql(""))
}

/// When the next pending firing of an event in a live project becomes due after `now`. Those that are due already may
/// wait for a long time.
pub fn next_due_after(tx: &mut Tx<'_>, now: Timestamp) -> Result<Option<Timestamp>> {
    min_due(tx, &next_due_after_sql(), &[Param::from(now)])
}

/// The statement of [`next_due_after`].
pub(super) fn next_due_after_sql() -> String {
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
pub(super) fn count_waiting_sql() -> String {
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
