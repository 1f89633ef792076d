//! Event triggers, and the cursor of each project: how far its change feed was read for them. A transaction that moves
//! the cursor of a project or fires its triggers locks the cursor first and the triggers second.

use emergent_domain::{
    change::FeedPosition,
    ids::{AgentId, ProjectId},
    time::Timestamp,
    trigger::{EventKind, EventTrigger, FeedStart},
};

use crate::{
    claimable,
    engine::Engine,
    error::{Error, Result},
    feed, page, params,
    row::{TableRow, row},
    tx::Tx,
    value::Param,
};

pub mod firings;
pub mod totals;
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

/// The event triggers of a project for these events, by agent, and those for an event that this version does not know.
/// One unreadable trigger is an error for the whole project: a caller that moves the cursor would lose the events of
/// that trigger.
pub fn list_for_events(
    tx: &mut Tx<'_>,
    project: ProjectId,
    events: &[EventKind],
) -> Result<Vec<EventTrigger>> {
    let names = |events: &[EventKind]| -> String {
        events.iter().map(|event| format!("'{event}'")).collect::<Vec<_>>().join(", ")
    };
    let asked_for =
        if events.is_empty() { String::new() } else { format!("event IN ({}) OR ", names(events)) };
    let sql = format!(
        "SELECT {COLUMNS} FROM event_triggers
         WHERE project_id = $1 AND ({asked_for}event NOT IN ({})) ORDER BY agent_id",
        names(EventKind::ALL)
    );
    tx.query(&sql, params![project], EventTrigger::from_row)
}

/// Event triggers, for a caller that can skip unreadable ones.
#[derive(Debug, Default)]
pub struct ReadTriggers {
    pub readable: Vec<EventTrigger>,
    /// The agents whose trigger this version cannot read. Their firings are left to a newer server.
    pub unreadable: Vec<AgentId>,
    /// How many bytes the settings and the workflows of the triggers have.
    pub bytes: usize,
}

/// The event triggers of these agents that still have one, locked against changes until the transaction ends.
pub fn lock_readable(tx: &mut Tx<'_>, agents: &[AgentId]) -> Result<ReadTriggers> {
    let lock = tx.for_share();
    read_readable(tx, agents, lock)
}

/// As [`lock_readable`], without a lock.
pub fn list_readable(tx: &mut Tx<'_>, agents: &[AgentId]) -> Result<ReadTriggers> {
    read_readable(tx, agents, "")
}

fn read_readable(tx: &mut Tx<'_>, agents: &[AgentId], lock: &str) -> Result<ReadTriggers> {
    let mut read = ReadTriggers::default();
    let bytes = totals::row_bytes_sql(tx.engine());
    for list in page::in_chunks(agents) {
        let sql = format!(
            "SELECT {COLUMNS}, {bytes} FROM event_triggers WHERE agent_id IN ({}) ORDER BY agent_id{lock}",
            page::placeholders(1, list.len())
        );
        let params: Vec<Param<'_>> = list.into_iter().map(Param::from).collect();
        tx.query(&sql, &params, |row| {
            let bytes: i64 = row.get(EventTrigger::COLUMN_COUNT)?;
            read.bytes += usize::try_from(bytes).unwrap_or(0);
            match EventTrigger::from_row(row) {
                Ok(trigger) => read.readable.push(trigger),
                Err(error @ Error::Unreadable { .. }) => {
                    let agent: AgentId = row.get(0)?;
                    claimable::log_once(EventTrigger::TABLE, agent.0, &error);
                    read.unreadable.push(agent);
                }
                Err(error) => return Err(error),
            }
            Ok(())
        })?;
    }
    Ok(read)
}

/// The ids of the event triggers of a project that start workflows. No agent has such an id.
pub fn list_workflow_triggers(tx: &mut Tx<'_>, project: ProjectId) -> Result<Vec<AgentId>> {
    let sql =
        "SELECT agent_id FROM event_triggers WHERE project_id = $1 AND name IS NOT NULL ORDER BY agent_id";
    tx.query(sql, params![project], |row| row.get(0))
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
    read_cursor(tx, project, lock)
}

fn read_cursor(tx: &mut Tx<'_>, project: ProjectId, lock: &str) -> Result<Option<FeedPosition>> {
    let sql = format!(
        "SELECT txid, seq FROM trigger_cursors WHERE project_id = $1
             AND EXISTS (SELECT 1 FROM projects WHERE projects.id = $1 AND projects.deleted_at IS NULL){lock}"
    );
    tx.query_opt(&sql, params![project], |row| Ok(FeedPosition { txid: row.get(0)?, seq: row.get(1)? }))
}

/// The cursor of a live project; `None` when the project has no cursor or was deleted.
pub fn get_cursor(tx: &mut Tx<'_>, project: ProjectId) -> Result<Option<FeedPosition>> {
    read_cursor(tx, project, "")
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
