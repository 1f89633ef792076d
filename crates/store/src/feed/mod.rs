//! Reads the change feed: a reader gets every committed change of the graph exactly once, in an order that
//! never changes.
//!
//! SQLite has one writer, so the sequence numbers follow the order of the commits. PostgreSQL assigns
//! sequence numbers before a transaction commits. There, a reader stops at the oldest transaction that is
//! still open, and the order is by transaction id first.

mod cluster;
mod write;

use emergent_domain::{
    change::{Change, FeedPosition},
    ids::ProjectId,
    trigger::FeedStart,
};

use crate::{
    author,
    engine::Engine,
    error::{Error, Result},
    params,
    row::{TableRow, read_row},
    tx::Tx,
    value::Row,
};

pub(crate) use cluster::{follow_cluster, record_end};
pub(crate) use write::flush;
pub use write::{ANY_FEED_CHANNEL, NewChange, append, feed_channel};

/// The changes after a position.
#[derive(Debug, Clone, PartialEq)]
pub struct Changes {
    pub items: Vec<Change>,
    /// Where the next read continues: at the last change, or later when the changes in between belong to
    /// other projects.
    pub position: FeedPosition,
}

/// The changes of a project after a position, oldest first, at most `limit` of them.
pub fn read_after(tx: &mut Tx<'_>, project: ProjectId, after: FeedPosition, limit: usize) -> Result<Changes> {
    match tx.engine() {
        Engine::Sqlite => sqlite_read(tx, project, after, limit),
        Engine::Postgres => postgres_read(tx, project, after, limit),
    }
}

/// A position at or after every change of the project that a reader can see now.
pub fn latest(tx: &mut Tx<'_>, project: ProjectId) -> Result<FeedPosition> {
    match tx.engine() {
        Engine::Sqlite => sqlite_latest(tx),
        Engine::Postgres => postgres_latest(tx, project),
    }
}

/// The start for a follower that begins now. The follower gets every change that is committed later, even
/// when its transaction began earlier. It gets neither earlier changes nor those of this transaction.
pub fn current_start(tx: &mut Tx<'_>) -> Result<FeedStart> {
    match tx.engine() {
        Engine::Sqlite => Ok(FeedStart { after: sqlite_latest(tx)?, open: Vec::new() }),
        Engine::Postgres => postgres_current_start(tx),
    }
}

read_row! {
    Change in "graph_events" {
        position: FeedPosition { txid: "txid", seq: "seq" },
        project: "project_id",
        kind: "kind",
        entity: "entity_id",
        entity_type: "entity_type",
        version: "version",
        at: "at",
        author: author("author_token", "author_run", "author_tool_call"),
    }
}

const COLUMNS: &str = Change::COLUMNS;

/// Scans the changes of all projects. The returned position is past the changes of other projects, so
/// that a follower does not scan them again.
fn sqlite_read(tx: &mut Tx<'_>, project: ProjectId, after: FeedPosition, limit: usize) -> Result<Changes> {
    let end = sqlite_latest(tx)?;
    let sql = format!(
        "SELECT {COLUMNS} FROM graph_events WHERE project_id = $1 AND seq > $2 AND seq <= $3 ORDER BY seq LIMIT $4"
    );
    let items = tx.query(&sql, params![project, after.seq, end.seq, limit], Change::from_row)?;
    let position = match items.last() {
        Some(last) if items.len() == limit => last.position,
        _ => end.max(after),
    };
    Ok(Changes { items, position })
}

fn sqlite_latest(tx: &mut Tx<'_>) -> Result<FeedPosition> {
    let seq =
        tx.query_opt("SELECT max(seq) FROM graph_events", params![], |row| row.get::<Option<i64>>(0))?;
    Ok(FeedPosition { txid: 0, seq: seq.flatten().unwrap_or(0) })
}

/// The condition that all transactions up to that of a change have ended, so that no change can still appear
/// before it.
pub(crate) const STABLE_TXID: &str =
    "txid < CAST(CAST(pg_snapshot_xmin(pg_current_snapshot()) AS text) AS bigint) + feed_offset()";

fn postgres_read(tx: &mut Tx<'_>, project: ProjectId, after: FeedPosition, limit: usize) -> Result<Changes> {
    let sql = format!(
        "SELECT {COLUMNS} FROM graph_events WHERE project_id = $1 AND (txid, seq) > ($2, $3) AND {STABLE_TXID}
         ORDER BY txid, seq LIMIT $4"
    );
    let items = tx.query(&sql, params![project, after.txid, after.seq, limit], Change::from_row)?;
    let position = items.last().map_or(after, |last| last.position);
    Ok(Changes { items, position })
}

fn postgres_latest(tx: &mut Tx<'_>, project: ProjectId) -> Result<FeedPosition> {
    let sql = format!(
        "SELECT txid, seq FROM graph_events WHERE project_id = $1 AND {STABLE_TXID} ORDER BY txid DESC, seq DESC LIMIT 1"
    );
    let position =
        tx.query_opt(&sql, params![project], |row| Ok(FeedPosition { txid: row.get(0)?, seq: row.get(1)? }))?;
    Ok(position.unwrap_or_default())
}

fn postgres_current_start(tx: &mut Tx<'_>) -> Result<FeedStart> {
    let sql = "SELECT CAST(CAST(pg_current_xact_id() AS text) AS bigint), CAST(pg_current_snapshot() AS text), feed_offset()";
    let read = |row: &Row<'_>| Ok((row.get::<i64>(0)?, row.get::<String>(1)?, row.get::<i64>(2)?));
    let start = tx.query_opt(sql, &[], read)?.and_then(|(own_txid, snapshot, offset)| {
        let mut start = parse_snapshot(own_txid, &snapshot)?;
        start.after.txid += offset;
        start.open.iter_mut().for_each(|txid| *txid += offset);
        Some(start)
    });
    start.ok_or(Error::Column { column: 1, expected: "a snapshot" })
}

/// Builds a start from PostgreSQL's text of a snapshot, `xmin:xmax:open,open`; `None` if it has another form.
///
/// A transaction below `xmax` that is not listed as open has ended. The reading transaction, `own_txid`, is
/// left out of the list and can be at or above `xmax`. The transactions from `xmax` up to it are also open.
fn parse_snapshot(own_txid: i64, snapshot: &str) -> Option<FeedStart> {
    let mut parts = snapshot.split(':').skip(1);
    let xmax: i64 = parts.next()?.parse().ok()?;
    let listed = parts.next()?.split(',').filter(|text| !text.is_empty());
    let listed: Vec<i64> = listed.map(|text| text.parse().ok()).collect::<Option<_>>()?;
    let open = listed.into_iter().filter(|txid| *txid != own_txid).chain(xmax..own_txid).collect();
    Some(FeedStart { after: FeedPosition { txid: own_txid.max(xmax - 1), seq: i64::MAX }, open })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_follower_gets_the_changes_of_open_transactions_and_not_of_ended_ones() {
        let included = |own_txid, snapshot: &str| {
            let start = parse_snapshot(own_txid, snapshot).expect("a snapshot");
            (7..18).filter(|txid| start.includes(FeedPosition { txid: *txid, seq: 1 })).collect::<Vec<_>>()
        };
        assert_eq!(included(10, "10:10:"), [11, 12, 13, 14, 15, 16, 17], "no other transaction is open");
        assert_eq!(included(12, "8:15:8,11"), [8, 11, 15, 16, 17], "13 and 14 began later and have ended");
        assert_eq!(included(14, "8:11:8"), [8, 11, 12, 13, 15, 16, 17], "none of 11 to 13 has ended");
        assert_eq!(parse_snapshot(1, "1:x:"), None);
    }
}
