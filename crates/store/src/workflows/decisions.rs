//! The first and the last statement of a transaction in which a dispatcher decides for its workflow. In between, nobody
//! else changes the row of the workflow, so that it is read once and written once.

use emergent_domain::{
    ids::{ProjectId, WorkflowId},
    time::Timestamp,
    workflow::Workflow,
};

use super::{COLUMNS, NewWorkflowEvent, events_channel, insert_events};
use crate::{
    engine::Engine,
    error::Result,
    params,
    row::TableRow,
    tx::Tx,
    value::{Param, json},
};

/// Locks a workflow until the transaction ends and returns it. Passes only for the dispatcher that owns the workflow:
/// `None` when it no longer does. The transaction ends with [`write_decisions`].
pub fn lock_owned(
    tx: &mut Tx<'_>,
    project: ProjectId,
    id: WorkflowId,
    owner: &str,
) -> Result<Option<Workflow>> {
    let sql = format!(
        "SELECT {COLUMNS} FROM workflows WHERE id = $1
             AND coalesce(project_id = $2 AND owner = $3 AND status IN ('planning', 'running'), false){}",
        tx.for_update()
    );
    tx.query_opt(&sql, params![id, project, owner], Workflow::from_row)
}

/// Increments the revision of a workflow, extends its lease, and appends events. The caller has locked the workflow with
/// [`lock_owned`]. Its dispatcher needs no wake-up for its own changes.
pub fn write_decisions(
    tx: &mut Tx<'_>,
    id: WorkflowId,
    lease_until: Timestamp,
    events: &[NewWorkflowEvent],
) -> Result<()> {
    if events.is_empty() {
        let sql = "UPDATE workflows SET revision = revision + 1, lease_until = $2 WHERE id = $1";
        return tx.execute_later(sql, params![id, lease_until]);
    }
    tx.wake(&events_channel(id))?;
    match tx.engine() {
        Engine::Sqlite => sqlite_write(tx, id, lease_until, events),
        Engine::Postgres => postgres_write(tx, id, lease_until, events),
    }
}

/// Other writes of the transaction may have appended events before, so the numbers of these follow from the row as it is now.
const UPDATE: &str = "UPDATE workflows
     SET revision = revision + 1, lease_until = $2, event_seq = event_seq + $3 WHERE id = $1 RETURNING event_seq";

fn sqlite_write(
    tx: &mut Tx<'_>,
    id: WorkflowId,
    lease_until: Timestamp,
    events: &[NewWorkflowEvent],
) -> Result<()> {
    let newest = tx.query_opt(UPDATE, params![id, lease_until, events.len()], |row| row.get(0))?;
    insert_events(tx, id, newest.unwrap_or_default(), events)
}

/// One statement without a round trip: nobody needs its answer.
fn postgres_write(
    tx: &mut Tx<'_>,
    id: WorkflowId,
    lease_until: Timestamp,
    events: &[NewWorkflowEvent],
) -> Result<()> {
    let texts: Vec<String> = events.iter().map(NewWorkflowEvent::data_text).collect();
    let sql = format!(
        "WITH written AS ({UPDATE})
         INSERT INTO workflow_events (workflow_id, seq, type, task_id, run_id, data, at)
         SELECT $1, written.event_seq - $3 + event.position, event.type, event.task, event.run, event.data, event.at
         FROM written, unnest($4::text[], $5::uuid[], $6::uuid[], $7::jsonb[], $8::timestamptz[])
             WITH ORDINALITY AS event (type, task, run, data, at, position)"
    );
    let params = [
        Param::from(id),
        Param::from(lease_until),
        Param::from(events.len()),
        Param::Array(events.iter().map(|event| Param::from(event.kind)).collect()),
        Param::Array(events.iter().map(|event| Param::from(event.task)).collect()),
        Param::Array(events.iter().map(|event| Param::from(event.run)).collect()),
        Param::Array(texts.iter().map(|text| json(text)).collect()),
        Param::Array(events.iter().map(|event| Param::from(event.at)).collect()),
    ];
    tx.execute_later(&sql, &params)
}
