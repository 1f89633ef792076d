//! Runs: their rows, their conversation, who drives them. Only [`record`] writes what happened in
//! a run, and only for the runner that has it in hand.

pub mod claim;
pub mod conversation;
pub mod history;
pub mod record;
pub mod timeline;

use emergent_domain::{
    agent::ModelConfig,
    ids::{ProjectId, RunId, ToolCallId},
    run::{Origin, Reason, Run, RunStatus},
    workflow::{Deliverable, WorkflowLink},
};
use serde_json::Value;

use crate::{
    error::Result,
    params,
    tx::Tx,
    value::{Param, Row, json},
};

pub(crate) const COLUMNS: &str = "id, project_id, agent_id, agent_version, agent_name, status, reason, origin, \
     parent_run_id, parent_tool_call_id, part, depth, resumed_from, model_config, step_count, steps_before, \
     max_steps, timeout_seconds, clock_from, owner, seq, summary, error_message, author_token, created_at, \
     started_at, completed_at, schedule_id, cause_run_id, cause_depth, \
     workflow_id, task_id, session_id, discussion_id, hands";

pub(crate) fn from_row(row: &Row<'_>) -> Result<Run> {
    let word = |at: usize| row.get::<String>(at);
    let model: String = row.get(13)?;
    Ok(Run {
        id: row.get(0)?,
        project: row.get(1)?,
        agent: row.get(2)?,
        agent_version: row.get(3)?,
        agent_name: row.get(4)?,
        // Words of a newer program would have been refused with its migration.
        status: RunStatus::parse(&word(5)?).unwrap_or(RunStatus::Failed),
        reason: row.get::<Option<String>>(6)?.and_then(|text| Reason::parse(&text)),
        origin: Origin::parse(&word(7)?).unwrap_or(Origin::Trigger),
        parent: row.get(8)?,
        parent_call: row.get(9)?,
        child_index: row.get(10)?,
        depth: row.get(11)?,
        resumed_from: row.get(12)?,
        model: serde_json::from_str(&model).unwrap_or_else(|_| ModelConfig {
            provider: String::new(),
            name: String::new(),
            temperature: None,
            max_tokens: None,
        }),
        step_count: row.get(14)?,
        steps_before: row.get(15)?,
        max_steps: row.get(16)?,
        timeout_seconds: row.get(17)?,
        deadline_base: row.get(18)?,
        owner: row.get(19)?,
        seq: row.get(20)?,
        summary: row.get(21)?,
        error: row.get(22)?,
        started_by: row.get(23)?,
        created_at: row.get(24)?,
        started_at: row.get(25)?,
        completed_at: row.get(26)?,
        schedule: row.get(27)?,
        cause: row.get(28)?,
        cause_depth: row.get(29)?,
        workflow_link: WorkflowLink {
            workflow: row.get(30)?,
            task: row.get(31)?,
            session: row.get(32)?,
            discussion: row.get(33)?,
            deliverable: row.get::<Option<String>>(34)?.and_then(|word| Deliverable::parse(&word)),
        },
    })
}

/// Adds a run as it stands.
pub fn insert(tx: &mut Tx<'_>, run: &Run) -> Result<()> {
    let model = serde_json::to_string(&run.model).unwrap_or_else(|_| "{}".to_owned());
    tx.execute(
        "INSERT INTO agent_runs (id, project_id, agent_id, agent_version, agent_name, status, reason, origin,
             parent_run_id, parent_tool_call_id, part, depth, resumed_from, model, model_config, step_count,
             steps_before, max_steps, timeout_seconds, clock_from, owner, seq, summary, error_message, author_token,
             created_at, started_at, completed_at, schedule_id, cause_run_id, cause_depth, workflow_id, task_id,
             session_id, discussion_id, hands)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21,
             $22, $23, $24, $25, $26, $27, $28, $29, $30, $31, $32, $33, $34, $35, $36)",
        &[
            Param::from(run.id),
            Param::from(run.project),
            Param::from(run.agent),
            Param::from(run.agent_version),
            Param::from(&run.agent_name),
            Param::from(run.status.as_str()),
            Param::from(run.reason.map(Reason::as_str)),
            Param::from(run.origin.as_str()),
            Param::from(run.parent),
            Param::from(run.parent_call),
            Param::from(run.child_index),
            Param::from(run.depth),
            Param::from(run.resumed_from),
            Param::from(run.model.to_string()),
            json(&model),
            Param::from(run.step_count),
            Param::from(run.steps_before),
            Param::from(run.max_steps),
            Param::from(run.timeout_seconds),
            Param::from(run.deadline_base),
            Param::from(run.owner.as_deref()),
            Param::from(run.seq),
            Param::from(run.summary.as_deref()),
            Param::from(run.error.as_deref()),
            Param::from(run.started_by),
            Param::from(run.created_at),
            Param::from(run.started_at),
            Param::from(run.completed_at),
            Param::from(run.schedule),
            Param::from(run.cause),
            Param::from(run.cause_depth),
            Param::from(run.workflow_link.workflow),
            Param::from(run.workflow_link.task),
            Param::from(run.workflow_link.session),
            Param::from(run.workflow_link.discussion),
            Param::from(run.workflow_link.deliverable.map(Deliverable::as_str)),
        ],
    )?;
    Ok(())
}

/// A run of a project.
pub fn get(tx: &mut Tx<'_>, project: ProjectId, id: RunId) -> Result<Option<Run>> {
    let sql = format!("SELECT {COLUMNS} FROM agent_runs WHERE id = $1 AND project_id = $2");
    tx.query_opt(&sql, params![id, project], from_row)
}

/// As [`get`], kept from changing until this transaction ends.
pub fn get_for_update(tx: &mut Tx<'_>, project: ProjectId, id: RunId) -> Result<Option<Run>> {
    let lock = tx.for_update();
    let sql = format!("SELECT {COLUMNS} FROM agent_runs WHERE id = $1 AND project_id = $2{lock}");
    tx.query_opt(&sql, params![id, project], from_row)
}

/// The children of a run, those of one tool call when it is named, by their place.
pub fn list_children(tx: &mut Tx<'_>, parent: RunId, call: Option<ToolCallId>) -> Result<Vec<Run>> {
    let condition = if call.is_some() { " AND parent_tool_call_id = $2" } else { "" };
    let sql = format!(
        "SELECT {COLUMNS} FROM agent_runs WHERE parent_run_id = $1{condition} ORDER BY part, created_at, id"
    );
    let mut params = vec![Param::from(parent)];
    params.extend(call.map(Param::from));
    tx.query(&sql, &params, from_row)
}

/// The run that resumes this one, if there is one.
pub fn resumed_as(tx: &mut Tx<'_>, id: RunId) -> Result<Option<RunId>> {
    tx.query_opt("SELECT id FROM agent_runs WHERE resumed_from = $1", params![id], |row| row.get(0))
}

/// The runs a run goes on from, the newest first; itself not included.
pub fn resume_chain(tx: &mut Tx<'_>, run: &Run) -> Result<Vec<RunId>> {
    let mut chain = Vec::new();
    let mut before = run.resumed_from;
    while let Some(id) = before {
        chain.push(id);
        before = tx
            .query_opt("SELECT resumed_from FROM agent_runs WHERE id = $1", params![id], |row| row.get(0))?
            .flatten();
    }
    Ok(chain)
}

/// What a run handed in: the input of the last call of its tool for that which went well. `None`
/// while there is none, and for a run that has nothing to hand in.
pub fn submission(tx: &mut Tx<'_>, run: RunId) -> Result<Option<Value>> {
    let sql = format!(
        "SELECT {} FROM agent_run_tool_calls
         WHERE run_id = $1 AND status = 'completed' AND tool_name = (
             SELECT CASE WHEN hands = 'vote' THEN 'submit_vote' WHEN hands IS NOT NULL THEN 'submit_verdict' END
             FROM agent_runs WHERE id = $1)
         ORDER BY seq DESC LIMIT 1",
        conversation::CALL_COLUMNS
    );
    Ok(tx.query_opt(&sql, params![run], conversation::call_from_row)?.map(|call| call.input))
}

/// How many runs set one another off before this one.
pub fn cause_depth(tx: &mut Tx<'_>, project: ProjectId, id: RunId) -> Result<Option<i64>> {
    let sql = "SELECT cause_depth FROM agent_runs WHERE id = $1 AND project_id = $2";
    tx.query_opt(sql, params![id, project], |row| row.get(0))
}

/// How many wait for a runner, over all projects, as far as `most`.
pub fn count_queued(tx: &mut Tx<'_>, most: usize) -> Result<i64> {
    let sql = "SELECT count(*) FROM (SELECT 1 FROM agent_runs WHERE status = 'queued' LIMIT $1) AS waiting";
    Ok(tx.query_opt(sql, params![most], |row| row.get(0))?.unwrap_or(0))
}

/// The channel that is woken when a run waits for a runner.
pub const QUEUED_CHANNEL: &str = "runs:queued";
/// The channel that is woken when runs were cancelled.
pub const CANCELLED_CHANNEL: &str = "runs:cancelled";

/// The channel that is woken when a run ends.
pub fn ended_channel(id: RunId) -> String {
    format!("run:{id}")
}
