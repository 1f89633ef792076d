//! The connections to SQLite that read. They never wait for the writer.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::Arc,
};

use parking_lot::Mutex;
use rusqlite::Connection;

use crate::{
    engine::{
        slots::Slots,
        sqlite_connection::{connect, exec},
        watch::Watch,
        work::{ReadWork, panic_error},
    },
    error::Result,
    limits::TxLimits,
    storage_health::StorageHealth,
    tx::{Conn, Tx},
};

/// The maximum number of connections that read.
const READER_COUNT: usize = 6;
/// The number of further connections that are reserved for leases, health checks and authentication.
const RESERVED_READER_COUNT: usize = 2;

/// The connections that read, opened on demand.
pub(super) struct Readers {
    path: PathBuf,
    idle: Mutex<Vec<Reader>>,
    /// One slot for each connection that may be in use.
    slots: Slots,
}

impl Readers {
    pub(super) fn new(path: &Path) -> Self {
        let slots = Slots::new(READER_COUNT, RESERVED_READER_COUNT);
        Self { path: path.to_owned(), idle: Mutex::default(), slots }
    }

    pub(super) fn slots(&self) -> Slots {
        self.slots.clone()
    }

    /// Runs reads within their limits. The caller has a slot.
    pub(super) fn read(
        &self,
        snapshot: bool,
        limits: &Arc<TxLimits>,
        health: &StorageHealth,
        work: ReadWork,
    ) -> Result<()> {
        let reader = self.checkout()?;
        let result = reader.read(snapshot, limits, health, work)?;
        self.idle.lock().push(reader);
        result
    }

    /// Takes an idle connection, or opens one. The caller has a slot.
    fn checkout(&self) -> Result<Reader> {
        if let Some(reader) = self.idle.lock().pop() {
            return Ok(reader);
        }
        let mut conn = connect(&self.path)?;
        conn.pragma_update(None, "query_only", true)?;
        let watch = Watch::install(&mut conn)?;
        Ok(Reader { conn, watch })
    }
}

/// A connection that reads.
struct Reader {
    conn: Connection,
    watch: Watch,
}

impl Reader {
    /// Runs reads within their limits. The outer error means that the connection cannot be used again.
    fn read(
        &self,
        snapshot: bool,
        limits: &Arc<TxLimits>,
        health: &StorageHealth,
        work: ReadWork,
    ) -> Result<Result<()>> {
        if snapshot {
            exec(&self.conn, "BEGIN DEFERRED")?;
        }
        limits.start();
        let result = self.watch.limit(limits, || {
            let mut tx = Tx::new(Conn::Sqlite(&self.conn, None), Arc::clone(limits));
            let result = catch_unwind(AssertUnwindSafe(|| work(&mut tx)));
            if let Some((fault, reason)) = tx.fault.take() {
                health.report(fault, reason);
            }
            result
        });
        if snapshot {
            exec(&self.conn, "COMMIT")?;
        }
        Ok(result.map_err(|panic| panic_error(panic.as_ref())))
    }
}
