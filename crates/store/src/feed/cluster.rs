//! Keeps the order of the change feed when a PostgreSQL database moves to another cluster, as with `pg_dump`
//! and `pg_restore`.
//!
//! Positions in the feed start with a transaction id. A new cluster starts with small ids, so old changes would
//! seem to belong to transactions of the future: readers would never get to them, and new changes would come
//! before them. Such a database is recognised when it is opened, and from then on a number is added to the ids
//! of its new transactions. Positions that followers have stored stay valid.

use tokio_postgres::Transaction;

use crate::{engine::Engine, error::Result, page, tx::Tx, value::Param};

/// The highest transaction id that a position can have, and the id that no transaction has reached yet. Nearly
/// the newest changes have the highest ids, so not all of them are read.
const HIGHEST_IDS: &str = "SELECT greatest(
        (SELECT max(txid) FROM (SELECT txid FROM graph_events ORDER BY seq DESC LIMIT 1000) AS newest),
        (SELECT max(txid) FROM (SELECT txid FROM project_events ORDER BY seq DESC LIMIT 1000) AS newest),
        (SELECT max(txid) FROM project_events_end),
        (SELECT max(txid) FROM trigger_cursors),
        (SELECT max(txid) FROM feed_end),
        (SELECT max(since_txid) FROM event_triggers)),
    CAST(CAST(pg_snapshot_xmax(pg_current_snapshot()) AS text) AS bigint) + feed_offset()";

/// Records how far the feed has reached before changes are deleted from it: followers have stored such
/// positions, also if no change is left. On SQLite, positions are numbers that are never used again.
pub(crate) fn record_end(tx: &mut Tx<'_>, seqs: &[i64]) -> Result<()> {
    if tx.engine() == Engine::Sqlite {
        return Ok(());
    }
    for list in page::in_chunks(seqs) {
        let sql = format!(
            "UPDATE feed_end SET txid = greatest(txid, (SELECT max(txid) FROM graph_events WHERE seq IN ({})))",
            page::placeholders(1, list.len())
        );
        let params: Vec<Param<'_>> = list.into_iter().map(Param::from).collect();
        tx.execute(&sql, &params)?;
    }
    Ok(())
}

/// Sets the offset if the feed has transaction ids that this cluster has not reached.
pub(crate) async fn follow_cluster(tx: &Transaction<'_>) -> Result<()> {
    let row = tx.query_one(HIGHEST_IDS, &[]).await?;
    let (highest, next): (Option<i64>, i64) = (row.get(0), row.get(1));
    let Some(highest) = highest.filter(|highest| *highest >= next) else { return Ok(()) };
    let offset = highest.saturating_add(1);
    tracing::warn!(
        offset,
        "this database comes from another PostgreSQL cluster: the order of its change feed continues"
    );
    let replace = format!(
        "CREATE OR REPLACE FUNCTION feed_offset() RETURNS bigint LANGUAGE sql IMMUTABLE
         AS 'SELECT CAST({offset} AS bigint)'"
    );
    tx.batch_execute(&replace).await?;
    Ok(())
}
