//! The limits of what may be spent: by a workflow in total, and by a project or one of its agents per day.

use emergent_domain::{
    ids::{ProjectId, RunId, WorkflowId},
    run::RunTerms,
    time::Timestamp,
    workflow::{Limit, WorkflowSettings},
};

use super::{BUDGET_KINDS, BudgetKind, DayStart, MAX_BUDGET_RUNS};
use crate::{
    error::Result,
    params,
    row::{TableRow, read_row},
    tx::Tx,
    value::Row,
};

read_row! {
    Limit in "budget_limits" { microusd: "microusd", tokens: "tokens" }
}

const LIMIT_COLUMNS: &str = Limit::COLUMNS;

/// The limits that apply to a model call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limits {
    pub workflow: Limit,
    pub project_day: Limit,
    pub agent_day: Limit,
    /// The limits of the runs in `NewModelCall::budget_runs`, in their order.
    pub runs: [Limit; MAX_BUDGET_RUNS],
}

impl Limits {
    /// The limits of a day, without any other limit.
    pub fn from_day(day: DayLimits) -> Self {
        Self { project_day: day.project, agent_day: day.agent, ..Self::default() }
    }

    pub fn get(&self, kind: BudgetKind) -> Limit {
        match kind {
            BudgetKind::Workflow => self.workflow,
            BudgetKind::ProjectDay => self.project_day,
            BudgetKind::AgentDay => self.agent_day,
            BudgetKind::Run(index) => self.runs.get(index).copied().unwrap_or_default(),
        }
    }

    /// The kinds that have a limit.
    pub fn kinds(&self) -> Vec<BudgetKind> {
        BUDGET_KINDS.into_iter().filter(|kind| !self.get(*kind).is_unlimited()).collect()
    }
}

/// The limits of a model call by an agent, which may belong to a workflow. `runs` are those whose limits
/// apply.
pub fn limits_for(
    tx: &mut Tx<'_>,
    project: ProjectId,
    workflow: Option<WorkflowId>,
    agent: &str,
    runs: &[RunId],
) -> Result<Limits> {
    let day = day_limits(tx, project, agent)?;
    let workflow = match workflow {
        Some(id) => workflow_limit(tx, project, id)?,
        None => Limit::default(),
    };
    Ok(Limits { workflow, runs: run_limits(tx, project, runs)?, ..Limits::from_day(day) })
}

/// The limits of a day.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DayLimits {
    pub project: Limit,
    pub agent: Limit,
}

/// The limits of a project and of one of its agents per day.
pub fn day_limits(tx: &mut Tx<'_>, project: ProjectId, agent: &str) -> Result<DayLimits> {
    let mut limits = DayLimits::default();
    let rows = tx.query(
        &format!(
            "SELECT agent, {LIMIT_COLUMNS} FROM budget_limits WHERE project_id = $1 AND agent IN ('', $2)"
        ),
        params![project, agent],
        from_row,
    )?;
    for (agent, limit) in rows {
        // The limit of the project has an empty agent name.
        if agent.is_empty() {
            limits.project = limit;
        } else {
            limits.agent = limit;
        }
    }
    Ok(limits)
}

/// The limit of a workflow.
pub fn workflow_limit(tx: &mut Tx<'_>, project: ProjectId, id: WorkflowId) -> Result<Limit> {
    let sql = "SELECT settings FROM workflows WHERE id = $1 AND coalesce(project_id = $2, false)";
    let read = |row: &Row<'_>| row.read::<WorkflowSettings>(0, "workflows", "settings");
    Ok(tx.query_opt(sql, params![id, project], read)?.map(|settings| settings.budget).unwrap_or_default())
}

/// The limits of runs, in their order.
pub fn run_limits(tx: &mut Tx<'_>, project: ProjectId, runs: &[RunId]) -> Result<[Limit; MAX_BUDGET_RUNS]> {
    let mut limits = [Limit::default(); MAX_BUDGET_RUNS];
    for (limit, run) in limits.iter_mut().zip(runs) {
        let sql = "SELECT terms FROM agent_runs WHERE id = $1 AND coalesce(project_id = $2, false)";
        let read = |row: &Row<'_>| row.read::<RunTerms>(0, "agent_runs", "terms");
        *limit =
            tx.query_opt(sql, params![*run, project], read)?.map(|terms| terms.limit).unwrap_or_default();
    }
    Ok(limits)
}

/// Reads the name of an agent, which is empty for the project, and its limit.
fn from_row(row: &Row<'_>) -> Result<(String, Limit)> {
    Ok((row.get(0)?, Limit::from_row_at(row, 1)?))
}

/// What a project, or one of its agents, may spend per day; unlimited if no limit is set.
pub fn get_day_limit(tx: &mut Tx<'_>, project: ProjectId, agent: Option<&str>) -> Result<Limit> {
    let sql =
        format!("SELECT agent, {LIMIT_COLUMNS} FROM budget_limits WHERE project_id = $1 AND agent = $2");
    let row = tx.query_opt(&sql, params![project, agent.unwrap_or_default()], from_row)?;
    Ok(row.map(|(_, limit)| limit).unwrap_or_default())
}

/// Sets what a project, or one of its agents, may spend per day. What was spent before on the day of `start` counts.
pub fn set_day_limit(tx: &mut Tx<'_>, start: &DayStart, limit: Limit, now: Timestamp) -> Result<()> {
    start.add_to_counter(tx)?;
    tx.execute(
        "INSERT INTO budget_limits (project_id, agent, microusd, tokens, updated_at) VALUES ($1, $2, $3, $4, $5)
         ON CONFLICT (project_id, agent) DO UPDATE
         SET microusd = excluded.microusd, tokens = excluded.tokens, updated_at = excluded.updated_at",
        params![start.project(), start.agent_name(), limit.microusd, limit.tokens, now],
    )?;
    Ok(())
}

/// Removes the daily limit of a project, or of one of its agents.
pub fn remove_day_limit(tx: &mut Tx<'_>, project: ProjectId, agent: Option<&str>) -> Result<()> {
    tx.execute(
        "DELETE FROM budget_limits WHERE project_id = $1 AND agent = $2",
        params![project, agent.unwrap_or_default()],
    )?;
    Ok(())
}

/// Every daily limit of a project with the agent it applies to; `None` is the project itself and comes first.
pub fn list_day_limits(tx: &mut Tx<'_>, project: ProjectId) -> Result<Vec<(Option<String>, Limit)>> {
    let sql =
        format!("SELECT agent, {LIMIT_COLUMNS} FROM budget_limits WHERE project_id = $1 ORDER BY agent");
    let rows = tx.query(&sql, params![project], from_row)?;
    Ok(rows.into_iter().map(|(agent, limit)| (Some(agent).filter(|name| !name.is_empty()), limit)).collect())
}
