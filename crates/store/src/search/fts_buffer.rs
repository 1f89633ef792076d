//! Buffers changes of the SQLite full-text index until the end of a commit group. FTS5 flushes a segment
//! before every statement that could be rolled back, so writing at once would produce one or two segments
//! per transaction instead of one per group.

use std::cell::RefCell;

use rusqlite::Connection;

use super::write::{SearchIndex, delete_sql, insert_sql};
use crate::error::Result;

/// The buffered changes, in the order in which they were made.
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

    /// The number of buffered changes.
    pub fn len(&self) -> usize {
        self.0.borrow().len()
    }

    /// Drops all changes after the first `length`, which belong to a failed transaction.
    pub fn truncate(&self, length: usize) {
        self.0.borrow_mut().truncate(length);
    }

    /// Writes all buffered changes to the index. Changes that could not be written stay in the buffer.
    pub fn flush(&self, conn: &Connection) -> Result<()> {
        let mut changes = self.0.take();
        for index in 0..changes.len() {
            if let Err(error) = changes[index].write(conn) {
                self.0.replace(changes.split_off(index));
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
