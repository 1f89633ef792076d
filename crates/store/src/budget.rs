//! Model calls and their cost. A cost is reserved before the call is made and settled when the answer is
//! recorded. It is counted in the counter of every limit that applies. The caller decides whether a call
//! fits, between [`lock_counters`] and [`reserve`], in one transaction.
//!
//! A transaction locks the row of the run before any counter, and counters in the order of their names,
//! so that two transactions do not deadlock.

mod limits;
mod spend;

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
    row::{RowReader, TableRow, read_row, row},
    tx::Tx,
    value::Param,
};

pub use limits::{Limits, get_day_limit, limits_for, list_day_limits, set_day_limit};
pub use spend::{SpendShare, WorkflowSpend, day_counters, workflow_spend};

/// A model call that is about to be made.
#[derive(Debug, Clone, PartialEq)]
pub struct NewModelCall {
    pub id: Uuid,
    pub project: ProjectId,
    pub workflow: Option<WorkflowId>,
    pub task: Option<ObjectId>,
    /// Who makes the call; this is not always an agent of the project.
    pub agent: String,
    /// `None` for a call outside a run.
    pub run: Option<RunId>,
    /// The runs whose limits apply, see `RunTerms::budget_runs`.
    pub budget_runs: Vec<RunId>,
    pub at: Timestamp,
}

row! {
    NewModelCall in "model_calls" {
        id: "id",
        project: "project_id",
        workflow: "workflow_id",
        task: "task_id",
        agent: "agent",
        run: "run_id",
        budget_runs: RunIdList("budget_runs"),
        at: "at",
    }
}

/// Codec of a list of runs, which is stored as text with commas.
struct RunIdList;

impl RunIdList {
    fn read(reader: &mut RowReader<'_, '_>, [column]: [&'static str; 1]) -> Result<Vec<RunId>> {
        let text: String = reader.next(column)?;
        let ids = text.split(',').filter(|id| !id.is_empty()).map(str::parse).collect::<Result<_, _>>();
        ids.map_err(|_| reader.unreadable(column, &text))
    }

    fn write(runs: &[RunId], params: &mut Vec<Param<'_>>) -> Result<()> {
        params.push(Param::from(join_ids(runs)));
        Ok(())
    }
}

fn join_ids(runs: &[RunId]) -> String {
    runs.iter().map(RunId::to_string).collect::<Vec<_>>().join(",")
}

/// The status of a model call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallStatus {
    Reserved,
    Settled,
    /// The answer was never recorded, so the whole reservation counts as spent.
    Lost,
}

impl CallStatus {
    pub(crate) const ALL: [CallStatus; 3] = [CallStatus::Reserved, CallStatus::Settled, CallStatus::Lost];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            CallStatus::Reserved => "reserved",
            CallStatus::Settled => "settled",
            CallStatus::Lost => "lost",
        }
    }
}

impl NewModelCall {
    /// The UTC day that the call counts for, even when the answer arrives on the next day.
    pub fn day(&self) -> i64 {
        utc_day(self.at)
    }

    fn counter_keys(&self) -> CounterKeys<'_> {
        CounterKeys { workflow: self.workflow, day: self.day(), agent: &self.agent, runs: &self.budget_runs }
    }
}

const MICROS_PER_DAY: i64 = 86_400_000_000;

/// The day of a time: days since 1970-01-01 UTC.
pub fn utc_day(at: Timestamp) -> i64 {
    at.as_micros().div_euclid(MICROS_PER_DAY)
}

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

/// What a limit applies to: a workflow in total, a project per day, an agent per day, or a run with the runs
/// below it. At most three runs stand above each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum BudgetKind {
    Workflow,
    ProjectDay,
    AgentDay,
    /// The run at this index of `NewModelCall::budget_runs`.
    Run(usize),
}

/// All kinds of limits.
pub const BUDGET_KINDS: [BudgetKind; 6] = [
    BudgetKind::Workflow,
    BudgetKind::ProjectDay,
    BudgetKind::AgentDay,
    BudgetKind::Run(0),
    BudgetKind::Run(1),
    BudgetKind::Run(2),
];

/// What the names of the counters of a model call are made of.
#[derive(Debug, Clone, Copy)]
struct CounterKeys<'a> {
    workflow: Option<WorkflowId>,
    day: i64,
    agent: &'a str,
    runs: &'a [RunId],
}

impl BudgetKind {
    /// The bit of this kind in the column `counted` of a model call.
    fn bit(self) -> i64 {
        match self {
            BudgetKind::Workflow => 1,
            BudgetKind::ProjectDay => 2,
            BudgetKind::AgentDay => 4,
            // The column `budget_runs` lists them.
            BudgetKind::Run(_) => 0,
        }
    }

    /// The name of the counter; `None` when the call has no such workflow or run.
    fn counter_name(self, keys: CounterKeys<'_>) -> Option<String> {
        let CounterKeys { workflow, day, agent, runs } = keys;
        match self {
            BudgetKind::Workflow => workflow.map(|id| format!("workflow:{id}")),
            BudgetKind::ProjectDay => Some(format!("day:{day}")),
            BudgetKind::AgentDay => Some(format!("day:{day}:{agent}")),
            BudgetKind::Run(index) => runs.get(index).map(|id| format!("run:{id}")),
        }
    }
}

/// The counters that a model call is counted in.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Counters(BTreeMap<BudgetKind, Counter>);

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

fn lock_existing(tx: &mut Tx<'_>, call: &NewModelCall) -> Result<Counters> {
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

/// Creates a counter unless it exists. The counter of a workflow starts with what its calls have spent and
/// reserved so far, because its limit may be set late. The counter of a day starts at zero.
fn create_counter(tx: &mut Tx<'_>, call: &NewModelCall, kind: BudgetKind) -> Result<()> {
    let Some(name) = kind.counter_name(call.counter_keys()) else { return Ok(()) };
    let inserted = tx.execute(
        "INSERT INTO budget_counters
             (project_id, name, spent_microusd, spent_tokens, reserved_microusd, reserved_tokens)
         VALUES ($1, $2, 0, 0, 0, 0) ON CONFLICT (project_id, name) DO NOTHING",
        params![call.project, &name],
    )?;
    if inserted == 0 || kind != BudgetKind::Workflow {
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

fn add_to_counter(tx: &mut Tx<'_>, project: ProjectId, name: &str, delta: Counter) -> Result<()> {
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

/// Records a call and reserves an amount for it in the counters, which the caller has locked. `priced` is
/// false when the price of the model is not known.
pub fn reserve(
    tx: &mut Tx<'_>,
    call: &NewModelCall,
    counters: &Counters,
    amount: Amount,
    priced: bool,
) -> Result<()> {
    insert(
        tx,
        call,
        counters,
        Counter { reserved: amount, ..Counter::default() },
        priced,
        CallStatus::Reserved,
    )
}

/// Records a call that has ended and had no reservation, because it was under no limit.
pub fn insert_settled(tx: &mut Tx<'_>, call: &NewModelCall, amount: Amount, priced: bool) -> Result<()> {
    let counters = lock_existing(tx, call)?;
    insert(tx, call, &counters, Counter { spent: amount, ..Counter::default() }, priced, CallStatus::Settled)
}

/// Inserts a call and adds its amounts to the counters.
fn insert(
    tx: &mut Tx<'_>,
    call: &NewModelCall,
    counters: &Counters,
    amounts: Counter,
    priced: bool,
    status: CallStatus,
) -> Result<()> {
    let mut counted = 0;
    let mut names: Vec<String> = Vec::new();
    for kind in counters.0.keys() {
        counted += kind.bit();
        names.extend(kind.counter_name(call.counter_keys()));
    }
    names.sort_unstable();
    for name in &names {
        add_to_counter(tx, call.project, name, amounts)?;
    }
    let extra_columns = [
        ("day", Param::from(call.day())),
        ("status", Param::from(status)),
        ("reserved_microusd", Param::from(amounts.reserved.microusd)),
        ("reserved_tokens", Param::from(amounts.reserved.tokens)),
        ("microusd", Param::from(amounts.spent.microusd)),
        ("tokens", Param::from(amounts.spent.tokens)),
        ("priced", Param::from(priced)),
        ("counted", Param::from(counted)),
    ];
    tx.insert_row(call, extra_columns, "")?;
    Ok(())
}

/// A call that was just settled or marked as lost, with the names of the counters it is counted in.
struct ClosedCall {
    project: ProjectId,
    names: Vec<String>,
    reserved: Amount,
}

read_row! {
    ClosedCall in "model_calls" {
        project: "project_id",
        names: CounterNames("workflow_id", "day", "agent", "counted", "budget_runs"),
        reserved: Amount { microusd: "reserved_microusd", tokens: "reserved_tokens" },
    }
}

/// Reads the names of the counters that a call is counted in.
struct CounterNames;

impl CounterNames {
    fn read(
        reader: &mut RowReader<'_, '_>,
        [workflow, day, agent, counted, runs]: [&'static str; 5],
    ) -> Result<Vec<String>> {
        let (workflow, day, agent) =
            (reader.next(workflow)?, reader.next(day)?, reader.next::<String>(agent)?);
        let bits: i64 = reader.next(counted)?;
        let all_bits = BUDGET_KINDS.iter().fold(0, |all_bits, kind| all_bits | kind.bit());
        if bits & !all_bits != 0 {
            return Err(reader.unreadable(counted, &bits.to_string()));
        }
        let runs = RunIdList::read(reader, [runs])?;
        let keys = CounterKeys { workflow, day, agent: &agent, runs: &runs };
        let is_counted = |kind: &BudgetKind| matches!(kind, BudgetKind::Run(_)) || bits & kind.bit() != 0;
        Ok(BUDGET_KINDS.into_iter().filter(is_counted).filter_map(|kind| kind.counter_name(keys)).collect())
    }
}

/// Settles a reserved call at its real cost; false when the call has no open reservation.
pub fn settle(tx: &mut Tx<'_>, id: Uuid, amount: Amount) -> Result<bool> {
    let sql = format!(
        "UPDATE model_calls SET status = 'settled', microusd = $2, tokens = $3
         WHERE id = $1 AND status = 'reserved' RETURNING {}",
        ClosedCall::COLUMNS
    );
    let settled = tx.query(
        &sql,
        &[Param::Uuid(id), amount.microusd.into(), amount.tokens.into()],
        ClosedCall::from_row,
    )?;
    let is_settled = !settled.is_empty();
    release_reserved(tx, settled, |_| amount)?;
    Ok(is_settled)
}

/// Settles a reserved call at its whole reservation, because its outcome is unknown.
pub fn mark_lost(tx: &mut Tx<'_>, id: Uuid) -> Result<()> {
    mark_lost_where(tx, "id = $1", &[Param::Uuid(id)])
}

/// As [`mark_lost`], for the reserved calls of runs that no longer have a driver.
pub fn mark_lost_for_runs(tx: &mut Tx<'_>, runs: &[RunId]) -> Result<()> {
    for list in page::in_chunks(runs) {
        let condition = format!("run_id IN ({})", page::placeholders(1, list.len()));
        let params: Vec<Param<'_>> = list.iter().map(|id| Param::from(*id)).collect();
        mark_lost_where(tx, &condition, &params)?;
    }
    Ok(())
}

/// As [`mark_lost`], for the reserved calls outside runs that were made before a time.
pub fn mark_lost_before(tx: &mut Tx<'_>, project: ProjectId, before: Timestamp) -> Result<()> {
    mark_lost_where(tx, "run_id IS NULL AND project_id = $1 AND at < $2", params![project, before])
}

fn mark_lost_where(tx: &mut Tx<'_>, condition: &str, params: &[Param<'_>]) -> Result<()> {
    let sql = format!(
        "UPDATE model_calls SET status = 'lost', microusd = reserved_microusd, tokens = reserved_tokens
         WHERE status = 'reserved' AND {condition} RETURNING {}",
        ClosedCall::COLUMNS
    );
    let lost = tx.query(&sql, params, ClosedCall::from_row)?;
    release_reserved(tx, lost, |reserved| reserved)
}

/// Replaces the reservations of calls in their counters by what was spent. `spent` is called with the
/// reservation of each call.
fn release_reserved(tx: &mut Tx<'_>, calls: Vec<ClosedCall>, spent: impl Fn(Amount) -> Amount) -> Result<()> {
    let mut deltas: BTreeMap<(ProjectId, String), Counter> = BTreeMap::new();
    for ClosedCall { project, names, reserved } in calls {
        for name in names {
            let delta = deltas.entry((project, name)).or_default();
            delta.spent = delta.spent + spent(reserved);
            let released = Amount { microusd: -reserved.microusd, tokens: -reserved.tokens };
            delta.reserved = delta.reserved + released;
        }
    }
    for ((project, name), delta) in deltas {
        add_to_counter(tx, project, &name, delta)?;
    }
    Ok(())
}
