//! Firings: one row for each time a trigger fired. Rows are unique by (schedule, time) and by (agent, object,
//! version), so that the database prevents a trigger from firing twice.

use emergent_domain::{
    change::FeedPosition,
    ids::{FiringId, RunId, WorkflowId},
    time::Timestamp,
    trigger::{Firing, FiringCause, FiringStatus},
};

use crate::{
    error::Result,
    page,
    row::{RowReader, TableRow, row},
    tx::Tx,
    value::Param,
};

mod due;
mod list;
#[cfg(test)]
mod plan_tests;
mod waiting;

pub use due::{
    DueFirings, DueTrigger, count_due, list_due, list_due_of_triggers, list_due_triggers, list_first_due,
    list_pending,
};
pub use list::{FiringFilter, ListedFiring, list};
pub(crate) use waiting::count_waiting_in;
pub(super) use waiting::projects_with_due;
pub use waiting::{MAX_COUNTED, count_waiting, next_due_after, next_due_at};

row! {
    Firing in "trigger_firings" {
        id: "id",
        project: "project_id",
        agent: "agent_id",
        fired: CauseColumns(
            "schedule_id", "scheduled_at", "event", "entity_id", "entity_type", "entity_version", "event_txid",
            "event_seq"
        ),
        cause: "cause_run_id",
        cause_depth: "cause_depth",
        status: "status",
        reason: "reason",
        run: "run_id",
        workflow: "workflow_id",
        trigger_name: "trigger_name",
        due_at: "due_at",
        created_at: "created_at",
        settled_at: "settled_at",
    }
}

const COLUMNS: &str = Firing::COLUMNS;

/// Codec of the cause: a schedule and its time, or an event. The columns of the other kind are NULL.
struct CauseColumns;

impl CauseColumns {
    fn read(reader: &mut RowReader<'_, '_>, columns: [&'static str; 8]) -> Result<FiringCause> {
        let [schedule_id, scheduled_at, event, entity, entity_type, version, txid, seq] = columns;
        let (schedule, at) = (reader.next(schedule_id)?, reader.next(scheduled_at)?);
        let (event_kind, entity_id, type_, entity_version) =
            (reader.next(event)?, reader.next(entity)?, reader.next(entity_type)?, reader.next(version)?);
        let (txid, seq): (Option<i64>, Option<i64>) = (reader.next(txid)?, reader.next(seq)?);
        Ok(match schedule {
            Some(schedule) => FiringCause::Schedule { schedule, at: reader.required(at, scheduled_at)? },
            None => FiringCause::Event {
                event: reader.required(event_kind, event)?,
                entity: reader.required(entity_id, entity)?,
                entity_type: reader.required(type_, entity_type)?,
                version: reader.required(entity_version, version)?,
                at: txid.zip(seq).map(|(txid, seq)| FeedPosition { txid, seq }),
            },
        })
    }

    fn write<'a>(cause: &'a FiringCause, params: &mut Vec<Param<'a>>) -> Result<()> {
        params.extend(match cause {
            FiringCause::Schedule { schedule, at } => [
                Param::from(*schedule),
                Param::from(*at),
                Param::Null,
                Param::Null,
                Param::Null,
                Param::Null,
                Param::Null,
                Param::Null,
            ],
            FiringCause::Event { event, entity, entity_type, version, at } => [
                Param::Null,
                Param::Null,
                Param::from(*event),
                Param::from(*entity),
                Param::from(entity_type),
                Param::from(*version),
                Param::from(at.map(|at| at.txid)),
                Param::from(at.map(|at| at.seq)),
            ],
        });
        Ok(())
    }
}

/// Adds firings and returns how many were new. An existing one stays as it is.
pub fn insert(tx: &mut Tx<'_>, firings: &[Firing]) -> Result<u64> {
    tx.insert_rows(firings, [], |_| [], "ON CONFLICT DO NOTHING")
}

/// Settles firings and returns how many were still pending. Settled firings do not change.
pub fn settle(
    tx: &mut Tx<'_>,
    ids: &[FiringId],
    status: FiringStatus,
    reason: Option<&str>,
    run: Option<RunId>,
    now: Timestamp,
) -> Result<u64> {
    let mut settled = 0;
    for list in page::in_chunks(ids) {
        let sql = format!(
            "UPDATE trigger_firings SET status = $1, reason = $2, run_id = $3, settled_at = $4
             WHERE status = 'pending' AND id IN ({})",
            page::placeholders(5, list.len())
        );
        let mut params =
            vec![Param::from(status.as_str()), Param::from(reason), Param::from(run), Param::from(now)];
        params.extend(list.into_iter().map(Param::from));
        settled += tx.execute(&sql, &params)?;
    }
    Ok(settled)
}

/// Settles firings that started a workflow together.
pub fn settle_with_workflow(
    tx: &mut Tx<'_>,
    ids: &[FiringId],
    workflow: WorkflowId,
    now: Timestamp,
) -> Result<()> {
    settle(tx, ids, FiringStatus::Admitted, None, None, now)?;
    for list in page::in_chunks(ids) {
        let sql = format!(
            "UPDATE trigger_firings SET workflow_id = $1 WHERE id IN ({})",
            page::placeholders(2, list.len())
        );
        let mut params = vec![Param::from(workflow)];
        params.extend(list.into_iter().map(Param::from));
        tx.execute(&sql, &params)?;
    }
    Ok(())
}

/// Skips all pending firings of all projects, and returns how many there were.
pub fn skip_pending(tx: &mut Tx<'_>, reason: &str, now: Timestamp) -> Result<u64> {
    let sql = "UPDATE trigger_firings SET status = 'skipped', reason = $1, settled_at = $2 WHERE status = 'pending'";
    tx.execute(sql, &[Param::from(reason), Param::from(now)])
}
