//! The statistics by which PostgreSQL plans statements. Its autovacuum renews them about a minute after a table has
//! changed. Until then a table that grows from nothing counts as tiny, and the plans of that time, which are kept with
//! the prepared statements, read more of it with every row. The servers therefore renew them as soon as a table has
//! doubled. SQLite has estimates in its schema.

use crate::{engine::Engine, error::Result, tx::Tx};

/// A table with fewer pages than this is small enough for any plan.
const SMALL_TABLE_PAGES: i64 = 16;

/// The tables that have at least twice as many pages as when their statistics were made. It reads only the catalogue
/// and the sizes of files.
pub fn list_outgrown(tx: &mut Tx<'_>) -> Result<Vec<String>> {
    list_larger_than(tx, 200)
}

/// Like [`list_outgrown`], but the tables that have grown by a tenth. At the end of a bulk load it says which tables were
/// filled; while a table grows, its statistics would be renewed too often.
pub fn list_grown(tx: &mut Tx<'_>) -> Result<Vec<String>> {
    list_larger_than(tx, 110)
}

/// The tables with more pages than this percentage of what they had when their statistics were made.
fn list_larger_than(tx: &mut Tx<'_>, percent: i64) -> Result<Vec<String>> {
    list_tables(
        tx,
        &format!(
            "100 * {PAGES} > {percent} * greatest(CAST(c.relpages AS bigint), 0) + 100 * {SMALL_TABLE_PAGES}"
        ),
    )
}

/// The tables without any statistics that are not small. A table that was restored from a dump has its size in the
/// catalogue, because that is set when its indexes are built, but its statistics are not in the dump.
pub fn list_unanalysed(tx: &mut Tx<'_>) -> Result<Vec<String>> {
    list_tables(
        tx,
        &format!(
            "{PAGES} > {SMALL_TABLE_PAGES} AND NOT EXISTS (
                 SELECT 1 FROM pg_stats AS s WHERE s.schemaname = 'kb' AND s.tablename = c.relname)"
        ),
    )
}

/// How many pages the table `c` has now.
const PAGES: &str = "(pg_relation_size(c.oid) / CAST(current_setting('block_size') AS bigint))";

/// The tables for which a condition on `pg_class AS c` holds; none on SQLite.
fn list_tables(tx: &mut Tx<'_>, condition: &str) -> Result<Vec<String>> {
    if tx.engine() == Engine::Sqlite {
        return Ok(Vec::new());
    }
    let sql = format!(
        "SELECT quote_ident(c.relname) FROM pg_class AS c
         WHERE c.relnamespace = 'kb'::regnamespace AND c.relkind = 'r' AND {condition} ORDER BY 1"
    );
    tx.query(&sql, &[], |row| row.get(0))
}

/// Renews the statistics of a table, unless another server does so at this moment. Plans that were made with the
/// previous ones are made again.
pub fn renew(tx: &mut Tx<'_>, table: &str) -> Result<()> {
    if tx.engine() == Engine::Postgres {
        tx.execute(&format!("ANALYZE (SKIP_LOCKED) kb.{table}"), &[])?;
    }
    Ok(())
}
