//! Event triggers, and the cursor of each project: how far its change feed was read for them. A transaction
//! that reads the feed of a project or fires its triggers locks the cursor first and the triggers second.

use emergent_domain::{
    change::FeedPosition,
    ids::{AgentId, ProjectId},
    time::Timestamp,
    trigger::{EventTrigger, FeedStart},
};

use crate::{
    claimable,
    engine::Engine,
    error::{Error, Result},
    feed, params,
    row::{TableRow, row},
    tx::Tx,
};

pub mod firings;
pub mod unfinished;

row! {
    EventTrigger in "event_triggers" {
        agent: "agent_id",
        dispatch: "dispatch",
        name: "name",
        product: "product",
        project: "project_id",
        event: "event",
        config: "config",
        since: FeedStart {
            after: FeedPosition { txid: "since_txid", seq: "since_seq" },
            open: "since_open",
        },
    }
}

const COLUMNS: &str = EventTrigger::COLUMNS;
/// After this many changes of other projects, the cursor of a project without changes advances too.
/// Otherwise SQLite would scan the changes of the others every time.
const CURSOR_LAG_LIMIT: i64 = 1_000;

/// Adds or replaces an agent's event trigger.
pub fn upsert(tx: &mut Tx<'_>, trigger: &EventTrigger) -> Result<()> {
    tx.insert_row(
        trigger,
        [],
        "ON CONFLICT (agent_id) DO UPDATE SET event = excluded.event, config = excluded.config,
             dispatch = excluded.dispatch, name = excluded.name, product = excluded.product,
             since_txid = excluded.since_txid, since_seq = excluded.since_seq,
             since_open = excluded.since_open",
    )?;
    Ok(())
}

pub fn delete(tx: &mut Tx<'_>, agent: AgentId) -> Result<()> {
    tx.execute("DELETE FROM event_triggers WHERE agent_id = $1", params![agent])?;
    Ok(())
}

/// The event trigger of this name that starts a workflow. The product is empty for the trigger of a person.
pub fn get_by_name(
    tx: &mut Tx<'_>,
    project: ProjectId,
    product: &str,
    name: &str,
) -> Result<Option<EventTrigger>> {
    let sql =
        format!("SELECT {COLUMNS} FROM event_triggers WHERE project_id = $1 AND product = $2 AND name = $3");
    tx.query_opt(&sql, params![project, product, name], EventTrigger::from_row)
}

/// How many triggers that start workflows people have saved in a project, for times and for events, and how many bytes
/// these have together.
pub fn size_of_named(tx: &mut Tx<'_>, project: ProjectId) -> Result<(i64, i64)> {
    let sql = "SELECT count(*), coalesce(sum(octet_length(CAST(config AS text)) + octet_length(CAST(dispatch AS text))), 0)
         FROM (
             SELECT config, dispatch FROM event_triggers
             WHERE project_id = $1 AND product = '' AND dispatch IS NOT NULL
             UNION ALL
             SELECT config, dispatch FROM schedules
             WHERE project_id = $1 AND product = '' AND dispatch IS NOT NULL
         ) AS named";
    Ok(tx.query_opt(sql, params![project], |row| Ok((row.get(0)?, row.get(1)?)))?.unwrap_or_default())
}

/// Deletes the event triggers of a product, and returns how many there were.
pub fn delete_for_product(tx: &mut Tx<'_>, project: ProjectId, product: &str) -> Result<u64> {
    tx.execute("DELETE FROM event_triggers WHERE project_id = $1 AND product = $2", params![project, product])
}

/// The event trigger of an agent; `None` when it has none.
pub fn get(tx: &mut Tx<'_>, agent: AgentId) -> Result<Option<EventTrigger>> {
    let sql = format!("SELECT {COLUMNS} FROM event_triggers WHERE agent_id = $1");
    tx.query_opt(&sql, params![agent], EventTrigger::from_row)
}

/// The event triggers of a project.
pub fn list(tx: &mut Tx<'_>, project: ProjectId) -> Result<Vec<EventTrigger>> {
    let sql = format!("SELECT {COLUMNS} FROM event_triggers WHERE project_id = $1 ORDER BY agent_id");
    tx.query(&sql, params![project], EventTrigger::from_row)
}

/// As [`list`], and locks the rows against changes until the transaction ends. One unreadable trigger is an
/// error for the whole project: a caller that moves the cursor would lose the events of that trigger.
pub fn lock_all(tx: &mut Tx<'_>, project: ProjectId) -> Result<Vec<EventTrigger>> {
    let sql = format!(
        "SELECT {COLUMNS} FROM event_triggers WHERE project_id = $1 ORDER BY agent_id{}",
        tx.for_share()
    );
    tx.query(&sql, params![project], EventTrigger::from_row)
}

/// The event triggers of a project, for a caller that can skip unreadable ones.
pub struct LockedTriggers {
    pub readable: Vec<EventTrigger>,
    /// The agents whose trigger this version cannot read. Their firings are left to a newer server.
    pub unreadable: Vec<AgentId>,
}

/// As [`lock_all`], but returns unreadable triggers separately instead of failing.
pub fn lock_readable(tx: &mut Tx<'_>, project: ProjectId) -> Result<LockedTriggers> {
    let lock = tx.for_share();
    read_readable(tx, project, lock)
}

/// As [`list`], but without the triggers that this version cannot read.
pub fn list_readable(tx: &mut Tx<'_>, project: ProjectId) -> Result<Vec<EventTrigger>> {
    Ok(read_readable(tx, project, "")?.readable)
}

fn read_readable(tx: &mut Tx<'_>, project: ProjectId, lock: &str) -> Result<LockedTriggers> {
    let sql = format!("SELECT {COLUMNS} FROM event_triggers WHERE project_id = $1 ORDER BY agent_id{lock}");
    let mut unreadable = Vec::new();
    let readable = tx.query(&sql, params![project], |row| match EventTrigger::from_row(row) {
        Err(error @ Error::Unreadable { .. }) => {
            let agent: AgentId = row.get(0)?;
            claimable::log_once(EventTrigger::TABLE, agent.0, &error);
            unreadable.push(agent);
            Ok(None)
        }
        other => other.map(Some),
    })?;
    Ok(LockedTriggers { readable: readable.into_iter().flatten().collect(), unreadable })
}

/// Whether a project has any event trigger.
pub fn has_any(tx: &mut Tx<'_>, project: ProjectId) -> Result<bool> {
    let sql = "SELECT 1 FROM event_triggers WHERE project_id = $1 LIMIT 1";
    Ok(tx.query_opt(sql, params![project], |_| Ok(()))?.is_some())
}

/// Locks the cursor of a project, and creates it if necessary. Waits for transactions that have locked it.
pub fn lock_cursor(tx: &mut Tx<'_>, project: ProjectId) -> Result<()> {
    tx.execute(
        "INSERT INTO trigger_cursors (project_id, txid, seq) VALUES ($1, 0, 0) ON CONFLICT DO NOTHING",
        params![project],
    )?;
    let sql = format!("SELECT 1 FROM trigger_cursors WHERE project_id = $1{}", tx.for_update());
    tx.query_opt(&sql, params![project], |_| Ok(()))?;
    Ok(())
}

/// Locks the cursor of a live project and returns it; `None` when another server has locked it, or the
/// project has no cursor or was deleted.
pub fn try_lock_cursor(tx: &mut Tx<'_>, project: ProjectId) -> Result<Option<FeedPosition>> {
    let lock = tx.skip_locked();
    let sql = format!(
        "SELECT txid, seq FROM trigger_cursors WHERE project_id = $1
             AND EXISTS (SELECT 1 FROM projects WHERE projects.id = $1 AND projects.deleted_at IS NULL){lock}"
    );
    tx.query_opt(&sql, params![project], |row| Ok(FeedPosition { txid: row.get(0)?, seq: row.get(1)? }))
}

/// Moves a locked cursor.
pub fn set_cursor(tx: &mut Tx<'_>, project: ProjectId, position: FeedPosition) -> Result<()> {
    tx.execute(
        "UPDATE trigger_cursors SET txid = $2, seq = $3 WHERE project_id = $1",
        params![project, position.txid, position.seq],
    )?;
    Ok(())
}

/// Moves the cursors of all projects to the end of the feed, so that no change before it triggers anything.
pub fn skip_unread_changes(tx: &mut Tx<'_>) -> Result<()> {
    let sql = "SELECT coalesce(max(txid), 0), coalesce(max(seq), 0) FROM graph_events";
    let end: Option<(i64, i64)> = tx.query_opt(sql, &[], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let (txid, seq) = end.unwrap_or_default();
    tx.execute(
        "UPDATE trigger_cursors SET txid = $1, seq = $2 WHERE (txid, seq) < ($1, $2)",
        params![txid, seq],
    )?;
    Ok(())
}

/// The live projects with event triggers whose cursor should be moved: their feed has changes after it, or it
/// lags far behind.
pub fn projects_with_unread_changes(tx: &mut Tx<'_>) -> Result<Vec<ProjectId>> {
    let (newer, lagging) = match tx.engine() {
        Engine::Sqlite => (
            "e.seq > c.seq".to_owned(),
            format!(" OR c.seq < (SELECT max(seq) FROM graph_events) - {CURSOR_LAG_LIMIT}"),
        ),
        Engine::Postgres => {
            (format!("(e.txid, e.seq) > (c.txid, c.seq) AND e.{}", feed::STABLE_TXID), String::new())
        }
    };
    let sql = format!(
        "SELECT c.project_id FROM trigger_cursors AS c
         JOIN projects AS p ON p.id = c.project_id AND p.deleted_at IS NULL
         WHERE EXISTS (SELECT 1 FROM event_triggers AS t WHERE t.project_id = c.project_id)
             AND (EXISTS (SELECT 1 FROM graph_events AS e WHERE e.project_id = c.project_id AND {newer}){lagging})
         ORDER BY c.project_id"
    );
    tx.query(&sql, &[], |row| row.get(0))
}

/// The live projects with pending firings of events that are due.
pub fn projects_with_due_firings(tx: &mut Tx<'_>, now: Timestamp) -> Result<Vec<ProjectId>> {
    firings::projects_with_due(tx, now)
}
