//! How far workflows are, and what they have spent, for lists.

use std::collections::HashMap;

use emergent_domain::{
    ids::{ProjectId, WorkflowId},
    task::TaskStatus,
    workflow::Amount,
};

use crate::{
    error::Result,
    page,
    tasks::IS_LIVE_TASK,
    tx::Tx,
    value::{Param, Row},
};

/// How many tasks of a workflow have each status, and what it has spent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WorkflowProgress {
    /// Statuses that no task has are left out.
    pub tasks: Vec<(TaskStatus, i64)>,
    pub spent: Amount,
    /// Of model calls that are under way.
    pub reserved: Amount,
}

/// The progress of each of these workflows; one without tasks and spend is left out.
pub fn progress(
    tx: &mut Tx<'_>,
    project: ProjectId,
    ids: &[WorkflowId],
) -> Result<HashMap<WorkflowId, WorkflowProgress>> {
    let mut progress: HashMap<WorkflowId, WorkflowProgress> = HashMap::new();
    for list in page::in_chunks(ids) {
        let placeholders = page::placeholders(2, list.len());
        let sql = format!(
            "SELECT t.properties->>'workflow_id', COALESCE(t.properties->>'status', 'pending'), count(*)
             FROM graph_objects AS t
             WHERE t.project_id = $1 AND t.properties->>'workflow_id' IN ({placeholders}) AND {IS_LIVE_TASK}
             GROUP BY 1, 2 ORDER BY 1, 2"
        );
        let mut params = vec![Param::from(project)];
        params.extend(list.iter().map(|id| Param::from(id.to_string())));
        let read = |row: &Row<'_>| {
            Ok((row.get::<String>(0)?, row.read(1, "graph_objects", "properties")?, row.get(2)?))
        };
        for (id, status, count) in tx.query(&sql, &params, read)? {
            if let Ok(id) = id.parse() {
                progress.entry(id).or_default().tasks.push((status, count));
            }
        }
        let sql = format!(
            "SELECT workflow_id, CAST(sum(microusd) AS bigint), CAST(sum(tokens) AS bigint),
                 CAST(sum(CASE WHEN status = 'reserved' THEN reserved_microusd ELSE 0 END) AS bigint),
                 CAST(sum(CASE WHEN status = 'reserved' THEN reserved_tokens ELSE 0 END) AS bigint)
             FROM model_calls WHERE project_id = $1 AND workflow_id IN ({placeholders}) GROUP BY workflow_id"
        );
        let mut params = vec![Param::from(project)];
        params.extend(list.into_iter().map(Param::from));
        let read = |row: &Row<'_>| {
            let spent = Amount { microusd: row.get(1)?, tokens: row.get(2)? };
            Ok((row.get(0)?, spent, Amount { microusd: row.get(3)?, tokens: row.get(4)? }))
        };
        for (id, spent, reserved) in tx.query(&sql, &params, read)? {
            let one: &mut WorkflowProgress = progress.entry(id).or_default();
            (one.spent, one.reserved) = (spent, reserved);
        }
    }
    Ok(progress)
}
