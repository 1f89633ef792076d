//! Runs: their rows, their record, and which runner owns them. [`record`] writes what happens in a run, and
//! only for the runner that owns it.

pub mod chains;
pub mod claim;
pub mod conversation;
pub mod filter;
pub mod history;
mod output;
mod partial_result;
pub mod record;
pub mod rehearsals;
pub mod stats;
pub mod timeline;
pub mod waiting;
pub mod writes;

use emergent_domain::{
    ids::{ProjectId, RunId, ToolCallId},
    run::Run,
    run_event::RecordedToolCall,
    workflow::WorkflowLink,
};
use serde_json::Value;

use self::output::OutputText;
pub use self::partial_result::UnfinishedText;
use crate::{
    error::Result,
    params, project_events,
    row::{TableRow, row},
    tx::Tx,
    value::Param,
};

row! {
    Run in "agent_runs" {
        id: "id",
        project: "project_id",
        agent: "agent_id",
        agent_version: "agent_version",
        agent_name: "agent_name",
        status: "status",
        reason: "reason",
        origin: "origin",
        parent: "parent_run_id",
        parent_call: "parent_tool_call_id",
        child_index: "part",
        depth: "depth",
        resumed_from: "resumed_from",
        model: "model_config",
        step_count: "step_count",
        steps_before: "steps_before",
        max_steps: "max_steps",
        timeout_seconds: "timeout_seconds",
        deadline_base: "clock_from",
        owner: "owner",
        seq: "seq",
        summary: "summary",
        output: OutputText("output"),
        error: "error_message",
        started_by: "author_token",
        created_at: "created_at",
        started_at: "started_at",
        completed_at: "completed_at",
        waiting_for: "waiting_for",
        waiting_since: "waiting_since",
        schedule: "schedule_id",
        cause: "cause_run_id",
        cause_depth: "cause_depth",
        terms: "terms",
        workflow_link: WorkflowLink {
            workflow: "workflow_id",
            task: "task_id",
            session: "session_id",
            discussion: "discussion_id",
            deliverable: "hands",
        },
    }
}

const COLUMNS: &str = Run::COLUMNS;

/// Inserts a run.
pub fn insert(tx: &mut Tx<'_>, run: &Run) -> Result<()> {
    let model = [("model", Param::from(run.model.to_string()))];
    // Each of these has at most one such run. A duplicate has to reach the caller, who knows what it means.
    let is_unique =
        run.workflow_link.discussion.is_some() || run.resumed_from.is_some() || run.schedule.is_some();
    if is_unique {
        tx.insert_row(run, model, "")?;
    } else {
        tx.insert_row_later(run, model)?;
    }
    tx.wake(&project_events::channel(run.project))
}

/// A run of a project.
pub fn get(tx: &mut Tx<'_>, project: ProjectId, id: RunId) -> Result<Option<Run>> {
    let sql = format!("SELECT {COLUMNS} FROM agent_runs WHERE id = $1 AND coalesce(project_id = $2, false)");
    tx.query_opt(&sql, params![id, project], Run::from_row)
}

/// Whether the project has this run. Its texts, which may be large, are not read.
pub fn exists(tx: &mut Tx<'_>, project: ProjectId, id: RunId) -> Result<bool> {
    let sql = "SELECT 1 FROM agent_runs WHERE id = $1 AND coalesce(project_id = $2, false)";
    Ok(tx.query_opt(sql, params![id, project], |_| Ok(()))?.is_some())
}

/// As [`get`], and locks the row until the transaction ends.
pub fn get_for_update(tx: &mut Tx<'_>, project: ProjectId, id: RunId) -> Result<Option<Run>> {
    let lock = tx.for_update();
    let sql =
        format!("SELECT {COLUMNS} FROM agent_runs WHERE id = $1 AND coalesce(project_id = $2, false){lock}");
    tx.query_opt(&sql, params![id, project], Run::from_row)
}

/// The children of a run, or only those of one of its tool calls, by their index.
pub fn list_children(tx: &mut Tx<'_>, parent: RunId, call: Option<ToolCallId>) -> Result<Vec<Run>> {
    let condition = if call.is_some() { " AND parent_tool_call_id = $2" } else { "" };
    let sql = format!(
        "SELECT {COLUMNS} FROM agent_runs WHERE parent_run_id = $1{condition} ORDER BY part, created_at, id"
    );
    let mut params = vec![Param::from(parent)];
    params.extend(call.map(Param::from));
    tx.query(&sql, &params, Run::from_row)
}

/// The run that resumes this one, if there is one.
pub fn resumed_as(tx: &mut Tx<'_>, id: RunId) -> Result<Option<RunId>> {
    tx.query_opt("SELECT id FROM agent_runs WHERE resumed_from = $1", params![id], |row| row.get(0))
}

/// The runs that a run resumes directly and indirectly, the newest first.
pub fn resume_chain(tx: &mut Tx<'_>, run: &Run) -> Result<Vec<RunId>> {
    let mut chain = Vec::new();
    let mut resumed = run.resumed_from;
    while let Some(id) = resumed {
        chain.push(id);
        resumed = tx
            .query_opt("SELECT resumed_from FROM agent_runs WHERE id = $1", params![id], |row| row.get(0))?
            .flatten();
    }
    Ok(chain)
}

/// The submission of a run: the input of its last completed call of the submit tool. `None` when there is no
/// such call, and for a run without a deliverable.
pub fn submission(tx: &mut Tx<'_>, run: RunId) -> Result<Option<Value>> {
    let sql = format!(
        "SELECT {} FROM agent_run_tool_calls
         WHERE run_id = $1 AND status = 'completed' AND tool_name = (
             SELECT CASE WHEN hands = 'vote' THEN 'submit_vote' WHEN hands IS NOT NULL THEN 'submit_verdict' END
             FROM agent_runs WHERE id = $1)
         ORDER BY seq DESC LIMIT 1",
        RecordedToolCall::COLUMNS
    );
    Ok(tx.query_opt(&sql, params![run], RecordedToolCall::from_row)?.map(|call| call.input))
}

/// How many runs are in the chain of triggers that led to this run; `None` when the project has no such run.
pub fn cause_depth(tx: &mut Tx<'_>, project: ProjectId, id: RunId) -> Result<Option<i64>> {
    let sql = "SELECT cause_depth FROM agent_runs WHERE id = $1 AND coalesce(project_id = $2, false)";
    tx.query_opt(sql, params![id, project], |row| row.get(0))
}

/// How many runs of all projects are queued, counted up to `limit`.
pub fn count_queued(tx: &mut Tx<'_>, limit: usize) -> Result<i64> {
    let sql = "SELECT count(*) FROM (SELECT 1 FROM agent_runs WHERE status = 'queued' LIMIT $1) AS waiting";
    Ok(tx.query_opt(sql, params![limit], |row| row.get(0))?.unwrap_or(0))
}

/// How many runs of a project are queued, counted up to `limit`.
pub fn count_project_queued(tx: &mut Tx<'_>, project: ProjectId, limit: usize) -> Result<i64> {
    let sql = "SELECT count(*) FROM (
                   SELECT 1 FROM agent_runs WHERE status = 'queued' AND project_id = $1 LIMIT $2) AS waiting";
    Ok(tx.query_opt(sql, params![project, limit], |row| row.get(0))?.unwrap_or(0))
}

/// How many runs of all projects wait for a person, counted up to `limit`.
pub fn count_waiting(tx: &mut Tx<'_>, limit: usize) -> Result<i64> {
    let sql = "SELECT count(*) FROM (SELECT 1 FROM agent_runs WHERE status = 'waiting' LIMIT $1) AS waiting";
    Ok(tx.query_opt(sql, params![limit], |row| row.get(0))?.unwrap_or(0))
}

/// The newest answer of a run that has text, as far as it is recorded. The caller has locked the run, or it has
/// ended.
pub(crate) fn newest_text(tx: &mut Tx<'_>, run: RunId) -> Result<String> {
    partial_result::newest_text(tx, run)
}

/// Sets what the model of an active run has written so far, as the summary of a run that is cancelled next.
pub fn set_partial_summary(tx: &mut Tx<'_>, id: RunId, text: &str) -> Result<()> {
    tx.execute(
        "UPDATE agent_runs SET summary = $2 WHERE id = $1 AND status IN ('queued', 'running', 'waiting')",
        params![id, text],
    )?;
    Ok(())
}

/// The channel that is woken when a run is queued.
pub const QUEUED_CHANNEL: &str = "runs:queued";
/// The channel that is woken when runs were cancelled.
pub const CANCELLED_CHANNEL: &str = "runs:cancelled";

/// The channel that is woken when a run ends.
pub fn ended_channel(id: RunId) -> String {
    format!("run:{id}")
}
