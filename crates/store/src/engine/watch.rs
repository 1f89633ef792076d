//! Stops the statements of a SQLite connection when their transaction is over its limits.

use std::sync::Arc;

use parking_lot::Mutex;
use rusqlite::Connection;

use crate::{error::Result, limits::TxLimits};

/// How many instructions of SQLite's virtual machine are executed between two checks: some ten microseconds of
/// simple instructions. Reading a row by its id takes fewer, so it is never checked.
const INSTRUCTIONS: i32 = 1_000;

/// The limits of the transaction that a connection runs; `None` between transactions.
#[derive(Clone)]
pub(crate) struct Watch(Arc<Mutex<Option<Arc<TxLimits>>>>);

impl Watch {
    /// Makes SQLite check the limits while it runs a statement.
    pub(crate) fn install(conn: &mut Connection) -> Result<Self> {
        let watch = Self(Arc::default());
        let limits = Arc::clone(&watch.0);
        let must_stop = move || limits.lock().as_ref().is_some_and(|limits| limits.is_over());
        conn.progress_handler(INSTRUCTIONS, Some(must_stop))?;
        Ok(watch)
    }

    /// Runs work whose statements are stopped when it is over these limits.
    pub(crate) fn limit<T>(&self, limits: &Arc<TxLimits>, work: impl FnOnce() -> T) -> T {
        *self.0.lock() = Some(Arc::clone(limits));
        let result = work();
        *self.0.lock() = None;
        result
    }
}
