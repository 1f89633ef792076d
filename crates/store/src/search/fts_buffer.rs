//! Changes of the embedded engine's full-text index, kept until the end of the group of transactions
//! they belong to. FTS5 writes what it has gathered to its tables, as a segment to be merged later,
//! before every statement that the database could have to take back: within a group that would be a
//! segment or two for each transaction, instead of one for all of them.

use std::cell::RefCell;

use rusqlite::Connection;

use super::write::{SearchIndex, delete_sql, insert_sql};
use crate::error::Result;

#[derive(Default)]
pub(crate) struct FtsBuffer(RefCell<Vec<FtsChange>>);

enum FtsChange {
    Insert { index: SearchIndex, no: i64, name: String, body: String },
    Remove { index: SearchIndex, no: i64 },
}

impl FtsBuffer {
    pub fn insert(&self, index: SearchIndex, no: i64, name: &str, body: &str) {
        let (name, body) = (name.to_owned(), body.to_owned());
        self.0.borrow_mut().push(FtsChange::Insert { index, no, name, body });
    }

    pub fn remove(&self, index: SearchIndex, no: i64) {
        self.0.borrow_mut().push(FtsChange::Remove { index, no });
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.0.borrow().len()
    }

    /// Forgets all but the first: what a transaction that failed wanted.
    pub fn truncate(&self, first: usize) {
        self.0.borrow_mut().truncate(first);
    }

    /// What could not be written waits on.
    pub fn flush(&self, conn: &Connection) -> Result<()> {
        let mut changes = self.0.take();
        for at in 0..changes.len() {
            if let Err(error) = changes[at].write(conn) {
                self.0.replace(changes.split_off(at));
                return Err(error);
            }
        }
        Ok(())
    }
}

impl FtsChange {
    fn write(&self, conn: &Connection) -> Result<()> {
        match self {
            FtsChange::Insert { index, no, name, body } => {
                conn.prepare_cached(insert_sql(*index))?.execute((no, name, body))?
            }
            FtsChange::Remove { index, no } => conn.prepare_cached(delete_sql(*index))?.execute((no,))?,
        };
        Ok(())
    }
}
