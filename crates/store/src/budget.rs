//! Model calls and what they cost: reserved before they are made, settled when their answer is
//! recorded, counted against every limit they are under. Whether a call fits is for the caller to
//! say, between [`hold`] and [`reserve`], in one transaction.
//!
//! Whoever locks both locks the run's row before any counter, and counters in the order of their
//! names, so that two transactions do not wait for each other.

mod limits;
mod spent;

use std::collections::BTreeMap;

use emergent_domain::{
    ids::{ObjectId, ProjectId, RunId, WorkflowId},
    time::Timestamp,
    workflow::Amount,
};
use uuid::Uuid;

use crate::{
    error::Result,
    page, params,
    tx::Tx,
    value::{Param, Row},
};

pub use limits::{Limits, get, limits_for, list, set};
pub use spent::{Share, Spent, days, spent_of};

/// A call to a model, as it is begun.
#[derive(Debug, Clone, PartialEq)]
pub struct NewCall {
    pub id: Uuid,
    pub project: ProjectId,
    pub workflow: Option<WorkflowId>,
    pub task: Option<ObjectId>,
    /// Who asks; not every asker is an agent of the project.
    pub agent: String,
    /// `None` for a call outside a run.
    pub run: Option<RunId>,
    pub at: Timestamp,
}

impl NewCall {
    /// The UTC day it counts for, also when its answer comes on the next.
    pub fn day(&self) -> i64 {
        day_of(self.at)
    }
}

/// Days since 1970, UTC.
pub fn day_of(at: Timestamp) -> i64 {
    at.micros().div_euclid(86_400_000_000)
}

/// How much of a limit is used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counter {
    pub spent: Amount,
    pub reserved: Amount,
}

/// What a call can be counted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    Workflow,
    ProjectDay,
    AgentDay,
}

pub const SCOPES: [Scope; 3] = [Scope::Workflow, Scope::ProjectDay, Scope::AgentDay];

impl Scope {
    /// Its bit among those a call is counted in.
    fn bit(self) -> i64 {
        match self {
            Scope::Workflow => 1,
            Scope::ProjectDay => 2,
            Scope::AgentDay => 4,
        }
    }

    fn name(self, workflow: Option<WorkflowId>, day: i64, agent: &str) -> Option<String> {
        match self {
            Scope::Workflow => workflow.map(|id| format!("workflow:{id}")),
            Scope::ProjectDay => Some(format!("day:{day}")),
            Scope::AgentDay => Some(format!("day:{day}:{agent}")),
        }
    }
}

/// The counters a call is counted in, held until the transaction ends.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Held(BTreeMap<Scope, Counter>);

impl Held {
    pub fn get(&self, scope: Scope) -> Counter {
        self.0.get(&scope).copied().unwrap_or_default()
    }
}

impl FromIterator<(Scope, Counter)> for Held {
    fn from_iter<I: IntoIterator<Item = (Scope, Counter)>>(counters: I) -> Self {
        Self(counters.into_iter().collect())
    }
}

/// Holds the counters of a call: those there are, and those of `limited` scopes, which are begun
/// when they are not there yet. One that is there counts also when its limit is gone.
pub fn hold(tx: &mut Tx<'_>, call: &NewCall, limited: &[Scope]) -> Result<Held> {
    let mut held = lock(tx, call)?;
    let missing: Vec<Scope> = limited.iter().copied().filter(|scope| !held.0.contains_key(scope)).collect();
    if missing.is_empty() {
        return Ok(held);
    }
    for scope in missing {
        begin(tx, call, scope)?;
    }
    held = lock(tx, call)?;
    Ok(held)
}

/// The counters there are, as they stand.
pub fn look(tx: &mut Tx<'_>, call: &NewCall) -> Result<Held> {
    read(tx, call, "")
}

fn lock(tx: &mut Tx<'_>, call: &NewCall) -> Result<Held> {
    let lock = tx.for_update();
    read(tx, call, lock)
}

fn read(tx: &mut Tx<'_>, call: &NewCall, lock: &str) -> Result<Held> {
    let names: Vec<(Scope, String)> = SCOPES
        .into_iter()
        .filter_map(|scope| Some((scope, scope.name(call.workflow, call.day(), &call.agent)?)))
        .collect();
    let mut params = vec![Param::from(call.project)];
    // Three places whether or not there is a workflow: one statement is prepared.
    params.extend(names.iter().cycle().take(SCOPES.len()).map(|(_, name)| Param::from(name.as_str())));
    let sql = format!(
        "SELECT name, spent_microusd, spent_tokens, reserved_microusd, reserved_tokens FROM budget_counters
         WHERE project_id = $1 AND name IN ($2, $3, $4) ORDER BY name{lock}"
    );
    let mut held = Held::default();
    for (name, counter) in tx.query(&sql, &params, |row| Ok((row.get::<String>(0)?, counter(row, 1)?)))? {
        held.0.extend(names.iter().find(|(_, one)| *one == name).map(|(scope, _)| (*scope, counter)));
    }
    Ok(held)
}

fn counter(row: &Row<'_>, first: usize) -> Result<Counter> {
    let amount = |at| Ok::<_, crate::Error>(Amount { microusd: row.get(at)?, tokens: row.get(at + 1)? });
    Ok(Counter { spent: amount(first)?, reserved: amount(first + 2)? })
}

/// Begins a counter. A workflow that gets its limit late has spent something already, which its
/// calls know; a day counts from here on.
fn begin(tx: &mut Tx<'_>, call: &NewCall, scope: Scope) -> Result<()> {
    let Some(name) = scope.name(call.workflow, call.day(), &call.agent) else { return Ok(()) };
    let made = tx.execute(
        "INSERT INTO budget_counters
             (project_id, name, spent_microusd, spent_tokens, reserved_microusd, reserved_tokens)
         VALUES ($1, $2, 0, 0, 0, 0) ON CONFLICT (project_id, name) DO NOTHING",
        params![call.project, &name],
    )?;
    if made == 0 || scope != Scope::Workflow {
        return Ok(());
    }
    let before = tx.query(
        "UPDATE model_calls SET counted = counted + 1 WHERE workflow_id = $1 AND counted % 2 = 0
         RETURNING status, microusd, tokens, reserved_microusd, reserved_tokens",
        params![call.workflow],
        |row| Ok((row.get::<String>(0)?, counter(row, 1)?)),
    )?;
    let mut sum = Counter::default();
    for (status, Counter { spent, reserved }) in before {
        match status.as_str() {
            "reserved" => sum.reserved = sum.reserved + reserved,
            _ => sum.spent = sum.spent + spent,
        }
    }
    add(tx, call.project, &name, sum)
}

fn add(tx: &mut Tx<'_>, project: ProjectId, name: &str, more: Counter) -> Result<()> {
    tx.execute(
        "UPDATE budget_counters SET spent_microusd = spent_microusd + $3, spent_tokens = spent_tokens + $4,
             reserved_microusd = reserved_microusd + $5, reserved_tokens = reserved_tokens + $6
         WHERE project_id = $1 AND name = $2",
        params![
            project,
            name,
            more.spent.microusd,
            more.spent.tokens,
            more.reserved.microusd,
            more.reserved.tokens
        ],
    )?;
    Ok(())
}

/// Takes an amount out of everything that is held, and writes the call down as begun.
pub fn reserve(tx: &mut Tx<'_>, call: &NewCall, held: &Held, amount: Amount, priced: bool) -> Result<()> {
    insert(tx, call, held, Counter { reserved: amount, ..Counter::default() }, priced, "reserved")
}

/// Writes down a call that is over and was not reserved: nothing limits it.
pub fn settled(tx: &mut Tx<'_>, call: &NewCall, amount: Amount, priced: bool) -> Result<()> {
    let held = lock(tx, call)?;
    insert(tx, call, &held, Counter { spent: amount, ..Counter::default() }, priced, "settled")
}

fn insert(
    tx: &mut Tx<'_>,
    call: &NewCall,
    held: &Held,
    amounts: Counter,
    priced: bool,
    status: &str,
) -> Result<()> {
    let mut counted = 0;
    let mut names: Vec<String> = Vec::new();
    for scope in held.0.keys() {
        counted += scope.bit();
        names.extend(scope.name(call.workflow, call.day(), &call.agent));
    }
    names.sort_unstable();
    for name in &names {
        add(tx, call.project, name, amounts)?;
    }
    tx.execute(
        "INSERT INTO model_calls (id, project_id, workflow_id, task_id, agent, run_id, day, status,
             reserved_microusd, reserved_tokens, microusd, tokens, priced, counted, at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)",
        &[
            Param::Uuid(call.id),
            Param::from(call.project),
            Param::from(call.workflow),
            Param::from(call.task),
            Param::from(&call.agent),
            Param::from(call.run),
            Param::from(call.day()),
            Param::from(status),
            Param::from(amounts.reserved.microusd),
            Param::from(amounts.reserved.tokens),
            Param::from(amounts.spent.microusd),
            Param::from(amounts.spent.tokens),
            Param::from(priced),
            Param::from(counted),
            Param::from(call.at),
        ],
    )?;
    Ok(())
}

/// What comes back from closing a call: where it was counted, and what it had reserved.
const CLOSED: &str =
    "RETURNING project_id, workflow_id, day, agent, counted, reserved_microusd, reserved_tokens";

struct Closed {
    project: ProjectId,
    names: Vec<String>,
    reserved: Amount,
}

fn closed(row: &Row<'_>) -> Result<Closed> {
    let (workflow, day, agent): (Option<WorkflowId>, i64, String) = (row.get(1)?, row.get(2)?, row.get(3)?);
    let counted: i64 = row.get(4)?;
    let scopes = SCOPES.into_iter().filter(|scope| counted & scope.bit() != 0);
    Ok(Closed {
        project: row.get(0)?,
        names: scopes.filter_map(|scope| scope.name(workflow, day, &agent)).collect(),
        reserved: Amount { microusd: row.get(5)?, tokens: row.get(6)? },
    })
}

/// Settles a reserved call at what it came to; false when it was settled before.
pub fn settle(tx: &mut Tx<'_>, id: Uuid, amount: Amount) -> Result<bool> {
    let sql = format!(
        "UPDATE model_calls SET status = 'settled', microusd = $2, tokens = $3
         WHERE id = $1 AND status = 'reserved' {CLOSED}"
    );
    let found = tx.query(&sql, &[Param::Uuid(id), amount.microusd.into(), amount.tokens.into()], closed)?;
    let any = !found.is_empty();
    release(tx, found, |_| amount)?;
    Ok(any)
}

/// Settles a reserved call in full: what became of it will never be known.
pub fn lose(tx: &mut Tx<'_>, id: Uuid) -> Result<()> {
    lose_where(tx, "id = $1", &[Param::Uuid(id)])
}

/// Likewise the open calls of runs that nobody drives any more, or whoever drove them did not end
/// well.
pub fn lose_of_runs(tx: &mut Tx<'_>, runs: &[RunId]) -> Result<()> {
    for list in page::in_lists(runs) {
        let condition = format!("run_id IN ({})", page::places(1, list.len()));
        let params: Vec<Param<'_>> = list.iter().map(|id| Param::from(*id)).collect();
        lose_where(tx, &condition, &params)?;
    }
    Ok(())
}

/// Likewise the open calls outside runs that were begun before a moment.
pub fn lose_older(tx: &mut Tx<'_>, project: ProjectId, before: Timestamp) -> Result<()> {
    lose_where(tx, "run_id IS NULL AND project_id = $1 AND at < $2", params![project, before])
}

fn lose_where(tx: &mut Tx<'_>, condition: &str, params: &[Param<'_>]) -> Result<()> {
    let sql = format!(
        "UPDATE model_calls SET status = 'lost', microusd = reserved_microusd, tokens = reserved_tokens
         WHERE status = 'reserved' AND {condition} {CLOSED}"
    );
    let found = tx.query(&sql, params, closed)?;
    release(tx, found, |reserved| reserved)
}

fn release(tx: &mut Tx<'_>, found: Vec<Closed>, spent: impl Fn(Amount) -> Amount) -> Result<()> {
    let mut sums: BTreeMap<(ProjectId, String), Counter> = BTreeMap::new();
    for Closed { project, names, reserved } in found {
        for name in names {
            let sum = sums.entry((project, name)).or_default();
            sum.spent = sum.spent + spent(reserved);
            let back = Amount { microusd: -reserved.microusd, tokens: -reserved.tokens };
            sum.reserved = sum.reserved + back;
        }
    }
    for ((project, name), more) in sums {
        add(tx, project, &name, more)?;
    }
    Ok(())
}
