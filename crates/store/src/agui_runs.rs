//! Runs as clients of AG-UI name them: which part of which run a `runId` of a thread stands for.

use emergent_domain::{
    approval::Approval,
    ids::{AgentId, ApprovalId, ProjectId, RunId, TokenId},
    time::Timestamp,
};

use crate::{
    approvals,
    error::Result,
    params,
    row::{TableRow, row},
    runs,
    tx::Tx,
    value::Param,
};

/// How many runs of a thread that wait are looked at.
const MAX_WAITING: usize = 20;
/// How many parts of one run are looked at, the newest first.
const MAX_PARTS: usize = 200;
/// No run is this far below the run that a caller started.
const MAX_PARENTS: usize = 16;

/// A conversation of a client with an agent. Threads of other tokens are other threads, even if they have the same id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AguiThread {
    pub project: ProjectId,
    pub token: TokenId,
    pub agent: AgentId,
    /// The id that the client chose.
    pub id: String,
}

/// One part of a run: from its start, or from a decision or the results of its client, to its end or to the next time
/// that it waits for a person or for its client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AguiRun {
    pub thread: AguiThread,
    /// The id that the client chose.
    pub client_run: String,
    pub run: RunId,
    /// The part has the events of the run after this `seq`.
    pub after_seq: i64,
    /// The last event of a part that ended because the run waits.
    pub ended_seq: Option<i64>,
    /// The requests that the client was told of at that end.
    pub interrupts: Vec<String>,
    pub created_at: Timestamp,
}

row! {
    AguiRun in "agui_runs" {
        thread: AguiThread {
            project: "project_id",
            token: "token_id",
            agent: "agent_id",
            id: "thread_id",
        },
        client_run: "client_run_id",
        run: "run_id",
        after_seq: "after_seq",
        ended_seq: "ended_seq",
        interrupts: "interrupts",
        created_at: "created_at",
    }
}

/// A part that ended because the run waits for a person, with the requests that the client was told of.
#[derive(Debug, Clone, PartialEq)]
pub struct InterruptedPart {
    pub part: AguiRun,
    /// As they are now.
    pub requests: Vec<Approval>,
}

const OF_THREAD: &str = "project_id = $1 AND token_id = $2 AND agent_id = $3 AND thread_id = $4";

/// Inserts a part; false when its thread has one with this id. Waits for a transaction that has inserted it and has not
/// ended.
pub fn insert(tx: &mut Tx<'_>, part: &AguiRun) -> Result<bool> {
    Ok(tx.insert_row(part, [], "ON CONFLICT DO NOTHING")? == 1)
}

pub fn get(tx: &mut Tx<'_>, thread: &AguiThread, client_run: &str) -> Result<Option<AguiRun>> {
    let sql = format!("SELECT {} FROM agui_runs WHERE {OF_THREAD} AND client_run_id = $5", AguiRun::COLUMNS);
    let AguiThread { project, token, agent, id } = thread;
    tx.query_opt(&sql, params![*project, *token, *agent, id, client_run], AguiRun::from_row)
}

/// Stores where a part ended and what the client was told. The first end counts.
pub fn end(
    tx: &mut Tx<'_>,
    thread: &AguiThread,
    client_run: &str,
    seq: i64,
    interrupts: &[ApprovalId],
) -> Result<()> {
    let AguiThread { project, token, agent, id } = thread;
    let ids: Vec<String> = interrupts.iter().map(ToString::to_string).collect();
    let list = crate::row::to_param(&ids, AguiRun::TABLE, "interrupts")?;
    let sql = format!(
        "UPDATE agui_runs SET ended_seq = $6, interrupts = $7
         WHERE {OF_THREAD} AND client_run_id = $5 AND ended_seq IS NULL"
    );
    let values = [
        Param::from(*project),
        Param::from(*token),
        Param::from(*agent),
        Param::from(id),
        Param::from(client_run),
        Param::from(seq),
        list,
    ];
    tx.execute(&sql, &values)?;
    Ok(())
}

/// Ends the parts of a run in a thread that have not ended, at an event at which the run waited for its client. False
/// if the run is none of this thread.
pub fn end_at_client_wait(
    tx: &mut Tx<'_>,
    thread: &AguiThread,
    run: RunId,
    seq: i64,
    requests: &[ApprovalId],
) -> Result<bool> {
    let sql = format!(
        "SELECT {} FROM agui_runs WHERE run_id = $1 AND after_seq < $2 ORDER BY after_seq DESC LIMIT {MAX_PARTS}",
        AguiRun::COLUMNS
    );
    let parts: Vec<AguiRun> = tx.query(&sql, params![run, seq], AguiRun::from_row)?;
    let mut parts = parts.into_iter().filter(|part| part.thread == *thread).peekable();
    let is_known = parts.peek().is_some();
    for part in parts.filter(|part| part.ended_seq.is_none()) {
        end(tx, thread, &part.client_run, seq, requests)?;
    }
    Ok(is_known)
}

/// The requests that the runs of a thread wait for.
pub fn list_open_requests(tx: &mut Tx<'_>, thread: &AguiThread) -> Result<Vec<Approval>> {
    let sql = format!(
        "SELECT DISTINCT run_id FROM agui_runs WHERE {OF_THREAD}
             AND run_id IN (SELECT id FROM agent_runs WHERE project_id = $1 AND status = 'waiting') LIMIT {MAX_WAITING}"
    );
    let AguiThread { project, token, agent, id } = thread;
    let waiting: Vec<RunId> = tx.query(&sql, params![*project, *token, *agent, id], |row| row.get(0))?;
    let mut open = Vec::new();
    for run in waiting {
        open.extend(approvals::list_pending_below(tx, run)?);
    }
    Ok(open)
}

/// Finds the newest part of a thread whose client was told of all these requests.
pub fn find_interrupted(
    tx: &mut Tx<'_>,
    thread: &AguiThread,
    requests: &[ApprovalId],
) -> Result<Option<InterruptedPart>> {
    let Some(first) = requests.first() else { return Ok(None) };
    let Some(first) = approvals::get(tx, thread.project, *first)? else { return Ok(None) };
    let Some(root) = root_of(tx, thread.project, first.run)? else { return Ok(None) };
    let sql = format!(
        "SELECT {} FROM agui_runs WHERE run_id = $1 AND ended_seq IS NOT NULL ORDER BY after_seq DESC LIMIT {MAX_PARTS}",
        AguiRun::COLUMNS
    );
    let parts: Vec<AguiRun> = tx.query(&sql, params![root], AguiRun::from_row)?;
    let has_all = |part: &AguiRun| {
        requests.iter().all(|id| part.interrupts.contains(&id.to_string())) && part.thread == *thread
    };
    let Some(part) = parts.into_iter().find(has_all) else { return Ok(None) };
    let requests = list_told(tx, &part)?;
    Ok(Some(InterruptedPart { part, requests }))
}

/// The requests that the client was told of at the end of a part, as they are now.
pub fn list_told(tx: &mut Tx<'_>, part: &AguiRun) -> Result<Vec<Approval>> {
    let mut requests = Vec::new();
    for id in part.interrupts.iter().filter_map(|id| id.parse().ok()) {
        requests.extend(approvals::get(tx, part.thread.project, id)?);
    }
    Ok(requests)
}

/// The run at the top of the tree of a run.
fn root_of(tx: &mut Tx<'_>, project: ProjectId, run: RunId) -> Result<Option<RunId>> {
    let mut current = run;
    for _ in 0..MAX_PARENTS {
        match runs::get(tx, project, current)? {
            None => return Ok(None),
            Some(found) => match found.parent {
                None => return Ok(Some(current)),
                Some(parent) => current = parent,
            },
        }
    }
    Ok(None)
}
