//! What waits and runs in one project, for the metrics that a token of that project may read.

use emergent_domain::{
    ids::ProjectId,
    trigger::EventKind,
    workflow::{Workflow, WorkflowStatus},
};

use crate::{error::Result, params, row::TableRow, runs, triggers::firings, tx::Tx};

/// The most active rows of all projects that are counted. It keeps a scrape short, and no queue is longer.
const MAX_ROWS: usize = 100_000;

/// The counts of one project, of all servers.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ProjectCounts {
    pub queued_runs: i64,
    pub running_runs: i64,
    /// A status without workflows is absent.
    pub active_workflows: Vec<(WorkflowStatus, i64)>,
    pub waiting_schedules: i64,
    /// Of each kind at most [`firings::MAX_COUNTED`]. A kind without firings is absent.
    pub waiting_events: Vec<(EventKind, i64)>,
    pub embedding_queue: i64,
}

/// Counts for a project. The active rows are selected first, because they are few and have an index; a
/// project may have many rows that have ended.
pub fn load(tx: &mut Tx<'_>, project: ProjectId) -> Result<ProjectCounts> {
    Ok(ProjectCounts {
        queued_runs: runs::count_project_queued(tx, project, MAX_ROWS)?,
        running_runs: count_running(tx, project)?,
        active_workflows: tx.query(
            "SELECT status, count(*) FROM
                 (SELECT project_id, status FROM workflows WHERE status IN ('planning', 'running') LIMIT $2) AS active
             WHERE project_id = $1 GROUP BY status",
            params![project, MAX_ROWS],
            |row| Ok((row.read(0, Workflow::TABLE, "status")?, row.get(1)?)),
        )?,
        waiting_schedules: count(
            tx,
            "SELECT count(*) FROM schedules
             WHERE project_id = $1 AND next_at IS NOT NULL AND waiting_since IS NOT NULL",
            project,
        )?,
        waiting_events: firings::count_waiting_in(tx, project)?,
        embedding_queue: count(tx, "SELECT count(*) FROM embedding_queue WHERE project_id = $1", project)?,
    })
}

/// The runs of all projects that are running have an index, and are as few as the servers have slots.
pub(crate) fn count_running(tx: &mut Tx<'_>, project: ProjectId) -> Result<i64> {
    let sql =
        "SELECT count(*) FROM (SELECT project_id FROM agent_runs WHERE status = 'running' LIMIT $2) AS active
               WHERE project_id = $1";
    Ok(tx.query_opt(sql, params![project, MAX_ROWS], |row| row.get(0))?.unwrap_or(0))
}

fn count(tx: &mut Tx<'_>, sql: &str, project: ProjectId) -> Result<i64> {
    Ok(tx.query_opt(sql, params![project], |row| row.get(0))?.unwrap_or(0))
}
