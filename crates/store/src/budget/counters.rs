//! The counters of limits: how much was spent and is reserved under each.

use std::collections::BTreeMap;

use emergent_domain::{
    ids::{ProjectId, RunId, WorkflowId},
    workflow::Amount,
};

use super::{CallStatus, NewModelCall};
use crate::{
    error::Result,
    page, params,
    row::{TableRow, read_row},
    tx::Tx,
    value::Param,
};

/// How much was spent and is reserved under one limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counter {
    pub spent: Amount,
    pub reserved: Amount,
}

read_row! {
    Counter in "budget_counters" {
        spent: Amount { microusd: "spent_microusd", tokens: "spent_tokens" },
        reserved: Amount { microusd: "reserved_microusd", tokens: "reserved_tokens" },
    }
}

/// The number of limits of runs that can apply to one model call: those of a run, of the runs above it, and of
/// the runs that these resume.
pub const MAX_BUDGET_RUNS: usize = 8;

/// What a limit applies to: a workflow in total, a project per day, an agent per day, or a run with the runs
/// below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum BudgetKind {
    Workflow,
    ProjectDay,
    AgentDay,
    /// The run at this index of `NewModelCall::budget_runs`.
    Run(usize),
}

/// All kinds of limits.
pub const BUDGET_KINDS: [BudgetKind; 3 + MAX_BUDGET_RUNS] = [
    BudgetKind::Workflow,
    BudgetKind::ProjectDay,
    BudgetKind::AgentDay,
    BudgetKind::Run(0),
    BudgetKind::Run(1),
    BudgetKind::Run(2),
    BudgetKind::Run(3),
    BudgetKind::Run(4),
    BudgetKind::Run(5),
    BudgetKind::Run(6),
    BudgetKind::Run(7),
];

/// What the names of the counters of a model call are made of.
#[derive(Debug, Clone, Copy)]
pub(super) struct CounterKeys<'a> {
    pub workflow: Option<WorkflowId>,
    pub day: i64,
    pub agent: &'a str,
    pub runs: &'a [RunId],
}

impl BudgetKind {
    /// The bit of this kind in the column `counted` of a model call.
    pub(super) fn bit(self) -> i64 {
        match self {
            BudgetKind::Workflow => 1,
            BudgetKind::ProjectDay => 2,
            BudgetKind::AgentDay => 4,
            // The column `budget_runs` lists them.
            BudgetKind::Run(_) => 0,
        }
    }

    /// The name of the counter; `None` when the call has no such workflow or run.
    pub(super) fn counter_name(self, keys: CounterKeys<'_>) -> Option<String> {
        let CounterKeys { workflow, day, agent, runs } = keys;
        match self {
            BudgetKind::Workflow => workflow.map(|id| format!("workflow:{id}")),
            BudgetKind::ProjectDay => Some(format!("day:{day}")),
            BudgetKind::AgentDay => Some(format!("day:{day}:{agent}")),
            BudgetKind::Run(index) => runs.get(index).copied().map(run_counter_name),
        }
    }
}

fn run_counter_name(run: RunId) -> String {
    format!("run:{run}")
}

/// The counters that a model call is counted in.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Counters(pub(super) BTreeMap<BudgetKind, Counter>);

impl Counters {
    pub fn get(&self, kind: BudgetKind) -> Counter {
        self.0.get(&kind).copied().unwrap_or_default()
    }
}

impl FromIterator<(BudgetKind, Counter)> for Counters {
    fn from_iter<I: IntoIterator<Item = (BudgetKind, Counter)>>(counters: I) -> Self {
        Self(counters.into_iter().collect())
    }
}

/// Locks the counters of a model call until the transaction ends: those that exist, and those of the
/// `limited` kinds, which are created when they are missing. An existing counter counts even when its limit
/// was removed.
pub fn lock_counters(tx: &mut Tx<'_>, call: &NewModelCall, limited: &[BudgetKind]) -> Result<Counters> {
    if limited.contains(&BudgetKind::Workflow) {
        create_workflow_counter(tx, call)?;
    }
    let counters = lock_existing(tx, call)?;
    let missing: Vec<BudgetKind> =
        limited.iter().copied().filter(|kind| !counters.0.contains_key(kind)).collect();
    if missing.is_empty() {
        return Ok(counters);
    }
    for kind in missing {
        create_counter(tx, call, kind)?;
    }
    lock_existing(tx, call)
}

/// Reads the counters of a model call that exist, without locking them.
pub fn read_counters(tx: &mut Tx<'_>, call: &NewModelCall) -> Result<Counters> {
    select_counters(tx, call, "")
}

/// The name of the lock under which the counters of a project are created and its calls are counted.
pub(super) fn lock_name(project: ProjectId) -> String {
    format!("budget:{project}")
}

/// Locks the counters that exist. No counter of a day or of a workflow can be created until the transaction ends.
pub(super) fn lock_existing(tx: &mut Tx<'_>, call: &NewModelCall) -> Result<Counters> {
    tx.advisory_lock_shared(&lock_name(call.project))?;
    let lock = tx.for_update();
    select_counters(tx, call, lock)
}

/// Reads counters in the order of their names. `lock` is the lock clause of the query, or empty.
fn select_counters(tx: &mut Tx<'_>, call: &NewModelCall, lock: &str) -> Result<Counters> {
    let names: Vec<(BudgetKind, String)> = BUDGET_KINDS
        .into_iter()
        .filter_map(|kind| Some((kind, kind.counter_name(call.counter_keys())?)))
        .collect();
    let mut params = vec![Param::from(call.project)];
    // Always the same number of placeholders, so that one prepared statement serves calls with and without a workflow.
    params.extend(names.iter().cycle().take(BUDGET_KINDS.len()).map(|(_, name)| Param::from(name.as_str())));
    let sql = format!(
        "SELECT name, {} FROM budget_counters
         WHERE project_id = $1 AND name IN ({}) ORDER BY name{lock}",
        Counter::COLUMNS,
        page::placeholders(2, BUDGET_KINDS.len())
    );
    let mut counters = Counters::default();
    for (name, counter) in
        tx.query(&sql, &params, |row| Ok((row.get::<String>(0)?, Counter::from_row_at(row, 1)?)))?
    {
        let kind = names.iter().find(|(_, counter_name)| *counter_name == name).map(|(kind, _)| *kind);
        counters.0.extend(kind.map(|kind| (kind, counter)));
    }
    Ok(counters)
}

/// Creates the counter of a day or of a run, unless it exists. It starts at zero: [`super::set_day_limit`] has created
/// the counter of the day on which the limit was set.
fn create_counter(tx: &mut Tx<'_>, call: &NewModelCall, kind: BudgetKind) -> Result<()> {
    if let Some(name) = kind.counter_name(call.counter_keys()) {
        insert_empty(tx, call.project, &name)?;
    }
    Ok(())
}

/// Creates the counter of a workflow, unless it exists. It starts with what the calls of the workflow have spent and
/// reserved so far, because the limit may be set late.
fn create_workflow_counter(tx: &mut Tx<'_>, call: &NewModelCall) -> Result<()> {
    let Some(name) = BudgetKind::Workflow.counter_name(call.counter_keys()) else { return Ok(()) };
    let sql = "SELECT name FROM budget_counters WHERE project_id = $1 AND name = $2";
    if tx.query_opt(sql, params![call.project, name.as_str()], |row| row.get::<String>(0))?.is_some() {
        return Ok(());
    }
    // Other transactions share this lock while they count calls. Without it, one that is not committed yet would
    // see no counter, and this one would not see its call.
    tx.advisory_lock(&lock_name(call.project))?;
    if !insert_empty(tx, call.project, &name)? {
        return Ok(());
    }
    // `counted` is a bit set, and an even value lacks the bit of `BudgetKind::Workflow`.
    let uncounted_calls = tx.query(
        "UPDATE model_calls SET counted = counted + 1 WHERE workflow_id = $1 AND counted % 2 = 0
         RETURNING status, microusd, tokens, reserved_microusd, reserved_tokens",
        params![call.workflow],
        |row| Ok((row.read(0, "model_calls", "status")?, Counter::from_row_at(row, 1)?)),
    )?;
    let mut sum = Counter::default();
    for (status, Counter { spent, reserved }) in uncounted_calls {
        match status {
            CallStatus::Reserved => sum.reserved = sum.reserved + reserved,
            CallStatus::Settled | CallStatus::Lost => sum.spent = sum.spent + spent,
        }
    }
    add_to_counter(tx, call.project, &name, sum)
}

/// Creates a counter with nothing spent; false when it exists.
pub(super) fn insert_empty(tx: &mut Tx<'_>, project: ProjectId, name: &str) -> Result<bool> {
    let inserted = tx.execute(
        "INSERT INTO budget_counters
             (project_id, name, spent_microusd, spent_tokens, reserved_microusd, reserved_tokens)
         VALUES ($1, $2, 0, 0, 0, 0) ON CONFLICT (project_id, name) DO NOTHING",
        params![project, name],
    )?;
    Ok(inserted == 1)
}

pub(super) fn add_to_counter(tx: &mut Tx<'_>, project: ProjectId, name: &str, delta: Counter) -> Result<()> {
    tx.execute(
        "UPDATE budget_counters SET spent_microusd = spent_microusd + $3, spent_tokens = spent_tokens + $4,
             reserved_microusd = reserved_microusd + $5, reserved_tokens = reserved_tokens + $6
         WHERE project_id = $1 AND name = $2",
        params![
            project,
            name,
            delta.spent.microusd,
            delta.spent.tokens,
            delta.reserved.microusd,
            delta.reserved.tokens
        ],
    )?;
    Ok(())
}

/// Deletes the counters of the limits of runs that are deleted.
pub(crate) fn delete_run_counters(tx: &mut Tx<'_>, project: ProjectId, runs: &[RunId]) -> Result<()> {
    for list in page::in_chunks(runs) {
        let sql = format!(
            "DELETE FROM budget_counters WHERE project_id = $1 AND name IN ({})",
            page::placeholders(2, list.len())
        );
        let mut params = vec![Param::from(project)];
        params.extend(list.into_iter().map(|run| Param::from(run_counter_name(run))));
        tx.execute(&sql, &params)?;
    }
    Ok(())
}
