//! Requests to people: tool calls that have to be approved, and questions of agents.

use std::collections::HashSet;

use emergent_domain::{
    approval::{Approval, ApprovalKind, ApprovalStatus, Choice, Decision},
    cursor::{Cursor, Page, ResultPage},
    ids::{ApprovalId, ProjectId, RunId, ToolCallId},
    inbox::{InboxNotice, short_title},
    time::Timestamp,
};
use serde_json::json;

use crate::{
    error::Result,
    jobs::{self, NewJob},
    page, params, project_events,
    row::{self, TableRow, row},
    runs::{record, waiting},
    tx::Tx,
    value::Param,
    webhooks,
};

row! {
    Approval in "approvals" {
        id: "id",
        project: "project_id",
        kind: "kind",
        run: "run_id",
        call: "tool_call_id",
        agent: "agent_id",
        agent_name: "agent_name",
        tool: "tool_name",
        server: "server",
        input: "input",
        digest: "digest",
        question: "question",
        status: "status",
        decision: "decision",
        expires_at: "expires_at",
        on_expiry: "on_expiry",
        is_overdue: "is_overdue",
        created_at: "created_at",
    }
}

/// Which requests to list.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ApprovalFilter {
    pub status: Option<ApprovalStatus>,
    pub kind: Option<ApprovalKind>,
    pub run: Option<RunId>,
}

/// What became of a decision.
#[derive(Debug, Clone, PartialEq)]
pub enum Decided {
    /// The decision is stored. `is_queued` says that it was the last one that the run waited for.
    Stored { is_queued: bool },
    /// The request was not pending any more. This is how it stands.
    NotPending(Box<Approval>),
}

/// The channel that is woken when a project has a new request, or one was decided.
pub fn changed_channel(project: ProjectId) -> String {
    format!("approvals:{project}")
}

/// The queue of the jobs that look at a request when its time is up.
pub const QUEUE: &str = "approvals";

/// Inserts requests, each with the job that ends it when its time is up.
pub fn insert(tx: &mut Tx<'_>, approvals: &[Approval]) -> Result<()> {
    // Triggers that write the events of the project cannot sum up an input, so the title is stored.
    let title = |index: usize| [Param::from(short_title(&approvals[index].title()))];
    tx.insert_rows(approvals, ["title"], title, "")?;
    for approval in approvals {
        let Some(run_at) = approval.expires_at else { continue };
        let key = approval.id.to_string();
        let (project, key) = (Some(approval.project), Some(key.as_str()));
        jobs::enqueue(tx, &NewJob { project, key, run_at, ..NewJob::new(QUEUE, approval.created_at) })?;
    }
    for approval in approvals {
        notify(tx, InboxNotice::for_approval(approval, approval.status, approval.created_at))?;
    }
    match approvals.first() {
        Some(first) => wake_followers(tx, first.project),
        None => Ok(()),
    }
}

/// Tells other systems of a change of the inbox, if it is one.
fn notify(tx: &mut Tx<'_>, notice: Option<InboxNotice>) -> Result<()> {
    notice.map_or(Ok(()), |notice| webhooks::enqueue(tx, &notice))
}

/// Wakes those that wait for changes of the requests of a project, and the followers of its events.
fn wake_followers(tx: &mut Tx<'_>, project: ProjectId) -> Result<()> {
    tx.wake(&changed_channel(project))?;
    tx.wake(&project_events::channel(project))
}

pub fn get(tx: &mut Tx<'_>, project: ProjectId, id: ApprovalId) -> Result<Option<Approval>> {
    let sql = format!(
        "SELECT {} FROM approvals WHERE id = $1 AND coalesce(project_id = $2, false)",
        Approval::COLUMNS
    );
    tx.query_opt(&sql, params![id, project], Approval::from_row)
}

/// The requests of a run, in the order in which its calls were made.
pub fn list_for_run(tx: &mut Tx<'_>, run: RunId) -> Result<Vec<Approval>> {
    let sql =
        format!("SELECT {} FROM approvals WHERE run_id = $1 ORDER BY created_at, id", Approval::COLUMNS);
    tx.query(&sql, params![run], Approval::from_row)
}

/// The requests of a project, newest first. Calls to tools of callers are listed only if the filter names their kind.
pub fn list(
    tx: &mut Tx<'_>,
    project: ProjectId,
    filter: &ApprovalFilter,
    page: &Page,
) -> Result<ResultPage<Approval>> {
    let columns = [
        ("status", filter.status.map(Param::from)),
        ("kind", filter.kind.map(Param::from)),
        ("run_id", filter.run.map(Param::from)),
    ];
    // Nobody but the caller of the run can answer calls to its tools, so they are listed on request only.
    let condition = filter.kind.is_none().then_some("kind <> 'client_tool'");
    let cursor_of = |approval: &Approval| Cursor { created_at: approval.created_at, id: approval.id.0 };
    page::list_newest(tx, project, &columns, condition, page, cursor_of)
}

/// Stores a decision about a pending request, and queues the run again if it waits for no other one. Decisions
/// about the requests of one run follow one another, because each locks the run first: so the last one sees
/// that nothing else is pending.
pub fn decide(tx: &mut Tx<'_>, approval: &Approval, decision: &Decision) -> Result<Decided> {
    end(tx, approval, ApprovalStatus::Decided, decision)
}

/// Ends a pending request whose time is up.
pub fn expire(tx: &mut Tx<'_>, approval: &Approval, decision: &Decision) -> Result<Decided> {
    end(tx, approval, ApprovalStatus::Expired, decision)
}

/// Withdraws a pending request of an external server that nobody waits for any more. The run goes on.
pub fn withdraw_request(
    tx: &mut Tx<'_>,
    approval: &Approval,
    reason: &str,
    now: Timestamp,
) -> Result<Decided> {
    let (choice, reason) = (Choice::Deny, Some(reason.to_owned()));
    let decision = Decision {
        choice,
        edited_input: None,
        answer: None,
        reason,
        objects_digest: None,
        by: None,
        at: now,
    };
    end(tx, approval, ApprovalStatus::Withdrawn, &decision)
}

/// The pending requests of a run.
pub fn list_pending_for_run(tx: &mut Tx<'_>, run: RunId) -> Result<Vec<Approval>> {
    let sql = format!("SELECT {} FROM approvals WHERE run_id = $1 AND status = 'pending'", Approval::COLUMNS);
    tx.query(&sql, params![run], Approval::from_row)
}

/// Those of these requests that are not pending any more.
pub fn list_ended(tx: &mut Tx<'_>, project: ProjectId, ids: &[ApprovalId]) -> Result<Vec<Approval>> {
    let mut ended = Vec::new();
    for list in page::in_chunks(ids) {
        let sql = format!(
            "SELECT {} FROM approvals WHERE project_id = $1 AND status <> 'pending' AND id IN ({})",
            Approval::COLUMNS,
            page::placeholders(2, list.len())
        );
        let mut values = vec![Param::from(project)];
        values.extend(list.into_iter().map(Param::from));
        ended.extend(tx.query(&sql, &values, Approval::from_row)?);
    }
    Ok(ended)
}

/// The most requests that [`list_pending_below`] returns.
const MAX_PENDING_BELOW: usize = 100;

/// The pending requests of a run and of the runs below it that wait, the oldest first.
pub fn list_pending_below(tx: &mut Tx<'_>, run: RunId) -> Result<Vec<Approval>> {
    let sql = format!(
        "WITH RECURSIVE below (id) AS (
             SELECT id FROM agent_runs WHERE id = $1
             UNION ALL
             SELECT child.id FROM agent_runs AS child JOIN below ON child.parent_run_id = below.id
             WHERE child.status = 'waiting')
         SELECT {} FROM approvals WHERE status = 'pending' AND run_id IN (SELECT id FROM below)
         ORDER BY created_at, id LIMIT {MAX_PENDING_BELOW}",
        Approval::COLUMNS
    );
    tx.query(&sql, params![run], Approval::from_row)
}

fn end(tx: &mut Tx<'_>, approval: &Approval, status: ApprovalStatus, decision: &Decision) -> Result<Decided> {
    waiting::lock(tx, approval.project, approval.run)?;
    let updated = tx.update_columns(
        Approval::TABLE,
        [
            ("status", Param::from(status)),
            ("decision", row::to_param(decision, Approval::TABLE, "decision")?),
        ],
        "id = $1 AND status = 'pending'",
        [Param::from(approval.id)],
    )?;
    if updated == 0 {
        let current = get(tx, approval.project, approval.id)?;
        return Ok(Decided::NotPending(Box::new(current.unwrap_or_else(|| approval.clone()))));
    }
    if let Some(input) = &decision.edited_input {
        record::replace_held_input(tx, approval.run, approval.call, input)?;
    }
    let data = json!({
        "approval": approval.id,
        "call": approval.call,
        "tool": approval.tool,
        "status": status,
        "decision": decision.choice,
        "reason": decision.reason,
        "edited": decision.edited_input.is_some(),
    });
    waiting::record_event(tx, approval.run, "approval_decided", &data, decision.at)?;
    wake_followers(tx, approval.project)?;
    notify(tx, InboxNotice::for_approval(approval, status, decision.at))?;
    let is_queued = waiting::queue_again(tx, approval.run)?;
    Ok(Decided::Stored { is_queued })
}

/// Marks a pending request as overdue, and tells other systems; false when it is not pending any more or was marked
/// before.
pub fn mark_overdue(tx: &mut Tx<'_>, approval: &Approval, now: Timestamp) -> Result<bool> {
    let updated = tx.update_columns(
        Approval::TABLE,
        [("is_overdue", Param::from(true))],
        "id = $1 AND status = 'pending' AND is_overdue = $2",
        [Param::from(approval.id), Param::from(false)],
    )?;
    if updated == 1 {
        notify(tx, InboxNotice::for_overdue(approval, now))?;
        wake_followers(tx, approval.project)?;
    }
    Ok(updated == 1)
}

/// Withdraws the pending requests of runs that ended.
pub fn withdraw(tx: &mut Tx<'_>, runs: &[RunId], now: Timestamp) -> Result<()> {
    for list in page::in_chunks(runs) {
        let sql = format!(
            "UPDATE approvals SET status = 'withdrawn' WHERE status = 'pending' AND run_id IN ({}) RETURNING {}",
            page::placeholders(1, list.len()),
            Approval::COLUMNS
        );
        let values: Vec<Param<'_>> = list.into_iter().map(Param::from).collect();
        let withdrawn: Vec<Approval> = tx.query(&sql, &values, Approval::from_row)?;
        for approval in &withdrawn {
            notify(tx, InboxNotice::for_approval(approval, approval.status, now))?;
        }
        let projects: HashSet<ProjectId> = withdrawn.iter().map(|approval| approval.project).collect();
        for project in projects {
            wake_followers(tx, project)?;
        }
    }
    Ok(())
}

/// The run that makes this call to its caller, if there is one.
pub fn run_of_client_call(tx: &mut Tx<'_>, project: ProjectId, call: ToolCallId) -> Result<Option<RunId>> {
    let sql =
        "SELECT run_id FROM approvals WHERE project_id = $1 AND tool_call_id = $2 AND kind = 'client_tool'";
    tx.query_opt(sql, params![project, call], |row| row.get(0))
}

/// The calls of a run to its caller, answered or not, in the order in which they were made.
pub fn list_client_calls(tx: &mut Tx<'_>, run: RunId) -> Result<Vec<Approval>> {
    let sql = format!(
        "SELECT {} FROM approvals WHERE run_id = $1 AND kind = 'client_tool' ORDER BY created_at, id",
        Approval::COLUMNS
    );
    tx.query(&sql, params![run], Approval::from_row)
}

/// The `seq` of the event after which a run waited for the result of a call to its caller; `None` if it did not. What
/// the run records after it follows from the result.
pub fn seq_of_client_wait(tx: &mut Tx<'_>, run: RunId, call: ToolCallId) -> Result<Option<i64>> {
    let sql = "SELECT min(seq) FROM agent_run_events WHERE run_id = $1 AND type = 'run_waiting' AND seq > (
                   SELECT max(seq) FROM agent_run_events
                   WHERE run_id = $1 AND type = 'approval_requested' AND data->>'call' = $2)";
    Ok(tx.query_opt(sql, params![run, call.to_string()], |row| row.get::<Option<i64>>(0))?.flatten())
}

/// How many requests of a project to people are pending, counted up to `limit`.
pub fn count_pending(tx: &mut Tx<'_>, project: ProjectId, limit: usize) -> Result<i64> {
    let sql = "SELECT count(*) FROM (
                   SELECT 1 FROM approvals WHERE project_id = $1 AND status = 'pending' AND kind <> 'client_tool'
                   LIMIT $2) AS pending";
    Ok(tx.query_opt(sql, params![project, limit], |row| row.get(0))?.unwrap_or(0))
}
