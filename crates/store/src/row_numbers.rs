//! Allocates the numbers (`no`) of objects, relationships and chunks. PostgreSQL uses sequences. On SQLite
//! the upper bits are the number of the project, so that the rows of a project are adjacent, and so are
//! their entries in the full-text index.

use std::collections::VecDeque;

use parking_lot::Mutex;

use crate::{
    engine::Engine,
    error::{Error, Result},
    tx::Tx,
    value::Param,
};

/// How many numbers a server takes from a sequence of PostgreSQL besides those that it needs at once.
const POOL_SIZE: usize = 256;

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
    const ALL: [NumberedTable; 3] =
        [NumberedTable::Objects, NumberedTable::Relationships, NumberedTable::Chunks];

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

/// Numbers that this server has taken from the sequences of PostgreSQL and not used yet, by table. A sequence is not
/// rolled back with a transaction, so the numbers stay this server's, whatever becomes of the transaction that took
/// them. Those that are left when the server stops are never used.
///
/// If another database takes over after a failure, its sequences may be behind, and other servers get the same numbers
/// from them. The pool is therefore emptied whenever a connection breaks.
#[derive(Default)]
pub(crate) struct NumberPool(Mutex<Numbers>);

#[derive(Default)]
struct Numbers {
    free: [VecDeque<i64>; 3],
    /// How often the pool was emptied.
    generation: u64,
}

impl NumberPool {
    /// Takes up to `count` numbers. Also returns the generation, for [`NumberPool::add`].
    fn take(&self, table: NumberedTable, count: usize) -> (Vec<i64>, u64) {
        let mut numbers = self.0.lock();
        let generation = numbers.generation;
        let free = &mut numbers.free[table as usize];
        let count = count.min(free.len());
        (free.drain(..count).collect(), generation)
    }

    /// Adds numbers that were asked for in this generation. They are dropped if the pool was emptied meanwhile: the
    /// database that they came from may not be the current one.
    fn add(&self, table: NumberedTable, numbers: impl IntoIterator<Item = i64>, generation: u64) {
        let mut pool = self.0.lock();
        if pool.generation == generation {
            pool.free[table as usize].extend(numbers);
        }
    }

    /// Drops all numbers.
    pub(crate) fn clear(&self) {
        let mut numbers = self.0.lock();
        *numbers = Numbers { generation: numbers.generation + 1, ..Numbers::default() };
    }

    /// Empties the pool if its numbers may be in use: the connection broke, or a number was a duplicate. The latter becomes
    /// a conflict, so that the transaction is tried again with other numbers.
    pub(crate) fn check_error(&self, error: Error) -> Error {
        match error {
            Error::Pool(_) | Error::Unresponsive => {
                self.clear();
                error
            }
            Error::Duplicate { constraint } if is_number_constraint(&constraint) => {
                self.clear();
                Error::Conflict(constraint.into())
            }
            other => other,
        }
    }
}

/// Whether a constraint of PostgreSQL refuses rows whose number is in use.
fn is_number_constraint(constraint: &str) -> bool {
    NumberedTable::ALL.iter().any(|table| constraint.strip_suffix("_pkey") == Some(table.table()))
}

fn postgres_allocate(tx: &mut Tx<'_>, table: NumberedTable, count: usize) -> Result<Vec<i64>> {
    let pool = tx.number_pool();
    let (mut numbers, generation) = pool.as_ref().map(|pool| pool.take(table, count)).unwrap_or_default();
    if numbers.len() < count {
        let missing = count - numbers.len();
        let sql = format!("SELECT nextval('{}_no_seq') FROM generate_series(1, $1)", table.table());
        let mut taken = tx.query(&sql, &[Param::from(missing + POOL_SIZE)], |row| row.get(0))?.into_iter();
        numbers.extend(taken.by_ref().take(missing));
        if let Some(pool) = pool {
            pool.add(table, taken, generation);
        }
    }
    // Two transactions that took numbers at the same time may have added them in another order.
    numbers.sort_unstable();
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_before_a_broken_connection_are_not_used() {
        let pool = NumberPool::default();
        let (none, generation) = pool.take(NumberedTable::Chunks, 2);
        assert!(none.is_empty());
        pool.add(NumberedTable::Chunks, [1, 2, 3], generation);
        assert_eq!(pool.take(NumberedTable::Chunks, 2).0, [1, 2]);
        assert!(matches!(pool.check_error(Error::Unresponsive), Error::Unresponsive));
        assert!(pool.take(NumberedTable::Chunks, 2).0.is_empty());
        pool.add(NumberedTable::Chunks, [4, 5], generation);
        assert!(pool.take(NumberedTable::Chunks, 2).0.is_empty(), "they were asked for before");
    }

    #[test]
    fn a_number_that_is_in_use_empties_the_pool_and_is_a_conflict() {
        let pool = NumberPool::default();
        pool.add(NumberedTable::Objects, [1], 0);
        let duplicate = |constraint: &str| Error::Duplicate { constraint: constraint.to_owned() };
        let other = pool.check_error(duplicate("graph_objects_key"));
        assert!(matches!(other, Error::Duplicate { .. }), "{other:?}");
        let number = pool.check_error(duplicate("graph_objects_pkey"));
        assert!(matches!(number, Error::Conflict(_)), "{number:?}");
        assert!(pool.take(NumberedTable::Objects, 1).0.is_empty());
    }
}
