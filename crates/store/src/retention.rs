//! Finds and deletes what a project does not keep any longer: ended runs, changes in the feed, settled
//! firings. Callers decide about the time, and call the functions again while there is more.

use std::collections::HashMap;

use emergent_domain::{
    change::FeedPosition,
    ids::{ProjectId, RunId},
    project::DeletedCounts,
    time::Timestamp,
};
use uuid::Uuid;

use crate::{
    budget,
    deletion::{Allowance, Child, Family, delete_family, delete_in},
    error::Result,
    feed, page, params, projects,
    tx::Tx,
    value::Param,
};

/// A run with its record.
pub(crate) const RUNS: Family = Family {
    table: "agent_runs",
    large: &["summary", "error_message"],
    children: &[
        Child { table: "agent_run_messages", parent: "run_id", key: "seq", large: &["content"] },
        Child { table: "agent_run_tool_calls", parent: "run_id", key: "seq", large: &["input", "output"] },
        Child { table: "agent_run_events", parent: "run_id", key: "seq", large: &["data"] },
        Child { table: "approvals", parent: "run_id", key: "tool_call_id", large: &["input", "decision"] },
        Child { table: "agui_runs", parent: "run_id", key: "after_seq", large: &["interrupts"] },
        Child { table: "a2a_push_configs", parent: "run_id", key: "uid", large: &[] },
    ],
};

/// A conversation with its messages. Its runs are kept as long as other runs.
const CONVERSATIONS: Family = Family {
    table: "chat_conversations",
    large: &[],
    children: &[
        Child { table: "chat_memories", parent: "conversation_id", key: "message_id", large: &[] },
        Child {
            table: "chat_messages",
            parent: "conversation_id",
            key: "seq",
            large: &["content", "retrieval_context", "citations"],
        },
    ],
};

/// Removes some conversations that were deleted before a time, of one project or of all, with about `limit` rows;
/// false when there may be more.
pub fn delete_conversations(
    tx: &mut Tx<'_>,
    project: Option<ProjectId>,
    before: Timestamp,
    limit: usize,
) -> Result<bool> {
    let mut params = vec![Param::from(before), Param::from(limit)];
    let mut condition = "";
    if let Some(project) = project {
        params.push(Param::from(project));
        condition = " AND project_id = $3";
    }
    // A conversation whose messages are still documents has its turn when a job has deleted these.
    let sql = format!(
        "SELECT id FROM chat_conversations WHERE deleted_at IS NOT NULL AND deleted_at < $1{condition}
             AND NOT EXISTS (SELECT 1 FROM chat_memories AS m
                 WHERE m.conversation_id = chat_conversations.id AND m.status = 'stored')
         ORDER BY deleted_at LIMIT $2"
    );
    let ids: Vec<Uuid> = tx.query(&sql, &params, |row| row.get(0))?;
    if ids.is_empty() {
        return Ok(true);
    }
    delete_family(tx, &CONVERSATIONS, &ids, &mut Allowance::new(limit))?;
    Ok(false)
}

/// Where a list of runs continues.
pub type RunCursor = (Timestamp, RunId);

/// Runs without a parent that ended before a time, the oldest first, after a cursor. Left out are runs that
/// another run resumes, because that run continues their conversation, runs of active workflows, and
/// runs of workflows that failed after that time: a person may resume such a workflow, and it continues from them.
pub fn list_expired_runs(
    tx: &mut Tx<'_>,
    project: ProjectId,
    before: Timestamp,
    after: RunCursor,
    limit: usize,
) -> Result<Vec<RunCursor>> {
    tx.query(
        "SELECT r.created_at, r.id FROM agent_runs AS r
         WHERE r.project_id = $1 AND r.created_at < $2 AND (r.created_at, r.id) > ($3, $4)
             AND r.status NOT IN ('queued', 'running', 'waiting') AND r.completed_at < $2 AND r.parent_run_id IS NULL
             AND NOT EXISTS (SELECT 1 FROM agent_runs AS later WHERE later.resumed_from = r.id)
             AND NOT EXISTS (SELECT 1 FROM workflows AS w
                 WHERE w.id = r.workflow_id AND (w.status IN ('planning', 'running', 'escalated')
                     OR (w.status = 'failed' AND w.updated_at >= $2)))
         ORDER BY r.created_at, r.id LIMIT $5",
        params![project, before, after.0, after.1, limit],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )
}

/// Locks a run and the runs below it for deletion, and returns them, parents last. `None` when one of them is
/// active or ended after `before`, or when a run outside continues one of them. From now on, none of them can
/// be resumed.
pub fn lock_expired_tree(
    tx: &mut Tx<'_>,
    project: ProjectId,
    root: RunId,
    before: Timestamp,
) -> Result<Option<Vec<RunId>>> {
    let lock = tx.for_update();
    let mut tree: Vec<RunId> = Vec::new();
    let (mut level, mut column) = (vec![root], "id");
    while !level.is_empty() {
        let mut found = Vec::new();
        for list in page::in_chunks(&level) {
            let sql = format!(
                "SELECT id, status NOT IN ('queued', 'running', 'waiting') AND coalesce(completed_at < $2, $3)
                 FROM agent_runs WHERE project_id = $1 AND {column} IN ({}){lock}",
                page::placeholders(4, list.len())
            );
            let mut params = vec![Param::from(project), Param::from(before), Param::from(false)];
            params.extend(list.into_iter().map(Param::from));
            found.extend(tx.query(&sql, &params, |row| Ok((row.get::<RunId>(0)?, row.get::<bool>(1)?)))?);
        }
        if found.iter().any(|(_, expired)| !expired) {
            return Ok(None);
        }
        level = found.into_iter().map(|(id, _)| id).collect();
        tree.extend(&level);
        column = "parent_run_id";
    }
    if is_continued(tx, &tree)? {
        return Ok(None);
    }
    for list in page::in_chunks(&tree) {
        let sql = format!(
            "UPDATE agent_runs SET status = 'cancelled' WHERE status = 'paused' AND id IN ({})",
            page::placeholders(1, list.len())
        );
        let params: Vec<Param<'_>> = list.into_iter().map(Param::from).collect();
        tx.execute(&sql, &params)?;
    }
    tree.reverse();
    Ok(Some(tree))
}

/// Whether a run outside of the tree resumes one of its runs.
fn is_continued(tx: &mut Tx<'_>, tree: &[RunId]) -> Result<bool> {
    for list in page::in_chunks(tree) {
        let sql = format!(
            "SELECT id FROM agent_runs WHERE resumed_from IN ({})",
            page::placeholders(1, list.len())
        );
        let params: Vec<Param<'_>> = list.into_iter().map(Param::from).collect();
        let later = tx.query(&sql, &params, |row| row.get::<RunId>(0))?;
        if later.iter().any(|id| !tree.contains(id)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Deletes runs with their messages, tool calls and events, at most about `limit` rows, and counts them; true
/// when nothing is left. The counters of their limits are deleted with the last rows: until then, a run that
/// resumes one of them counts towards its limit.
pub fn delete_runs(tx: &mut Tx<'_>, project: ProjectId, runs: &[RunId], limit: usize) -> Result<bool> {
    let ids: Vec<Uuid> = runs.iter().map(|run| run.0).collect();
    let done = delete_family(tx, &RUNS, &ids, &mut Allowance::new(limit))?;
    if done {
        budget::delete_run_counters(tx, project, runs)?;
        let runs = i64::try_from(runs.len()).unwrap_or(i64::MAX);
        projects::count_deleted(tx, project, DeletedCounts { runs, ..DeletedCounts::default() })?;
    }
    Ok(done)
}

/// How far the feed of a project may be deleted: up to what its triggers have read. `None` when it has no
/// triggers.
pub fn get_trigger_position(tx: &mut Tx<'_>, project: ProjectId) -> Result<Option<FeedPosition>> {
    let sql = "SELECT coalesce((SELECT c.txid FROM trigger_cursors AS c WHERE c.project_id = $1), 0),
                   coalesce((SELECT c.seq FROM trigger_cursors AS c WHERE c.project_id = $1), 0)
               FROM event_triggers AS t WHERE t.project_id = $1 LIMIT 1";
    tx.query_opt(sql, params![project], |row| Ok(FeedPosition { txid: row.get(0)?, seq: row.get(1)? }))
}

/// Which changes of a project are deleted from its feed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EventExpiry {
    /// Those that happened before this time.
    pub before: Timestamp,
    /// If it is set, only those up to this position.
    pub up_to: Option<FeedPosition>,
}

impl EventExpiry {
    fn includes(&self, position: FeedPosition, at: Timestamp) -> bool {
        at < self.before
            && self.up_to.is_none_or(|up_to| (position.txid, position.seq) <= (up_to.txid, up_to.seq))
    }
}

/// A part of the feed of all projects.
#[derive(Debug, Clone, PartialEq)]
pub struct FeedWindow {
    /// The changes to delete.
    pub expired: HashMap<ProjectId, Vec<i64>>,
    /// Where the next window starts.
    pub end: i64,
}

/// The number of changes of all projects that one window spans. The feed has no index by project on SQLite, so
/// it is read once for all projects.
const WINDOW: i64 = 20_000;

/// Finds the changes after `after` that these projects do not keep; `None` at the end of the feed, or where it
/// reaches the newest time of `expiries`.
pub fn find_expired_events(
    tx: &mut Tx<'_>,
    expiries: &HashMap<ProjectId, EventExpiry>,
    after: i64,
) -> Result<Option<FeedWindow>> {
    let Some(newest) = expiries.values().map(|expiry| expiry.before).max() else { return Ok(None) };
    let first: Option<(i64, Timestamp)> = tx.query_opt(
        "SELECT seq, at FROM graph_events WHERE seq > $1 ORDER BY seq LIMIT 1",
        params![after],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    let Some((first, _)) = first.filter(|(_, at)| *at < newest) else { return Ok(None) };
    let end = first + WINDOW;
    let changes = tx.query(
        "SELECT project_id, txid, seq, at FROM graph_events WHERE seq >= $1 AND seq <= $2 AND at < $3 ORDER BY seq",
        params![first, end, newest],
        |row| Ok((row.get(0)?, FeedPosition { txid: row.get(1)?, seq: row.get(2)? }, row.get(3)?)),
    )?;
    let mut expired: HashMap<ProjectId, Vec<i64>> = HashMap::new();
    for (project, position, at) in changes {
        if expiries.get(&project).is_some_and(|expiry| expiry.includes(position, at)) {
            expired.entry(project).or_default().push(position.seq);
        }
    }
    Ok(Some(FeedWindow { expired, end }))
}

/// Deletes changes of a project, and counts them.
pub fn delete_events(tx: &mut Tx<'_>, project: ProjectId, seqs: &[i64]) -> Result<()> {
    feed::record_end(tx, seqs)?;
    let deleted = delete_in(tx, "graph_events", "seq", seqs)?;
    let events = i64::try_from(deleted).unwrap_or(i64::MAX);
    projects::count_deleted(tx, project, DeletedCounts { events, ..DeletedCounts::default() })
}

/// Deletes up to `limit` firings of a project that were settled before a time, counts them, and returns how
/// many there were.
pub fn delete_firings(tx: &mut Tx<'_>, project: ProjectId, before: Timestamp, limit: usize) -> Result<usize> {
    // A firing is settled after it was created, so the index of the pages of firings finds all of them.
    let deleted = tx.execute(
        "DELETE FROM trigger_firings WHERE id IN (
             SELECT id FROM trigger_firings
             WHERE project_id = $1 AND created_at < $2 AND settled_at IS NOT NULL AND settled_at < $2
             ORDER BY created_at LIMIT $3)",
        params![project, before, limit],
    )?;
    let firings = i64::try_from(deleted).unwrap_or(i64::MAX);
    projects::count_deleted(tx, project, DeletedCounts { firings, ..DeletedCounts::default() })?;
    Ok(usize::try_from(deleted).unwrap_or(usize::MAX))
}
