//! Counts the runs of a project: those of a time by status, agent and hour, and those that have not ended.

use emergent_domain::{
    ids::{AgentId, ProjectId},
    run::RunStatus,
    time::Timestamp,
};

use crate::{engine::Engine, error::Result, params, project_counts, runs, tx::Tx};

/// How many runs of an agent have a status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentCount {
    pub agent: AgentId,
    /// The name that the agent had in one of the runs.
    pub name: String,
    pub status: RunStatus,
    pub runs: i64,
}

/// How many runs that were created in an hour have a status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HourCount {
    /// When the hour began.
    pub hour: Timestamp,
    pub status: RunStatus,
    pub runs: i64,
}

/// The runs that were created from `since` on and before `until`, by agent and status.
pub fn count_by_agent(
    tx: &mut Tx<'_>,
    project: ProjectId,
    since: Timestamp,
    until: Timestamp,
) -> Result<Vec<AgentCount>> {
    let sql = "SELECT agent_id, max(agent_name), status, count(*) FROM agent_runs
               WHERE project_id = $1 AND created_at >= $2 AND created_at < $3 GROUP BY agent_id, status";
    tx.query(sql, params![project, since, until], |row| {
        Ok(AgentCount {
            agent: row.get(0)?,
            name: row.get(1)?,
            status: row.read(2, "agent_runs", "status")?,
            runs: row.get(3)?,
        })
    })
}

/// The same runs by hour and status, the oldest hour first. Hours without runs are left out.
pub fn count_by_hour(
    tx: &mut Tx<'_>,
    project: ProjectId,
    since: Timestamp,
    until: Timestamp,
) -> Result<Vec<HourCount>> {
    let hour = match tx.engine() {
        Engine::Sqlite => "created_at / 3600000000 * 3600000000",
        Engine::Postgres => "date_trunc('hour', created_at, 'UTC')",
    };
    let sql = format!(
        "SELECT {hour}, status, count(*) FROM agent_runs
         WHERE project_id = $1 AND created_at >= $2 AND created_at < $3 GROUP BY 1, 2 ORDER BY 1, 2"
    );
    tx.query(&sql, params![project, since, until], |row| {
        Ok(HourCount { hour: row.get(0)?, status: row.read(1, "agent_runs", "status")?, runs: row.get(2)? })
    })
}

/// The most runs with one status that are counted. It keeps the count short, and no queue is longer.
const MAX_ACTIVE: usize = 100_000;

/// How many runs are queued, running and waiting now, whenever they were created. The runs with each of these
/// statuses have an index, because they are few beside those that have ended.
pub fn count_active(tx: &mut Tx<'_>, project: ProjectId) -> Result<[(RunStatus, i64); 3]> {
    let sql = "SELECT count(*) FROM (
                   SELECT 1 FROM agent_runs WHERE status = 'waiting' AND project_id = $1 LIMIT $2) AS waiting";
    let waiting = tx.query_opt(sql, params![project, MAX_ACTIVE], |row| row.get(0))?.unwrap_or(0);
    Ok([
        (RunStatus::Queued, runs::count_project_queued(tx, project, MAX_ACTIVE)?),
        (RunStatus::Running, project_counts::count_running(tx, project)?),
        (RunStatus::Waiting, waiting),
    ])
}
