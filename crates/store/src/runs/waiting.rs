//! Runs that wait for a person. Such a run has no owner. It is queued again when the last of its requests is
//! decided, and so are the runs above it that wait for their children.
//!
//! A run for which an external server asks for input waits with its owner: a tool call is in progress, which only the
//! owner can finish. Its status is `running` again when the request is decided.

use std::time::Duration;

use emergent_domain::{
    approval::ApprovalKind,
    ids::{ProjectId, RunId, ToolCallId, WorkflowId},
    run::{Origin, Run, RunStatus},
    time::Timestamp,
};

use serde_json::{Value, json};

use super::record;
use crate::{
    a2a_push, approvals, engine::Engine, error::Result, params, project_events, tx::Tx, value::Param,
    workflows,
};

/// The project, the parent and the workflow of a run.
type Relations = (ProjectId, Option<RunId>, Option<WorkflowId>);

/// Takes a run from its owner, so that it waits; false when `owner` no longer owns the run. The requests it
/// waits for are written in the same transaction.
pub fn start_waiting(
    tx: &mut Tx<'_>,
    id: RunId,
    owner: &str,
    seq: i64,
    waiting_for: ApprovalKind,
    now: Timestamp,
) -> Result<bool> {
    let is_owner = start_waiting_with_owner(tx, id, owner, seq, waiting_for, now)?;
    if is_owner {
        tx.execute("UPDATE agent_runs SET owner = NULL WHERE id = $1", params![id])?;
    }
    Ok(is_owner)
}

/// Like [`start_waiting`], but the run keeps its owner, who has a tool call in progress.
pub fn start_waiting_with_owner(
    tx: &mut Tx<'_>,
    id: RunId,
    owner: &str,
    seq: i64,
    waiting_for: ApprovalKind,
    now: Timestamp,
) -> Result<bool> {
    let waiting: Option<(Relations, Origin)> = tx.query_opt(
        "UPDATE agent_runs SET status = 'waiting', waiting_for = $4, waiting_since = $5
         WHERE id = $1 AND coalesce(owner = $2 AND status = 'running' AND seq = $3, false)
         RETURNING project_id, parent_run_id, workflow_id, origin",
        params![id, owner, seq, waiting_for, now],
        |row| Ok(((row.get(0)?, row.get(1)?, row.get(2)?), row.get(3)?)),
    )?;
    let Some(((project, parent, workflow), origin)) = waiting else { return Ok(false) };
    wake_relations(tx, project, parent, workflow)?;
    a2a_push::run_changed(tx, id, origin, now)?;
    // Those who wait until the run needs somebody.
    tx.wake(&super::ended_channel(id))?;
    Ok(true)
}

/// What the active children of a tool call or a flow wait for, if there are `count` of them and all wait. The
/// rows of the children are locked, so that none of them is queued again before the parent waits: whoever does
/// that afterwards finds the parent waiting. A caller locks the children before it writes to the parent, as
/// [`queue_again`] does, so that two transactions never wait for each other.
pub fn lock_waiting_children(
    tx: &mut Tx<'_>,
    parent: RunId,
    call: Option<ToolCallId>,
    count: usize,
) -> Result<Option<ApprovalKind>> {
    let lock = tx.for_update();
    let condition = if call.is_some() { " AND parent_tool_call_id = $2" } else { "" };
    let sql = format!(
        "SELECT status, waiting_for FROM agent_runs
         WHERE parent_run_id = $1 AND status IN ('queued', 'running', 'waiting'){condition} ORDER BY id{lock}"
    );
    let mut values = vec![Param::from(parent)];
    values.extend(call.map(Param::from));
    let children: Vec<(RunStatus, Option<ApprovalKind>)> = tx.query(&sql, &values, |row| {
        Ok((row.read(0, "agent_runs", "status")?, row.read(1, "agent_runs", "waiting_for")?))
    })?;
    if children.len() != count || children.iter().any(|(status, _)| *status != RunStatus::Waiting) {
        return Ok(None);
    }
    Ok(children.into_iter().find_map(|(_, waiting_for)| waiting_for))
}

/// Queues a waiting run again, and the runs above it that wait for their children; false when the run does not
/// wait, or waits for a decision. A run with an owner is running again.
pub fn queue_again(tx: &mut Tx<'_>, id: RunId) -> Result<bool> {
    let mut next = Some(id);
    let mut is_first_queued = false;
    while let Some(current) = next {
        let relations: Option<Relations> = tx.query_opt(
            "UPDATE agent_runs SET status = CASE WHEN owner IS NULL THEN 'queued' ELSE 'running' END, waiting_for = NULL
             WHERE id = $1 AND coalesce(status = 'waiting', false) AND NOT EXISTS (
                 SELECT 1 FROM approvals WHERE run_id = agent_runs.id AND status = 'pending')
             RETURNING project_id, parent_run_id, workflow_id",
            params![current],
            |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
        )?;
        let Some((project, parent, workflow)) = relations else { break };
        // A parent that does not wait tells its followers of the decision.
        wake_relations(tx, project, parent, workflow)?;
        is_first_queued = true;
        next = parent;
    }
    if is_first_queued {
        tx.wake(super::QUEUED_CHANNEL)?;
    }
    Ok(is_first_queued)
}

/// Continues a run that waited with its owner, and records it. Returns how long the run waited, which does not count
/// towards its timeout, and the `seq` of the record; `None` if the run still waits, or has another owner.
pub fn continue_owned(
    tx: &mut Tx<'_>,
    project: ProjectId,
    id: RunId,
    owner: &str,
    now: Timestamp,
) -> Result<Option<(Duration, i64)>> {
    let Some(run) = lock(tx, project, id)? else { return Ok(None) };
    // An earlier version of the server queues the run instead of making it run.
    let goes_on = matches!(run.status, RunStatus::Running | RunStatus::Queued);
    let (Some(since), true) = (run.waiting_since, goes_on && run.owner.as_deref() == Some(owner)) else {
        return Ok(None);
    };
    let (waited, seq) = (now.since(since), run.seq + 1);
    tx.execute(
        "UPDATE agent_runs SET status = 'running', clock_from = $2, waiting_since = NULL, waiting_for = NULL, seq = $3
         WHERE id = $1",
        params![id, run.deadline_base.map(|from| from + waited), seq],
    )?;
    record::insert_event(tx, id, seq, "run_continued", &json!({}), now)?;
    a2a_push::run_changed(tx, id, run.origin, now)?;
    tx.wake(&project_events::channel(project))?;
    Ok(Some((waited, seq)))
}

/// Withdraws the requests of runs whose owner has lost its lease while an external server asked for input: the call
/// ended with its connection, so nobody waits for the answer. These runs are running afterwards, and can be claimed
/// like every run of such an owner. Never those of `owner` itself.
pub fn withdraw_orphaned(
    tx: &mut Tx<'_>,
    owner: &str,
    reason: &str,
    now: Timestamp,
    limit: usize,
) -> Result<()> {
    let lock = match tx.engine() {
        Engine::Sqlite => "",
        Engine::Postgres => " FOR UPDATE OF agent_runs SKIP LOCKED",
    };
    let sql = format!(
        "SELECT agent_runs.id FROM agent_runs LEFT JOIN leases ON leases.name = 'runner:' || agent_runs.owner
         WHERE agent_runs.status = 'waiting' AND agent_runs.owner IS NOT NULL AND agent_runs.owner <> $2
             AND (leases.until IS NULL OR leases.until <= $1)
         LIMIT $3{lock}"
    );
    let orphaned: Vec<RunId> = tx.query(&sql, params![now, owner, limit], |row| row.get(0))?;
    for run in orphaned {
        for request in approvals::list_pending_for_run(tx, run)? {
            approvals::withdraw_request(tx, &request, reason, now)?;
        }
        // Does nothing if the last request has queued the run.
        queue_again(tx, run)?;
    }
    Ok(())
}

/// Wakes the followers of a project, the parent of a run and the driver of its workflow, which look at its status.
fn wake_relations(
    tx: &mut Tx<'_>,
    project: ProjectId,
    parent: Option<RunId>,
    workflow: Option<WorkflowId>,
) -> Result<()> {
    tx.wake(&project_events::channel(project))?;
    parent.map_or(Ok(()), |parent| tx.wake(&super::ended_channel(parent)))?;
    workflow.map_or(Ok(()), |workflow| tx.wake(&workflows::changed_channel(workflow)))
}

/// Adds an event to the record of a run that waits. Nobody else writes to the record of such a run: it has no
/// owner, or one that writes nothing while the run waits, and the caller has locked it.
pub fn record_event(tx: &mut Tx<'_>, id: RunId, kind: &str, data: &Value, now: Timestamp) -> Result<()> {
    let seq: Option<i64> = tx.query_opt(
        "UPDATE agent_runs SET seq = seq + 1 WHERE id = $1 AND coalesce(status = 'waiting', false) RETURNING seq",
        params![id],
        |row| row.get(0),
    )?;
    let Some(seq) = seq else { return Ok(()) };
    record::insert_event(tx, id, seq, kind, data, now)?;
    // Followers of the run wait on this channel.
    tx.wake(&super::ended_channel(id))
}

/// Locks a run until the transaction ends, so that decisions about its requests follow one another.
pub fn lock(tx: &mut Tx<'_>, project: ProjectId, id: RunId) -> Result<Option<Run>> {
    super::get_for_update(tx, project, id)
}
