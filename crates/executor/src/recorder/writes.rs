//! Writes batches in the transaction of the recorder.

use emergent_domain::{
    approval::ApprovalKind,
    ids::RunId,
    run::RunEnd,
    run_event::{RecordedToolCall, RunEventBody},
    time::Timestamp,
};
use emergent_store::{
    Tx, a2a_push, approvals, budget as rows,
    runs::{record, waiting},
};

use super::{RecordBatch, RunPosition, Wait};
use crate::{Error, Result};

/// Writes the buffered batch with the current state of its calls, so that a call with a result is
/// written only once.
pub(super) fn write_buffered(
    tx: &mut Tx<'_>,
    position: &RunPosition,
    buffered: Option<&RecordBatch>,
    results: &[RecordedToolCall],
    now: Timestamp,
) -> Result<()> {
    let Some(buffered) = buffered else { return Ok(()) };
    let newest =
        |call: &RecordedToolCall| results.iter().find(|result| result.id == call.id).unwrap_or(call).clone();
    let calls = buffered.calls.iter().map(newest).collect();
    let updated = RecordBatch { messages: buffered.messages.clone(), calls, ..RecordBatch::default() };
    write_batch(tx, position, &updated, [].iter(), now)?;
    write_events(tx, position, buffered, now)
}

pub(super) fn write_batch<'a>(
    tx: &mut Tx<'_>,
    position: &RunPosition,
    batch: &RecordBatch,
    results: impl Iterator<Item = &'a RecordedToolCall>,
    now: Timestamp,
) -> Result<()> {
    for message in &batch.messages {
        record::insert_message(tx, position.run, message)?;
    }
    if !batch.calls.is_empty() {
        record::insert_calls(tx, position.run, &batch.calls)?;
    }
    for call in results {
        record::complete_call(tx, position.run, call)?;
    }
    write_events(tx, position, batch, now)?;
    if let Some(Wait { waiting_for, requests, keeps_owner }) = &batch.wait {
        approvals::insert(tx, requests)?;
        match keeps_owner {
            true => start_waiting_with_owner(tx, position, *waiting_for, now)?,
            false => start_waiting(tx, position, *waiting_for, now)?,
        }
    }
    Ok(())
}

/// Ends the run, if this runner still owns it. The caller writes the last entries, and what follows from the end.
pub(super) fn mark_ended(
    tx: &mut Tx<'_>,
    position: &RunPosition,
    end: &RunEnd,
    now: Timestamp,
) -> Result<record::EndedRun> {
    let &RunPosition { run, ref owner, expected_seq: last_seq, seq, steps } = position;
    let ended = record::mark_ended(tx, record::Advance { run, owner, last_seq, seq, steps }, end, now)?;
    ended.ok_or(Error::Lost(run))
}

/// Takes the run from this runner, so that it waits.
pub(super) fn start_waiting(
    tx: &mut Tx<'_>,
    position: &RunPosition,
    waiting_for: ApprovalKind,
    now: Timestamp,
) -> Result<()> {
    let is_owner = waiting::start_waiting(tx, position.run, &position.owner, position.seq, waiting_for, now)?;
    if is_owner { Ok(()) } else { Err(Error::Lost(position.run)) }
}

/// Lets the run wait, and leaves it to this runner.
fn start_waiting_with_owner(
    tx: &mut Tx<'_>,
    position: &RunPosition,
    waiting_for: ApprovalKind,
    now: Timestamp,
) -> Result<()> {
    let RunPosition { run, owner, seq, .. } = position;
    let is_owner = waiting::start_waiting_with_owner(tx, *run, owner, *seq, waiting_for, now)?;
    if is_owner { Ok(()) } else { Err(Error::Lost(*run)) }
}

/// Settlements come last: all runs share the counter rows, so they should be locked as briefly as
/// possible.
pub(super) fn settle_calls<const N: usize>(
    tx: &mut Tx<'_>,
    run: RunId,
    batches: [Option<&RecordBatch>; N],
) -> Result<()> {
    for batch in batches.into_iter().flatten() {
        if let Some(settlement) = &batch.settlement {
            settlement.write(tx)?;
        }
        if batch.mark_open_calls_lost {
            rows::mark_lost_for_runs(tx, &[run])?;
        }
    }
    Ok(())
}

fn write_events(tx: &mut Tx<'_>, position: &RunPosition, batch: &RecordBatch, now: Timestamp) -> Result<()> {
    for event in &batch.events {
        record::insert_event(tx, position.run, event.seq, event.body.kind(), &event.data, now)?;
        if matches!(event.body, RunEventBody::Started { .. } | RunEventBody::Continued) {
            a2a_push::run_changed_in_chain(tx, position.run, now)?;
        }
    }
    Ok(())
}
