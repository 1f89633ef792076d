//! Buffers changes of the SQLite full-text index until the end of a commit group. FTS5 flushes a segment
//! before every statement that could be rolled back, so writing at once would produce one or two segments
//! per transaction instead of one per group.

use std::cell::{Cell, RefCell};

use rusqlite::Connection;

use super::write::{SearchIndex, delete_sql, insert_sql};
use crate::{error::Result, limits::TxLimits};

/// The buffered changes, in the order in which they were made.
#[derive(Default)]
pub(crate) struct FtsBuffer {
    changes: RefCell<Vec<FtsChange>>,
    /// The size of the changes.
    bytes: Cell<usize>,
}

enum FtsChange {
    Insert { index: SearchIndex, no: i64, name: String, body: String },
    Remove { index: SearchIndex, no: i64 },
}

impl FtsBuffer {
    pub fn insert(&self, index: SearchIndex, no: i64, name: &str, body: &str) {
        let (name, body) = (name.to_owned(), body.to_owned());
        self.push(FtsChange::Insert { index, no, name, body });
    }

    pub fn remove(&self, index: SearchIndex, no: i64) {
        self.push(FtsChange::Remove { index, no });
    }

    fn push(&self, change: FtsChange) {
        self.bytes.set(self.bytes.get() + change.bytes());
        self.changes.borrow_mut().push(change);
    }

    fn replace(&self, changes: Vec<FtsChange>) {
        self.bytes.set(changes.iter().map(FtsChange::bytes).sum());
        self.changes.replace(changes);
    }

    /// The number of buffered changes.
    pub fn len(&self) -> usize {
        self.changes.borrow().len()
    }

    /// The size of the buffered changes.
    pub fn bytes(&self) -> usize {
        self.bytes.get()
    }

    /// Drops all changes after the first `length`, which belong to a failed transaction.
    pub fn truncate(&self, length: usize) {
        let mut changes = self.changes.take();
        changes.truncate(length);
        self.replace(changes);
    }

    /// Writes all buffered changes to the index. Changes that could not be written stay in the buffer.
    pub fn flush(&self, conn: &Connection) -> Result<()> {
        self.flush_while(conn, || Ok(()))
    }

    /// Like [`FtsBuffer::flush`], and fails when the transaction is over its limits.
    pub fn flush_within(&self, conn: &Connection, limits: &TxLimits) -> Result<()> {
        self.flush_while(conn, || limits.check())
    }

    fn flush_while(&self, conn: &Connection, check: impl Fn() -> Result<()>) -> Result<()> {
        let mut changes = self.changes.take();
        self.bytes.set(0);
        for index in 0..changes.len() {
            if let Err(error) = check().and_then(|()| changes[index].write(conn)) {
                self.replace(changes.split_off(index));
                return Err(error);
            }
        }
        Ok(())
    }
}

/// What a change needs beside its text, about.
const CHANGE_BYTES: usize = 64;

impl FtsChange {
    fn bytes(&self) -> usize {
        match self {
            FtsChange::Insert { name, body, .. } => CHANGE_BYTES + name.len() + body.len(),
            FtsChange::Remove { .. } => CHANGE_BYTES,
        }
    }

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
