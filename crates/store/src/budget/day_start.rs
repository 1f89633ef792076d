//! What a project or an agent has spent on a day before its limit was set. The counter of the day starts with it.
//!
//! Calls of workflows, calls outside runs, and calls under any limit are rows of `model_calls`. The other calls
//! are known from the messages of their runs, which have the tokens and the cost of each answer. A day may have tens of
//! thousands of them, so they are not summed up while others wait. There are three steps:
//!
//! 1. A short transaction creates the counter, with a mark that its start is missing ([`OpenedDay::open`]).
//! 2. Reads sum up what was spent before ([`OpenedDay::sum`]).
//! 3. The transaction that sets the limit adds the sum to the counter and deletes the mark
//!    ([`DayStart::add_to_counter`]).
//!
//! No call is missed and none counts twice, whenever it ends and whatever the clocks of the servers say:
//!
//! - A call without a row ends in a transaction that writes its message and shares the lock that step 1 has for itself.
//!   Either it is committed before step 1, so that every later read sees its message. Or it finds the counter: then it
//!   is counted there, and has a row with the bit of the counter.
//! - A call that has a row changes that row when it ends. Either it has ended before step 1 reads the row, which then
//!   stays without the bit. Or it ends later and finds the bit that step 1 has set, and changes the counter.
//! - The sum consists of the rows without the bit that have ended, and of the answers without a row. All of them were
//!   committed before step 1 and never change again. Step 2 can therefore read them one after the other, and two
//!   servers get the same sum. It reads messages before rows, so it sees the row of every message that has one.
//! - Whoever deletes the mark adds the sum, once. If step 3 does not follow, the mark stays, and the sum is added when
//!   a limit is set again.

use std::{collections::HashMap, time::Duration};

use emergent_domain::{
    ids::{ProjectId, RunId},
    time::{Clock, Timestamp},
    workflow::{Amount, to_microusd},
};
use uuid::{Builder, Uuid};

use super::{BudgetKind, Counter, MICROS_PER_DAY, counters, utc_day};
use crate::{
    db::Db,
    error::Result,
    page, params,
    tx::Tx,
    value::{Param, Row},
};

/// How long before the day a run may have been started whose messages are read. It limits the number of runs that
/// are looked at.
const MAX_RUN_AGE: Duration = Duration::from_secs(7 * 86_400);
/// A call counts for the day on which it was made. Calls that were made up to this long before the day are looked at,
/// because their answers may have come on the day.
const MAX_CALL_TIME: Duration = Duration::from_secs(60 * 60);
/// How many runs one read looks at.
const RUNS_PER_PAGE: usize = 1_000;
/// Of how many runs one read reads the messages. SQLite reads the texts of large messages to find what they cost.
const RUNS_PER_READ: usize = 64;
/// What precedes the name of a counter in the name of the mark that its start is missing.
const MARK_PREFIX: &str = "unsummed:";

/// The counter of a day that exists, and may lack what was spent before it was created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenedDay {
    project: ProjectId,
    /// `None` for the project itself.
    agent: Option<String>,
    day: i64,
    has_start: bool,
}

/// What was spent on a day before its counter was created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DayStart {
    day: OpenedDay,
    spent: Amount,
}

/// An answer in the record of a run.
struct Answer {
    run: RunId,
    at: Timestamp,
    amount: Amount,
}

/// A run whose answers may count.
struct DayRun {
    created_at: Timestamp,
    id: RunId,
    /// It is of the agent, and not of a workflow, and has not ended before the day.
    may_count: bool,
}

impl DayStart {
    /// Creates the counter of today, unless it exists, and reads what was spent before. Must be awaited outside of
    /// transactions. `agent` is `None` for the project itself.
    pub async fn read(db: &Db, clock: &Clock, project: ProjectId, agent: Option<&str>) -> Result<Self> {
        loop {
            let now = clock.now();
            let start = OpenedDay::open(db, project, agent, now).await?.sum(db).await?;
            // The next day has a counter of its own.
            if utc_day(clock.now()) == utc_day(now) {
                return Ok(start);
            }
        }
    }

    pub(super) fn project(&self) -> ProjectId {
        self.day.project
    }

    /// The agent, or an empty name for the project.
    pub(super) fn agent_name(&self) -> &str {
        self.day.agent.as_deref().unwrap_or_default()
    }

    /// Adds the sum to the counter, unless somebody else did so.
    pub(super) fn add_to_counter(&self, tx: &mut Tx<'_>) -> Result<()> {
        if self.day.has_start {
            return Ok(());
        }
        let sql = "DELETE FROM budget_counters WHERE project_id = $1 AND name = $2";
        if tx.execute(sql, params![self.project(), self.day.mark_name()])? == 0 {
            return Ok(());
        }
        let delta = Counter { spent: self.spent, ..Counter::default() };
        counters::add_to_counter(tx, self.project(), &self.day.counter_name(), delta)
    }
}

impl OpenedDay {
    /// Creates the counter of the day of `now`, unless it exists. From then on it counts every call that ends.
    pub async fn open(db: &Db, project: ProjectId, agent: Option<&str>, now: Timestamp) -> Result<Self> {
        let day = Self { project, agent: agent.map(str::to_owned), day: utc_day(now), has_start: false };
        db.write(move |tx| day.create_counter(tx)).await
    }

    fn create_counter(&self, tx: &mut Tx<'_>) -> Result<Self> {
        // Other transactions share this lock while they count calls. Without it, one that is not committed yet would
        // see no counter, and step 2 would not see its call.
        tx.advisory_lock(&counters::lock_name(self.project))?;
        if counters::insert_empty(tx, self.project, &self.counter_name())? {
            counters::insert_empty(tx, self.project, &self.mark_name())?;
            let delta = Counter { reserved: self.mark_open_calls(tx)?, ..Counter::default() };
            counters::add_to_counter(tx, self.project, &self.counter_name(), delta)?;
            return Ok(self.clone());
        }
        let sql = "SELECT name FROM budget_counters WHERE project_id = $1 AND name = $2";
        let mark = tx.query_opt(sql, params![self.project, self.mark_name()], |row| row.get::<String>(0))?;
        Ok(Self { has_start: mark.is_none(), ..self.clone() })
    }

    /// Marks the calls under way as counted, so that their settlement changes the counter. Returns what is reserved for
    /// them.
    fn mark_open_calls(&self, tx: &mut Tx<'_>) -> Result<Amount> {
        let bit = self.kind().bit();
        let agent_condition = if self.agent.is_some() { " AND agent = $2" } else { "" };
        // The calls of a day may be many, but the open ones of all projects are few, and have an index.
        let condition = format!("{}{agent_condition}", page::on_row("project_id = $1"));
        let mut params = vec![Param::from(self.project)];
        params.extend(self.agent.as_deref().map(Param::from));
        // It waits for settlements that are not committed yet: each call is either settled or marked.
        let sql = format!(
            "UPDATE model_calls SET counted = counted + {bit}
             WHERE status = 'reserved' AND {condition} AND day = {} AND counted / {bit} % 2 = 0
             RETURNING reserved_microusd, reserved_tokens",
            self.day
        );
        let reserved =
            tx.query(&sql, &params, |row| Ok(Amount { microusd: row.get(0)?, tokens: row.get(1)? }))?;
        Ok(reserved.into_iter().sum())
    }

    /// Reads what was spent on the day before its counter was created, unless the counter has it.
    pub async fn sum(self, db: &Db) -> Result<DayStart> {
        if self.has_start {
            return Ok(DayStart { day: self, spent: Amount::default() });
        }
        let (mut answers, mut after) = (Vec::new(), (self.start() - MAX_RUN_AGE, Uuid::nil()));
        loop {
            let day = self.clone();
            let runs = db.read(move |tx| day.list_runs(tx, after)).await?;
            let counting: Vec<RunId> = runs.iter().filter(|run| run.may_count).map(|run| run.id).collect();
            for runs in counting.chunks(RUNS_PER_READ) {
                let (day, runs) = (self.clone(), runs.to_vec());
                answers.extend(db.read(move |tx| day.read_answers(tx, &runs)).await?);
            }
            match runs.last() {
                Some(last) if runs.len() == RUNS_PER_PAGE => after = (last.created_at, last.id.0),
                _ => break,
            }
        }
        let day = self.clone();
        let (in_rows, calls) =
            db.read(move |tx| Ok::<_, crate::Error>((day.sum_calls(tx)?, day.list_calls(tx)?))).await?;
        let spent = in_rows + sum_uncounted(answers, calls, self.start());
        Ok(DayStart { day: self, spent })
    }

    fn start(&self) -> Timestamp {
        Timestamp::from_micros(self.day.saturating_mul(MICROS_PER_DAY))
    }

    fn end(&self) -> Timestamp {
        Timestamp::from_micros(self.day.saturating_add(1).saturating_mul(MICROS_PER_DAY))
    }

    fn kind(&self) -> BudgetKind {
        if self.agent.is_some() { BudgetKind::AgentDay } else { BudgetKind::ProjectDay }
    }

    fn counter_name(&self) -> String {
        let keys = counters::CounterKeys {
            workflow: None,
            day: self.day,
            agent: self.agent.as_deref().unwrap_or_default(),
            runs: &[],
        };
        // The counter of a day has a name for every call.
        self.kind().counter_name(keys).unwrap_or_default()
    }

    fn mark_name(&self) -> String {
        format!("{MARK_PREFIX}{}", self.counter_name())
    }

    /// A condition for the calls that were made after a time, of the agent if there is one, with its parameters.
    fn calls_since(&self, at: Timestamp) -> (String, Vec<Param<'_>>) {
        // The ids start with their time, so the index by project and id finds the calls. The additional day allows for
        // clocks that differ.
        let first_id = first_id_at(at - Duration::from_secs(86_400));
        let mut params = vec![Param::from(self.project), Param::from(first_id)];
        params.extend(self.agent.as_deref().map(Param::from));
        let agent_condition = if self.agent.is_some() { " AND agent = $3" } else { "" };
        (format!("project_id = $1 AND id >= $2{agent_condition}"), params)
    }

    /// Sums up the calls of the day with a row that ended before the counter was created.
    fn sum_calls(&self, tx: &mut Tx<'_>) -> Result<Amount> {
        let (condition, params) = self.calls_since(self.start());
        let sql = format!(
            "SELECT CAST(coalesce(sum(microusd), 0) AS bigint), CAST(coalesce(sum(tokens), 0) AS bigint)
             FROM model_calls
             WHERE {condition} AND day = {} AND status <> 'reserved' AND counted / {} % 2 = 0",
            self.day,
            self.kind().bit()
        );
        let read = |row: &Row<'_>| Ok(Amount { microusd: row.get(0)?, tokens: row.get(1)? });
        Ok(tx.query_opt(&sql, &params, read)?.unwrap_or_default())
    }

    /// When the calls with a row were made whose answers may be among those of the day, by run.
    fn list_calls(&self, tx: &mut Tx<'_>) -> Result<HashMap<RunId, Vec<Timestamp>>> {
        let since = self.start() - MAX_CALL_TIME;
        let (condition, mut params) = self.calls_since(since);
        params.push(Param::from(since));
        let sql = format!(
            "SELECT run_id, at FROM model_calls
             WHERE {condition} AND at >= ${} AND run_id IS NOT NULL AND workflow_id IS NULL ORDER BY at",
            params.len()
        );
        let mut calls: HashMap<RunId, Vec<Timestamp>> = HashMap::new();
        for (run, at) in tx.query(&sql, &params, |row| Ok((row.get(0)?, row.get(1)?)))? {
            calls.entry(run).or_default().push(at);
        }
        Ok(calls)
    }

    /// The runs that follow `after`, in the order of their creation.
    fn list_runs(&self, tx: &mut Tx<'_>, after: (Timestamp, Uuid)) -> Result<Vec<DayRun>> {
        let sql = format!(
            "SELECT created_at, id, workflow_id IS NULL AND (completed_at IS NULL OR completed_at >= $4)
                 AND coalesce(agent_name = $5, true)
             FROM agent_runs WHERE project_id = $1 AND (created_at, id) > ($2, $3) AND created_at < $6
             ORDER BY created_at, id LIMIT {RUNS_PER_PAGE}"
        );
        let params = params![self.project, after.0, after.1, self.start(), self.agent.as_deref(), self.end()];
        tx.query(&sql, params, |row| {
            Ok(DayRun { created_at: row.get(0)?, id: row.get(1)?, may_count: row.get(2)? })
        })
    }

    /// The answers in the messages of these runs, in the order of each run.
    fn read_answers(&self, tx: &mut Tx<'_>, runs: &[RunId]) -> Result<Vec<Answer>> {
        let mut answers = Vec::new();
        for list in page::in_chunks(runs) {
            let sql = format!(
                "SELECT run_id, created_at, input_tokens + coalesce(output_tokens, 0), cost FROM agent_run_messages
                 WHERE run_id IN ({}) AND input_tokens IS NOT NULL AND created_at >= $1 AND created_at < $2
                 ORDER BY run_id, seq",
                page::placeholders(3, list.len())
            );
            let mut params = vec![Param::from(self.start() - MAX_CALL_TIME), Param::from(self.end())];
            params.extend(list.into_iter().map(Param::from));
            answers.extend(tx.query(&sql, &params, |row| {
                let microusd = to_microusd(row.get::<Option<f64>>(3)?.unwrap_or(0.0));
                let amount = Amount { microusd, tokens: row.get(2)? };
                Ok(Answer { run: row.get(0)?, at: row.get(1)?, amount })
            })?);
        }
        Ok(answers)
    }
}

/// Sums up the answers since the start of the day to calls that have no row. `calls` has the times of those that have
/// one.
fn sum_uncounted(
    answers: Vec<Answer>,
    mut calls: HashMap<RunId, Vec<Timestamp>>,
    day_start: Timestamp,
) -> Amount {
    // A run makes one call after the other, so the first answer after the start of a call is the one to it. Answers before
    // the day are among them, so that their calls are not taken for those of the first answers of the day.
    let mut has_row = |answer: &Answer| {
        calls.get_mut(&answer.run).is_some_and(|calls| {
            let before = calls.partition_point(|at| *at <= answer.at);
            calls.drain(..before).next().is_some()
        })
    };
    let uncounted = answers.into_iter().filter(|answer| !has_row(answer) && answer.at >= day_start);
    uncounted.map(|answer| answer.amount).sum()
}

/// The smallest id that a call can have which was made at a time.
fn first_id_at(at: Timestamp) -> Uuid {
    let millis = u64::try_from(at.as_micros() / 1_000).unwrap_or(0);
    Builder::from_unix_timestamp_millis(millis, &[0; 10]).into_uuid()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_after_midnight_to_a_call_of_the_day_before_is_not_counted_again() {
        let (run, midnight) = (RunId::new(), Timestamp::from_micros(20_000 * MICROS_PER_DAY));
        let at = |seconds: i64| Timestamp::from_micros(midnight.as_micros() + seconds * 1_000_000);
        let check = |calls: &[i64], answers: &[i64], expected: i64| {
            let calls = HashMap::from([(run, calls.iter().map(|seconds| at(*seconds)).collect())]);
            let answers = answers.iter().map(|seconds| {
                let amount = Amount { microusd: 0, tokens: 1 };
                Answer { run, at: at(*seconds), amount }
            });
            assert_eq!(sum_uncounted(answers.collect(), calls, midnight).tokens, expected);
        };
        check(&[-5], &[5], 0);
        check(&[-5], &[5, 30], 1);
        check(&[-60], &[-50, 5], 1);
        check(&[-60, 10], &[-50, 5, 20], 1);
        check(&[], &[-50, 5, 20], 2);
        check(&[3, 7], &[5, 9], 0);
    }
}
