//! Row numbers. PostgreSQL counts by sequence. In the embedded engine the project's number is in
//! the upper bits, so that a project's rows, and with them its part of the full-text index, lie
//! together.

use crate::{engine::Engine, error::Result, tx::Tx, value::Param};

/// Bits for the rows of one project: a million million of them.
const ROW_BITS: u32 = 40;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NumberedTable {
    Objects,
    Relationships,
    Chunks,
}

impl NumberedTable {
    fn table(self) -> &'static str {
        match self {
            NumberedTable::Objects => "graph_objects",
            NumberedTable::Relationships => "graph_relationships",
            NumberedTable::Chunks => "document_chunks",
        }
    }
}

/// The numbers a project's rows can have in the embedded engine.
pub fn range(project_no: i64) -> std::ops::Range<i64> {
    (project_no << ROW_BITS)..((project_no + 1) << ROW_BITS)
}

/// As many unused numbers as asked for, in rising order.
pub fn allocate(tx: &mut Tx<'_>, of: NumberedTable, project_no: i64, count: usize) -> Result<Vec<i64>> {
    match tx.engine() {
        Engine::Sqlite => sqlite_next(tx, of, project_no, count),
        Engine::Postgres => postgres_next(tx, of, count),
    }
}

/// One writer, and rows that are never removed: the highest number is the last one given.
fn sqlite_next(tx: &mut Tx<'_>, of: NumberedTable, project_no: i64, count: usize) -> Result<Vec<i64>> {
    let range = range(project_no);
    let sql = match of {
        NumberedTable::Objects => "SELECT max(no) FROM graph_objects WHERE no >= $1 AND no < $2",
        NumberedTable::Relationships => "SELECT max(no) FROM graph_relationships WHERE no >= $1 AND no < $2",
        NumberedTable::Chunks => "SELECT max(no) FROM document_chunks WHERE no >= $1 AND no < $2",
    };
    let highest: Option<Option<i64>> =
        tx.query_opt(sql, &[Param::from(range.start), Param::from(range.end)], |row| row.get(0))?;
    let first = highest.flatten().unwrap_or(range.start) + 1;
    Ok((first..).take(count).collect())
}

fn postgres_next(tx: &mut Tx<'_>, of: NumberedTable, count: usize) -> Result<Vec<i64>> {
    let sql = format!("SELECT nextval('{}_no_seq') FROM generate_series(1, $1)", of.table());
    tx.query(&sql, &[Param::from(count)], |row| row.get(0))
}
