//! Which workflows are active: planned or driven.

use emergent_domain::{
    ids::{ProjectId, ScheduleId},
    workflow::{Workflow, WorkflowStatus},
};

use crate::{error::Result, params, row::TableRow, tx::Tx};

/// Whether a workflow that this schedule started is active. The caller has locked the schedule.
pub fn has_active_for_schedule(tx: &mut Tx<'_>, schedule: ScheduleId) -> Result<bool> {
    let sql = "SELECT 1 FROM workflows WHERE schedule_id = $1 AND status IN ('planning', 'running') LIMIT 1";
    Ok(tx.query_opt(sql, params![schedule], |_| Ok(()))?.is_some())
}

/// How many workflows of a project are active.
pub fn count_active_in(tx: &mut Tx<'_>, project: ProjectId) -> Result<i64> {
    let sql = "SELECT count(*) FROM workflows WHERE project_id = $1 AND status IN ('planning', 'running')";
    Ok(tx.query_opt(sql, params![project], |row| row.get(0))?.unwrap_or(0))
}

/// How many workflows of all projects are active, by status.
pub fn count_active(tx: &mut Tx<'_>) -> Result<Vec<(WorkflowStatus, i64)>> {
    let sql =
        "SELECT status, count(*) FROM workflows WHERE status IN ('planning', 'running') GROUP BY status";
    tx.query(sql, params![], |row| Ok((row.read(0, Workflow::TABLE, "status")?, row.get(1)?)))
}
