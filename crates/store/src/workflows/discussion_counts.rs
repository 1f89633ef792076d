//! How many discussions were started, by the events of a workflow. Events are only added, whatever happens to the objects
//! of the discussions in the graph.

use emergent_domain::ids::{ObjectId, WorkflowId};

use crate::{error::Result, params, tx::Tx};

/// How many discussions were started for the current attempt at a task.
pub fn count_discussions(tx: &mut Tx<'_>, id: WorkflowId, task: ObjectId) -> Result<i64> {
    let sql = "SELECT count(*) FROM workflow_events
               WHERE workflow_id = $1 AND task_id = $2 AND type = 'discussion_started' AND seq > COALESCE(
                   (SELECT max(seq) FROM workflow_events
                    WHERE workflow_id = $1 AND task_id = $2 AND type = 'task_started'), 0)";
    Ok(tx.query_opt(sql, params![id, task], |row| row.get(0))?.unwrap_or(0))
}
