//! Allocates the numbers (`no`) of objects, relationships and chunks. PostgreSQL uses sequences. On SQLite
//! the upper bits are the number of the project, so that the rows of a project are adjacent, and so are
//! their entries in the full-text index.

use crate::{engine::Engine, error::Result, tx::Tx, value::Param};

/// The bits for the rows of one project: about 10^12 rows.
const ROW_BITS: u32 = 40;

/// A table whose rows have numbers.
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

/// The numbers that the rows of a project can have on SQLite.
pub fn range(project_no: i64) -> std::ops::Range<i64> {
    (project_no << ROW_BITS)..((project_no + 1) << ROW_BITS)
}

/// Returns `count` unused numbers in ascending order. `project_no` matters on SQLite only.
pub fn allocate(tx: &mut Tx<'_>, table: NumberedTable, project_no: i64, count: usize) -> Result<Vec<i64>> {
    match tx.engine() {
        Engine::Sqlite => sqlite_allocate(tx, table, project_no, count),
        Engine::Postgres => postgres_allocate(tx, table, count),
    }
}

/// The highest number is the last that was allocated, because there is one writer, and rows are deleted
/// only of deleted projects.
fn sqlite_allocate(tx: &mut Tx<'_>, table: NumberedTable, project_no: i64, count: usize) -> Result<Vec<i64>> {
    let range = range(project_no);
    let sql = match table {
        NumberedTable::Objects => "SELECT max(no) FROM graph_objects WHERE no >= $1 AND no < $2",
        NumberedTable::Relationships => "SELECT max(no) FROM graph_relationships WHERE no >= $1 AND no < $2",
        NumberedTable::Chunks => "SELECT max(no) FROM document_chunks WHERE no >= $1 AND no < $2",
    };
    let highest: Option<Option<i64>> =
        tx.query_opt(sql, &[Param::from(range.start), Param::from(range.end)], |row| row.get(0))?;
    let first = highest.flatten().unwrap_or(range.start) + 1;
    Ok((first..).take(count).collect())
}

fn postgres_allocate(tx: &mut Tx<'_>, table: NumberedTable, count: usize) -> Result<Vec<i64>> {
    let sql = format!("SELECT nextval('{}_no_seq') FROM generate_series(1, $1)", table.table());
    tx.query(&sql, &[Param::from(count)], |row| row.get(0))
}
