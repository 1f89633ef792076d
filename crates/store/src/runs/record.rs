//! Writes the record of a run. Each transaction of a runner starts with [`advance`], or with [`mark_ended`] if it ends
//! the run. They are the fence: only the owner of the run passes it, so that nothing is written to a run that was
//! cancelled or that another runner claimed.

use emergent_domain::{
    ids::{ApprovalId, ProjectId, RunId, ToolCallId, WorkflowId},
    run::{Origin, Reason, RunEnd, ToolCallStatus},
    run_event::{RecordedMessage, RecordedToolCall},
    time::Timestamp,
};
use serde_json::{Value, json};
use tracing::info;

use super::{
    conversation::{MessageRow, OptionalJsonContainer, input_param},
    output::OutputText,
    partial_result::{self, UnfinishedText},
};
use crate::{
    a2a_push, approvals, budget, conversations,
    error::Result,
    params, project_events, schedules,
    tx::Tx,
    value::{self, Param},
    workflows,
};

/// Moves a run from `last_seq` to `seq`; false when `owner` no longer owns the run.
pub fn advance(tx: &mut Tx<'_>, id: RunId, owner: &str, last_seq: i64, seq: i64, steps: i64) -> Result<bool> {
    let updated = tx.execute(
        "UPDATE agent_runs SET seq = $4, step_count = $5
         WHERE id = $1 AND coalesce(owner = $2 AND status = 'running' AND seq = $3, false)",
        params![id, owner, last_seq, seq, steps],
    )?;
    Ok(updated == 1)
}

pub fn insert_message(tx: &mut Tx<'_>, run: RunId, message: &RecordedMessage) -> Result<()> {
    insert_messages(tx, run, std::slice::from_ref(message))
}

pub fn insert_messages(tx: &mut Tx<'_>, run: RunId, messages: &[RecordedMessage]) -> Result<()> {
    let rows: Vec<MessageRow> = messages.iter().map(MessageRow::from_message).collect::<Result<_>>()?;
    tx.insert_rows_later(&rows, ["run_id"], |_| [Param::from(run)])
}

pub fn insert_calls(tx: &mut Tx<'_>, run: RunId, calls: &[RecordedToolCall]) -> Result<()> {
    tx.insert_rows_later(calls, ["run_id"], |_| [Param::from(run)])
}

/// The requests of which the record of a run tells already.
pub fn list_told_requests(tx: &mut Tx<'_>, run: RunId) -> Result<Vec<String>> {
    let sql =
        "SELECT data ->> 'approval' FROM agent_run_events WHERE run_id = $1 AND type = 'approval_requested'";
    let told: Vec<Option<String>> = tx.query(sql, params![run], |row| row.get(0))?;
    Ok(told.into_iter().flatten().collect())
}

/// The requests of runs below a run that its record tells of as pending.
pub fn list_told_as_pending(tx: &mut Tx<'_>, run: RunId) -> Result<Vec<ApprovalId>> {
    let sql = "SELECT type, data ->> 'approval' FROM agent_run_events
               WHERE run_id = $1 AND type IN ('approval_requested', 'approval_decided')
                   AND data ->> 'child' IS NOT NULL";
    let told: Vec<(String, Option<String>)> =
        tx.query(sql, params![run], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let (requested, decided): (Vec<_>, Vec<_>) =
        told.into_iter().partition(|(kind, _)| kind == "approval_requested");
    let is_open = |request: &(String, Option<String>)| !decided.iter().any(|(_, id)| *id == request.1);
    let open = requested.into_iter().filter(is_open);
    Ok(open.filter_map(|(_, id)| id?.parse().ok()).collect())
}

/// Marks a tool call as running, before it is made; false when it was started or ended before.
pub fn mark_call_started(tx: &mut Tx<'_>, run: RunId, seq: i64) -> Result<bool> {
    let started = tx.execute(
        "UPDATE agent_run_tool_calls SET status = 'running' WHERE run_id = $1 AND seq = $2 AND status IN ('pending', 'held')",
        params![run, seq],
    )?;
    Ok(started == 1)
}

/// Replaces the input of a call that a person has not decided about yet.
pub fn replace_held_input(tx: &mut Tx<'_>, run: RunId, call: ToolCallId, input: &Value) -> Result<()> {
    tx.execute(
        "UPDATE agent_run_tool_calls SET input = $3 WHERE run_id = $1 AND id = $2 AND status = 'held'",
        &[Param::from(run), Param::from(call), input_param(input)],
    )?;
    Ok(())
}

/// Writes the result of a tool call; false when the call already had one.
pub fn complete_call(tx: &mut Tx<'_>, run: RunId, call: &RecordedToolCall) -> Result<bool> {
    let ended = tx.execute(
        "UPDATE agent_run_tool_calls SET status = $3, output = $4, result_seq = $5, duration_ms = $6
         WHERE run_id = $1 AND seq = $2 AND status IN ('pending', 'held', 'running')",
        &[
            Param::from(run),
            Param::from(call.seq),
            Param::from(call.status.as_str()),
            OptionalJsonContainer::param(call.output.as_ref()),
            Param::from(call.result_seq),
            Param::from(call.duration_ms),
        ],
    )?;
    debug_assert!(call.status.is_terminal() || call.status == ToolCallStatus::Running);
    Ok(ended == 1)
}

pub fn insert_event(
    tx: &mut Tx<'_>,
    run: RunId,
    seq: i64,
    kind: &str,
    data: &Value,
    at: Timestamp,
) -> Result<()> {
    let data = data.to_string();
    tx.execute_later(
        "INSERT INTO agent_run_events (run_id, seq, type, data, at) VALUES ($1, $2, $3, $4, $5)",
        &[Param::from(run), Param::from(seq), Param::from(kind), value::json(&data), Param::from(at)],
    )
}

/// A move of a run from `last_seq` to `seq` by its owner.
#[derive(Debug, Clone, Copy)]
pub struct Advance<'a> {
    pub run: RunId,
    pub owner: &'a str,
    pub last_seq: i64,
    pub seq: i64,
    pub steps: i64,
}

/// A run that this transaction has ended, until [`finish_end`].
#[must_use = "the end is complete only after `finish_end`"]
#[derive(Debug)]
pub struct EndedRun {
    id: RunId,
    relations: RunRelations,
    /// The `seq` of its event `run_ended`.
    seq: i64,
}

/// Ends a run whose last entry has `seq`. Like [`advance`] it is a fence, so no other is needed: `None` when `owner` no
/// longer owns the run. The caller then writes the last entries of the record, and [`finish_end`] what follows from
/// the end.
pub fn mark_ended(
    tx: &mut Tx<'_>,
    Advance { run, owner, last_seq, seq, steps }: Advance<'_>,
    end: &RunEnd,
    now: Timestamp,
) -> Result<Option<EndedRun>> {
    let relations: Option<RunRelations> = tx.query_opt(
        "UPDATE agent_runs SET status = $4, reason = $5, summary = $6, error_message = $7, completed_at = $8,
             step_count = $9, output = $10, seq = $11
         WHERE id = $1 AND coalesce(owner = $2 AND status = 'running' AND seq = $3, false)
         RETURNING project_id, parent_run_id, workflow_id, origin",
        params![
            run,
            owner,
            last_seq,
            end.status().as_str(),
            end.reason().map(|reason| reason.as_str()),
            end.summary(),
            end.error(),
            now,
            steps,
            OutputText::param(end.output()),
            seq + 1
        ],
        |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)),
    )?;
    Ok(relations.map(|relations| EndedRun { id: run, relations, seq: seq + 1 }))
}

/// Writes the last event of an ended run and wakes those that wait for it.
pub fn finish_end(tx: &mut Tx<'_>, ended: EndedRun, end: &RunEnd, now: Timestamp) -> Result<()> {
    let EndedRun { id, relations, seq } = ended;
    notify_end(tx, id, relations, seq, end, now)
}

/// The project, the parent and the workflow of a run, whose waiters are woken when it ends, and what started it.
type RunRelations = (ProjectId, Option<RunId>, Option<WorkflowId>, Origin);

/// Records the event `run_ended`, writes the answer of a run of a conversation, and wakes the waiters of the run, its
/// project, its workflow, its parent and its trigger. Every end of a run comes here.
fn notify_end(
    tx: &mut Tx<'_>,
    id: RunId,
    (project, parent, workflow, origin): RunRelations,
    seq: i64,
    end: &RunEnd,
    now: Timestamp,
) -> Result<()> {
    let data = json!({ "status": end.status(), "reason": end.reason() });
    insert_event(tx, id, seq, "run_ended", &data, now)?;
    a2a_push::run_changed(tx, id, origin, now)?;
    if origin.answers_messages() {
        conversations::answers::end(tx, project, id, end, now)?;
    }
    tx.wake(&super::ended_channel(id))?;
    tx.wake(&project_events::channel(project))?;
    workflow.map_or(Ok(()), |workflow| tx.wake(&workflows::changed_channel(workflow)))?;
    // An event trigger with `max_concurrent` may wait for the end of this run, which a resumption takes over.
    if matches!(origin, Origin::Event | Origin::Resume) {
        tx.wake(schedules::CHANGED_CHANNEL)?;
    }
    // A parent waits for any of its children to end. One that has no runner, because all its children wait
    // for a person, is queued.
    let Some(parent) = parent else { return Ok(()) };
    super::waiting::queue_again(tx, parent)?;
    tx.wake(&super::ended_channel(parent))
}

/// Cancels up to `limit` active runs of a project, and returns them. Their reservations of budgets stay
/// as they are, so this is only for a project that is deleted. The commit logs each of them, because the
/// executor does not learn of it.
pub fn cancel_project(
    tx: &mut Tx<'_>,
    project: ProjectId,
    reason: &str,
    now: Timestamp,
    limit: usize,
) -> Result<Vec<RunId>> {
    let mut cancelled = Vec::new();
    // One statement for each status, because each status has its own index.
    for status in ["running", "queued", "waiting"] {
        let sql = format!(
            "UPDATE agent_runs SET status = 'cancelled', error_message = $2, completed_at = $3, seq = seq + 1
             WHERE status = '{status}' AND id IN (
                 SELECT id FROM agent_runs WHERE project_id = $1 AND status = '{status}' LIMIT $4)
             RETURNING id, seq, project_id, parent_run_id, workflow_id, origin"
        );
        let ended: Vec<(RunId, i64, RunRelations)> =
            tx.query(&sql, params![project, reason, now, limit - cancelled.len().min(limit)], |row| {
                Ok((row.get(0)?, row.get(1)?, (row.get(2)?, row.get(3)?, row.get(4)?, row.get(5)?)))
            })?;
        for (id, seq, relations) in ended {
            notify_end(tx, id, relations, seq, &RunEnd::Cancelled { summary: String::new() }, now)?;
            cancelled.push(id);
        }
    }
    if !cancelled.is_empty() {
        approvals::withdraw(tx, &cancelled, now)?;
        tx.wake(super::CANCELLED_CHANNEL)?;
        let (ids, reason) = (cancelled.clone(), reason.to_owned());
        tx.after_commit(move || {
            for id in ids {
                info!(run.id = %id, "run `{id}` was cancelled: {reason}");
            }
        });
    }
    Ok(cancelled)
}

/// A run whose time is up.
#[derive(Debug, Clone)]
pub struct TimedOutRun {
    pub id: RunId,
    /// What its model has streamed and this server holds, oldest first. It is empty if another server drives the run.
    pub unfinished: Vec<UnfinishedText>,
}

/// Pauses running runs whose time is up, with the newest text of their model as the summary. Cancels the active
/// runs below them, and `others` with the runs below those. Returns the runs that it paused, and those that it
/// cancelled.
pub fn pause_timed_out(
    tx: &mut Tx<'_>,
    project: ProjectId,
    runs: &[TimedOutRun],
    others: &[RunId],
    reason: &str,
    now: Timestamp,
) -> Result<(Vec<RunId>, Vec<RunId>)> {
    let mut ended = Vec::new();
    for TimedOutRun { id, unfinished } in runs {
        let paused: Option<(i64, RunRelations)> = tx.query_opt(
            "UPDATE agent_runs SET status = 'paused', reason = 'timeout', completed_at = $3, seq = seq + 1
             WHERE id = $1 AND coalesce(project_id = $2 AND status = 'running', false)
             RETURNING seq, project_id, parent_run_id, workflow_id, origin",
            params![*id, project, now],
            |row| Ok((row.get(0)?, (row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?))),
        )?;
        let Some((seq, relations)) = paused else { continue };
        // Read after the update, which locks the run: an answer that its driver records before is in the summary.
        let summary = partial_result::summary_at_timeout(tx, *id, unfinished)?;
        tx.execute("UPDATE agent_runs SET summary = $2 WHERE id = $1", params![*id, &summary])?;
        notify_end(tx, *id, relations, seq, &RunEnd::Paused { reason: Reason::Timeout, summary }, now)?;
        ended.push(*id);
    }
    let mut children = others.to_vec();
    for id in &ended {
        let sql = "SELECT id FROM agent_runs WHERE parent_run_id = $1 ORDER BY part, id";
        children.extend(tx.query(sql, params![*id], |row| row.get::<RunId>(0))?);
    }
    if !ended.is_empty() {
        tx.wake(super::CANCELLED_CHANNEL)?;
    }
    let cancelled = cancel_trees(tx, project, children, reason, now)?;
    // Comes after all runs, because all transactions lock runs before budget counters.
    budget::mark_lost_for_runs(tx, &ended)?;
    Ok((ended, cancelled))
}

/// Cancels a run and the active runs below it. Returns the runs that it cancelled.
pub fn cancel_tree(
    tx: &mut Tx<'_>,
    project: ProjectId,
    id: RunId,
    reason: &str,
    now: Timestamp,
) -> Result<Vec<RunId>> {
    cancel_trees(tx, project, vec![id], reason, now)
}

/// Cancels several runs and the active runs below them. Returns the runs that it cancelled.
///
/// Goes level by level, and updates each parent before it reads the children: the admission of a child locks
/// the row of its parent, so that the child is visible once this transaction has that lock. Model calls that
/// are under way are settled at the full amount of their reservations.
pub fn cancel_trees(
    tx: &mut Tx<'_>,
    project: ProjectId,
    roots: Vec<RunId>,
    reason: &str,
    now: Timestamp,
) -> Result<Vec<RunId>> {
    let mut cancelled = Vec::new();
    let mut level = roots;
    while !level.is_empty() {
        let mut children = Vec::new();
        for id in level {
            let ended: Option<(i64, RunRelations)> = tx.query_opt(
                "UPDATE agent_runs SET status = 'cancelled', error_message = $3, completed_at = $4, seq = seq + 1
                 WHERE id = $1 AND coalesce(project_id = $2 AND status IN ('queued', 'running', 'waiting'), false)
                 RETURNING seq, project_id, parent_run_id, workflow_id, origin",
                params![id, project, reason, now],
                |row| Ok((row.get(0)?, (row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?))),
            )?;
            if let Some((seq, relations)) = ended {
                notify_end(tx, id, relations, seq, &RunEnd::Cancelled { summary: String::new() }, now)?;
                cancelled.push(id);
            }
            children.extend(tx.query(
                "SELECT id FROM agent_runs WHERE parent_run_id = $1 ORDER BY part, id",
                params![id],
                |row| row.get::<RunId>(0),
            )?);
        }
        level = children;
    }
    if !cancelled.is_empty() {
        // Comes after the runs, because all transactions lock runs before budget counters.
        budget::mark_lost_for_runs(tx, &cancelled)?;
        approvals::withdraw(tx, &cancelled, now)?;
        tx.wake(super::CANCELLED_CHANNEL)?;
    }
    Ok(cancelled)
}
