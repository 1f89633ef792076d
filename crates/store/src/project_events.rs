//! Reads what happens in a project: the change feed and the new statuses of runs, workflows and requests to people,
//! merged into one order. Triggers of the database write the statuses (migrations `project_events`, `chat`,
//! `inbox` and `approval_titles`), and [`crate::audit`] the changes of settings.

use emergent_domain::{
    change::FeedPosition,
    ids::ProjectId,
    project_event::{EventSubject, ProjectEvent, StatusEvent, StreamPosition},
    time::Timestamp,
};
use uuid::Uuid;

use crate::{
    engine::Engine,
    error::Result,
    feed::{self, STABLE_TXID},
    params,
    row::{TableRow, read_row},
    tx::Tx,
};

read_row! {
    StatusEvent in "project_events" {
        position: FeedPosition { txid: "txid", seq: "seq" },
        graph_seq: "graph_seq",
        project: "project_id",
        subject: "subject",
        subject_id: "subject_id",
        name: "name",
        status: "status",
        reason: "reason",
        parent: "parent_id",
        workflow: "workflow_id",
        title: "title",
        tool: "tool_name",
        expires_at: "expires_at",
        is_overdue: "is_overdue",
        at: "at",
    }
}

/// The channel that is woken when a run, a workflow or a request of a project has a new status.
pub fn channel(project: ProjectId) -> String {
    format!("stream:{project}")
}

/// Adds an event, in the transaction of what it tells of.
pub(crate) fn insert(
    tx: &mut Tx<'_>,
    project: ProjectId,
    subject: EventSubject,
    id: Uuid,
    name: &str,
    status: &str,
    at: Timestamp,
) -> Result<()> {
    let graph_seq = match tx.engine() {
        Engine::Sqlite => "coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'graph_events'), 0)",
        Engine::Postgres => "0",
    };
    let sql = format!(
        "INSERT INTO project_events (project_id, graph_seq, subject, subject_id, name, status, at)
         VALUES ($1, {graph_seq}, $2, $3, $4, $5, $6)"
    );
    tx.execute(&sql, params![project, subject.as_str(), id, name, status, at])?;
    tx.wake(&channel(project))
}

/// What a read returns.
#[derive(Debug, Clone, PartialEq)]
pub struct ProjectEvents {
    pub items: Vec<ProjectEvent>,
    /// Where the next read continues.
    pub position: StreamPosition,
}

/// The events of a project after a position in their order, at most `limit` of them.
pub fn read_after(
    tx: &mut Tx<'_>,
    project: ProjectId,
    after: StreamPosition,
    limit: usize,
) -> Result<ProjectEvents> {
    // Both lists are read from one snapshot. The first `limit` of each contain the first `limit` of both.
    let changes = feed::read_after(tx, project, after.graph, limit)?;
    let statuses = read_statuses(tx, project, after.status, limit)?;
    let was_cut = changes.items.len() + statuses.len() > limit;
    let mut items: Vec<ProjectEvent> = changes.items.into_iter().map(ProjectEvent::Graph).collect();
    items.extend(statuses.into_iter().map(ProjectEvent::Status));
    items.sort_by(ProjectEvent::order);
    items.truncate(limit);
    let mut position = items.iter().fold(after, StreamPosition::after);
    if !was_cut {
        // Is past the changes of other projects, so that they are not scanned again.
        position.graph = position.graph.max(changes.position);
    }
    Ok(ProjectEvents { items, position })
}

fn read_statuses(
    tx: &mut Tx<'_>,
    project: ProjectId,
    after: FeedPosition,
    limit: usize,
) -> Result<Vec<StatusEvent>> {
    let visible = match tx.engine() {
        Engine::Sqlite => String::new(),
        Engine::Postgres => format!(" AND {STABLE_TXID}"),
    };
    let sql = format!(
        "SELECT {} FROM project_events WHERE project_id = $1 AND (txid, seq) > ($2, $3){visible}
         ORDER BY txid, seq LIMIT $4",
        StatusEvent::COLUMNS
    );
    tx.query(&sql, params![project, after.txid, after.seq, limit], StatusEvent::from_row)
}

/// A position at or after everything of the project that a reader can see now.
pub fn latest(tx: &mut Tx<'_>, project: ProjectId) -> Result<StreamPosition> {
    let graph = feed::latest(tx, project)?;
    let visible = match tx.engine() {
        Engine::Sqlite => String::new(),
        Engine::Postgres => format!(" AND {STABLE_TXID}"),
    };
    let sql = format!(
        "SELECT txid, seq FROM project_events WHERE project_id = $1{visible} ORDER BY txid DESC, seq DESC LIMIT 1"
    );
    let newest =
        tx.query_opt(&sql, params![project], |row| Ok(FeedPosition { txid: row.get(0)?, seq: row.get(1)? }))?;
    // Without an event of its own, the project starts after everything that was deleted.
    let status = match newest {
        Some(position) => position,
        None => last_deleted(tx)?,
    };
    Ok(StreamPosition { graph, status })
}

/// Whether all statuses after a position are still stored.
pub fn is_complete_after(tx: &mut Tx<'_>, after: StreamPosition) -> Result<bool> {
    Ok(after.status >= last_deleted(tx)?)
}

/// The position of the newest status that was deleted.
fn last_deleted(tx: &mut Tx<'_>) -> Result<FeedPosition> {
    let sql = "SELECT txid, seq FROM project_events_end";
    let end = tx.query_opt(sql, params![], |row| Ok(FeedPosition { txid: row.get(0)?, seq: row.get(1)? }))?;
    Ok(end.unwrap_or_default())
}

/// Deletes up to `limit` of the oldest statuses of all projects that were written before a time, and returns how
/// many there were.
pub fn delete_before(tx: &mut Tx<'_>, before: Timestamp, limit: usize) -> Result<usize> {
    let sql =
        "SELECT txid, seq FROM (SELECT txid, seq, at FROM project_events ORDER BY seq LIMIT $1) AS oldest
               WHERE at < $2 ORDER BY seq";
    let oldest = tx
        .query(sql, params![limit, before], |row| Ok(FeedPosition { txid: row.get(0)?, seq: row.get(1)? }))?;
    let (Some(end), Some(last)) = (oldest.iter().max(), oldest.last()) else { return Ok(0) };
    tx.execute("DELETE FROM project_events WHERE seq <= $1 AND at < $2", params![last.seq, before])?;
    tx.execute(
        "UPDATE project_events_end SET txid = $1, seq = $2 WHERE (txid, seq) < ($1, $2)",
        params![end.txid, end.seq],
    )?;
    Ok(oldest.len())
}
