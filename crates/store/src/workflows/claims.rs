//! Claims workflows for a dispatcher.

use std::collections::HashMap;

use emergent_domain::{ids::ProjectId, time::Timestamp, workflow::Workflow};

use super::COLUMNS;
use crate::{error::Result, page, params, row::TableRow, tx::Tx, value::Param};

/// How many workflows a dispatcher claims at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimLimits {
    pub total: usize,
    /// The most workflows of one project that a dispatcher owns.
    pub per_project: usize,
    /// How many it owns already.
    pub owned: HashMap<ProjectId, usize>,
}

/// Claims workflows without a valid lease that this version can read, the longest waiting first.
pub fn claim(
    tx: &mut Tx<'_>,
    owner: &str,
    limits: &ClaimLimits,
    now: Timestamp,
    until: Timestamp,
) -> Result<Vec<Workflow>> {
    let (mut owned, mut claimed) = (limits.owned.clone(), Vec::new());
    while claimed.len() < limits.total {
        let is_full =
            |(project, count): (&ProjectId, &usize)| (*count >= limits.per_project).then_some(*project);
        let full: Vec<ProjectId> = owned.iter().filter_map(is_full).collect();
        let mut left_out = false;
        for mut workflow in lock_claimable(tx, &full, now, limits.total - claimed.len())? {
            let count = owned.entry(workflow.project).or_default();
            if *count >= limits.per_project {
                left_out = true;
                continue;
            }
            *count += 1;
            tx.execute(
                "UPDATE workflows SET owner = $2, lease_until = $3 WHERE id = $1",
                params![workflow.id, owner, until],
            )?;
            workflow.owner = Some(owner.to_owned());
            claimed.push(workflow);
        }
        // Workflows of a project that has become full were in the way of others.
        if !left_out {
            break;
        }
    }
    Ok(claimed)
}

/// Locks workflows without a valid lease, except those of the projects in `without`.
fn lock_claimable(
    tx: &mut Tx<'_>,
    without: &[ProjectId],
    now: Timestamp,
    limit: usize,
) -> Result<Vec<Workflow>> {
    let lock = tx.skip_locked();
    let mut params = vec![Param::from(now)];
    let projects = match without.len() {
        0 => String::new(),
        count => format!(" AND project_id NOT IN ({})", page::placeholders(2, count)),
    };
    params.extend(without.iter().copied().map(Param::from));
    let sql = |limit: &str, exclude: &str| {
        format!(
            "SELECT {COLUMNS} FROM workflows
             WHERE status IN ('planning', 'running') AND lease_until <= $1{projects}{exclude}
             ORDER BY lease_until LIMIT {limit}{lock}"
        )
    };
    tx.query_claimable::<Workflow, _>(&params, limit, sql, Workflow::from_row)
}
