//! The sessions of attempts whose run has ended although they say that it goes on.

use emergent_domain::{
    ids::{ObjectId, RunId, WorkflowId},
    run::RunStatus,
};

use crate::{Result, Tx, params};

/// A session that says that its run goes on, with the newest run that it belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenSession {
    pub session: ObjectId,
    pub run: RunId,
    pub status: RunStatus,
}

/// Lists at most `limit` sessions of a workflow that are active although all of their runs have ended.
pub fn list_open_sessions(tx: &mut Tx<'_>, id: WorkflowId, limit: usize) -> Result<Vec<OpenSession>> {
    tx.query(
        "SELECT r.session_id, r.id, r.status FROM agent_runs AS r
         WHERE r.workflow_id = $1 AND r.status NOT IN ('queued', 'running', 'waiting')
             AND (SELECT o.deleted_at IS NULL AND o.properties->>'status' = 'active'
                  FROM graph_objects AS o WHERE o.id = r.session_id)
             AND NOT EXISTS (SELECT 1 FROM agent_runs AS later
                 WHERE later.workflow_id = $1 AND later.session_id = r.session_id
                     AND (later.created_at, later.id) > (r.created_at, r.id))
         ORDER BY r.created_at, r.id LIMIT $2",
        params![id, i64::try_from(limit).unwrap_or(i64::MAX)],
        |row| Ok(OpenSession { session: row.get(0)?, run: row.get(1)?, status: row.get(2)? }),
    )
}
