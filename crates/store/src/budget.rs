//! Model calls and their cost. A cost is reserved before the call is made and settled when the answer is
//! recorded. It is counted in the counter of every limit that applies. The caller decides whether a call
//! fits, between [`lock_counters`] and [`reserve`], in one transaction.
//!
//! A transaction locks the row of the run before any counter, and counters in the order of their names,
//! so that two transactions do not deadlock.

mod counters;
mod day_start;
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

pub(crate) use counters::delete_run_counters;
pub use counters::{
    BUDGET_KINDS, BudgetKind, Counter, Counters, MAX_BUDGET_RUNS, lock_counters, read_counters,
};
use counters::{CounterKeys, add_to_counter, lock_existing};
pub use day_start::{DayStart, OpenedDay};
pub use limits::{
    DayLimits, Limits, day_limits, get_day_limit, limits_for, list_day_limits, remove_day_limit, run_limits,
    set_day_limit, workflow_limit,
};
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

/// Records a call that has ended and had no reservation, because it was under no limit when it was made.
pub fn insert_settled(tx: &mut Tx<'_>, call: &NewModelCall, amount: Amount, priced: bool) -> Result<()> {
    let counters = lock_existing(tx, call)?;
    insert_spent(tx, call, &counters, amount, priced)
}

/// As [`insert_settled`], but only if a counter counts the call: a limit was set while the call was under way, or one
/// was removed earlier on that day.
pub fn insert_if_counted(tx: &mut Tx<'_>, call: &NewModelCall, amount: Amount, priced: bool) -> Result<()> {
    let counters = lock_existing(tx, call)?;
    if counters.0.is_empty() {
        return Ok(());
    }
    insert_spent(tx, call, &counters, amount, priced)
}

fn insert_spent(
    tx: &mut Tx<'_>,
    call: &NewModelCall,
    counters: &Counters,
    amount: Amount,
    priced: bool,
) -> Result<()> {
    insert(tx, call, counters, Counter { spent: amount, ..Counter::default() }, priced, CallStatus::Settled)
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
    tx.insert_row_later(call, extra_columns)
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
         WHERE id = $1 AND coalesce(status = 'reserved', false) RETURNING {}",
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
