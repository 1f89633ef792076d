//! What was spent, by workflow, task, agent and day.

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

/// What a workflow has spent and reserved so far. The shares of its tasks, and those of its agents, each sum
/// up to it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct WorkflowSpend {
    pub spent: Amount,
    /// The reservations of calls under way.
    pub reserved: Amount,
    pub by_task: Vec<SpendShare<Option<ObjectId>>>,
    pub by_agent: Vec<SpendShare<String>>,
    /// How many calls had no known price. They count with their tokens and without money.
    pub unpriced: i64,
    /// How many calls were lost: their answer was never recorded, and their reservation counts as spent.
    pub lost: i64,
}

/// The share of one task or agent. The calls of planners and selectors belong to no task; their key is
/// `None`.
#[derive(Debug, Clone, PartialEq)]
pub struct SpendShare<K> {
    pub key: K,
    pub spent: Amount,
    pub reserved: Amount,
}

/// The sums over the calls of one agent for one task.
struct SpendRow {
    task: Option<ObjectId>,
    agent: String,
    amounts: Counter,
    unpriced: i64,
    lost: i64,
}

read_row! {
    SpendRow in "model_calls" {
        task: "task_id",
        agent: "agent",
        amounts: Counter {
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

/// What a workflow has spent, in total and by task and agent.
pub fn workflow_spend(tx: &mut Tx<'_>, project: ProjectId, workflow: WorkflowId) -> Result<WorkflowSpend> {
    let sql = format!(
        "SELECT {} FROM model_calls WHERE workflow_id = $1 AND project_id = $2 GROUP BY task_id, agent",
        SpendRow::COLUMNS
    );
    let mut workflow_total = WorkflowSpend::default();
    let mut by_task: BTreeMap<Option<ObjectId>, Counter> = BTreeMap::new();
    let mut by_agent: BTreeMap<String, Counter> = BTreeMap::new();
    for row in tx.query(&sql, params![workflow, project], SpendRow::from_row)? {
        let SpendRow { task, agent, amounts, unpriced, lost } = row;
        workflow_total.spent = workflow_total.spent + amounts.spent;
        workflow_total.reserved = workflow_total.reserved + amounts.reserved;
        workflow_total.unpriced += unpriced;
        workflow_total.lost += lost;
        add(by_task.entry(task).or_default(), amounts);
        add(by_agent.entry(agent).or_default(), amounts);
    }
    workflow_total.by_task = shares(by_task);
    workflow_total.by_agent = shares(by_agent);
    Ok(workflow_total)
}

fn add(sum: &mut Counter, amounts: Counter) {
    sum.spent = sum.spent + amounts.spent;
    sum.reserved = sum.reserved + amounts.reserved;
}

fn shares<K>(sums: BTreeMap<K, Counter>) -> Vec<SpendShare<K>> {
    sums.into_iter().map(|(key, Counter { spent, reserved })| SpendShare { key, spent, reserved }).collect()
}

/// The counters of a day for the project and each agent that has or had a limit; `None` is the project.
pub fn day_counters(tx: &mut Tx<'_>, project: ProjectId, day: i64) -> Result<Vec<(Option<String>, Counter)>> {
    let project_counter = format!("day:{day}");
    let agent_prefix = format!("{project_counter}:");
    let counters = tx.query(
        &format!(
            "SELECT name, {} FROM budget_counters
             WHERE project_id = $1 AND (name = $2 OR name LIKE $3) ORDER BY name",
            Counter::COLUMNS
        ),
        params![project, &project_counter, format!("{agent_prefix}%")],
        |row| Ok((row.get::<String>(0)?, Counter::from_row_at(row, 1)?)),
    )?;
    let agent = |name: String| name.strip_prefix(&agent_prefix).map(str::to_owned);
    Ok(counters.into_iter().map(|(name, counter)| (agent(name), counter)).collect())
}
