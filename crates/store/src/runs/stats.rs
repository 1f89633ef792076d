//! Counts the runs of a project in a time: by status, agent and hour.

use emergent_domain::{
    ids::{AgentId, ProjectId},
    run::RunStatus,
    time::Timestamp,
};

use crate::{engine::Engine, error::Result, params, tx::Tx};

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
