//! The standing workflow of a project. A unique index allows one at a time.

use emergent_domain::{
    ids::{ProjectId, WorkflowId},
    workflow::Workflow,
};

use super::{CLAIMABLE_CHANNEL, COLUMNS};
use crate::{error::Result, params, row::TableRow, tx::Tx, value::Param};

/// Inserts the workflow that takes the new tasks of a project that belong to no workflow.
pub fn insert_standing(tx: &mut Tx<'_>, workflow: &Workflow) -> Result<()> {
    let more = [("lease_until", Param::from(workflow.created_at)), ("standing", Param::from(true))];
    tx.insert_row(workflow, more, "")?;
    tx.wake(CLAIMABLE_CHANNEL)
}

/// The running workflow that takes the new tasks of a project, locked until the transaction ends.
pub fn lock_standing(tx: &mut Tx<'_>, project: ProjectId) -> Result<Option<Workflow>> {
    let sql = format!(
        "SELECT {COLUMNS} FROM workflows WHERE project_id = $1 AND standing AND status = 'running'{}",
        tx.for_update()
    );
    tx.query_opt(&sql, params![project], Workflow::from_row)
}

/// Makes a standing workflow an ordinary one, so that another one can take new tasks.
pub fn end_standing(tx: &mut Tx<'_>, id: WorkflowId) -> Result<()> {
    tx.execute("UPDATE workflows SET standing = $2 WHERE id = $1", params![id, false])?;
    Ok(())
}
