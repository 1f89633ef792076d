//! What was spent, and by whom.

use std::collections::BTreeMap;

use emergent_domain::{
    ids::{ObjectId, ProjectId, WorkflowId},
    workflow::Amount,
};

use super::Counter;
use crate::{
    error::Result,
    params,
    row::{TableRow, read_row},
    tx::Tx,
};

/// What a workflow came to so far. The shares of its tasks, and those of its agents, sum up to it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct WorkflowSpend {
    pub spent: Amount,
    /// Of calls under way.
    pub reserved: Amount,
    pub by_task: Vec<SpendShare<Option<ObjectId>>>,
    pub by_agent: Vec<SpendShare<String>>,
    /// Calls whose price was not known: they count as no money, but with their tokens.
    pub unpriced: i64,
    /// Calls whose answer never came to be recorded: they count in full.
    pub lost: i64,
}

/// What one task, one agent has of it. Planning and choosing belong to no task.
#[derive(Debug, Clone, PartialEq)]
pub struct SpendShare<K> {
    pub key: K,
    pub spent: Amount,
    pub reserved: Amount,
}

/// The calls of one agent for one task.
struct SpendRow {
    task: Option<ObjectId>,
    agent: String,
    part: Counter,
    unpriced: i64,
    lost: i64,
}

read_row! {
    SpendRow in "model_calls" {
        task: "task_id",
        agent: "agent",
        part: Counter {
            spent: Amount {
                microusd: "CAST(sum(microusd) AS bigint)",
                tokens: "CAST(sum(tokens) AS bigint)",
            },
            reserved: Amount {
                microusd: "CAST(sum(CASE WHEN status = 'reserved' THEN reserved_microusd ELSE 0 END) AS bigint)",
                tokens: "CAST(sum(CASE WHEN status = 'reserved' THEN reserved_tokens ELSE 0 END) AS bigint)",
            },
        },
        unpriced: "CAST(sum(CASE WHEN priced THEN 0 ELSE 1 END) AS bigint)",
        lost: "CAST(sum(CASE WHEN status = 'lost' THEN 1 ELSE 0 END) AS bigint)",
    }
}

pub fn workflow_spend(tx: &mut Tx<'_>, project: ProjectId, workflow: WorkflowId) -> Result<WorkflowSpend> {
    let sql = format!(
        "SELECT {} FROM model_calls WHERE workflow_id = $1 AND project_id = $2 GROUP BY task_id, agent",
        SpendRow::COLUMNS
    );
    let mut whole = WorkflowSpend::default();
    let mut by_task: BTreeMap<Option<ObjectId>, Counter> = BTreeMap::new();
    let mut by_agent: BTreeMap<String, Counter> = BTreeMap::new();
    for row in tx.query(&sql, params![workflow, project], SpendRow::from_row)? {
        let SpendRow { task, agent, part, unpriced, lost } = row;
        whole.spent = whole.spent + part.spent;
        whole.reserved = whole.reserved + part.reserved;
        whole.unpriced += unpriced;
        whole.lost += lost;
        add(by_task.entry(task).or_default(), part);
        add(by_agent.entry(agent).or_default(), part);
    }
    whole.by_task = shares(by_task);
    whole.by_agent = shares(by_agent);
    Ok(whole)
}

fn add(sum: &mut Counter, part: Counter) {
    sum.spent = sum.spent + part.spent;
    sum.reserved = sum.reserved + part.reserved;
}

fn shares<K>(sums: BTreeMap<K, Counter>) -> Vec<SpendShare<K>> {
    sums.into_iter()
        .map(|(of, Counter { spent, reserved })| SpendShare { key: of, spent, reserved })
        .collect()
}

/// Returns the counters of a day for every scope that has or had a limit.
pub fn day_counters(tx: &mut Tx<'_>, project: ProjectId, day: i64) -> Result<Vec<(Option<String>, Counter)>> {
    let whole = format!("day:{day}");
    let agents = format!("{whole}:");
    let found = tx.query(
        &format!(
            "SELECT name, {} FROM budget_counters
             WHERE project_id = $1 AND (name = $2 OR name LIKE $3) ORDER BY name",
            Counter::COLUMNS
        ),
        params![project, &whole, format!("{agents}%")],
        |row| Ok((row.get::<String>(0)?, Counter::from_row_at(row, 1)?)),
    )?;
    let agent = |name: String| name.strip_prefix(&agents).map(str::to_owned);
    Ok(found.into_iter().map(|(name, counter)| (agent(name), counter)).collect())
}
