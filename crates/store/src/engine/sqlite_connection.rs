//! Opens the connections to SQLite.

use std::{path::Path, thread, time::Duration};

use rusqlite::{
    Connection, ErrorCode, OpenFlags,
    config::DbConfig,
    functions::{Context, FunctionFlags},
};

use crate::error::Result;

/// How long a connection waits for a lock before the statement fails.
pub(crate) const BUSY_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a connection waits before it tries again what SQLite does not wait for.
const BUSY_PAUSE: Duration = Duration::from_millis(5);
const STATEMENT_CACHE_CAPACITY: usize = 256;

/// Opens the file, and creates it if it does not exist.
pub(super) fn connect(path: &Path) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_URI;
    let conn = Connection::open_with_flags(path, flags)?;
    conn.busy_timeout(BUSY_TIMEOUT)?;
    conn.set_prepared_statement_cache_capacity(STATEMENT_CACHE_CAPACITY);
    // The query planner stability guarantee: otherwise SQLite would plan a statement again whenever bound
    // values that affect the plan change.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    // Rows of runs have about a kilobyte. With the default page size of 4096 bytes, a fifth of a page would
    // stay empty.
    conn.pragma_update(None, "page_size", 8_192)?;
    use_write_ahead_log(&conn)?;
    // With FULL in WAL mode, an acknowledged commit is on disk, not only in the system's cache.
    conn.pragma_update(None, "synchronous", "full")?;
    conn.pragma_update(None, "temp_store", "memory")?;
    conn.pragma_update(None, "cache_size", -16_000)?;
    // In pages.
    conn.pragma_update(None, "wal_autocheckpoint", 2_000)?;
    // In bytes.
    conn.pragma_update(None, "journal_size_limit", 64 << 20)?;
    crate::search::sqlite::register(&conn)?;
    register_lower(&conn)?;
    Ok(conn)
}

/// Sets the journal mode of a new file. The change needs the file for itself alone, and SQLite does not wait for
/// that: two servers that open a new file together would both hold a lock that the other one needs, so one of them
/// is told at once that the file is busy. That one tries again.
fn use_write_ahead_log(conn: &Connection) -> Result<()> {
    let mut attempts = BUSY_TIMEOUT.as_millis() / BUSY_PAUSE.as_millis();
    loop {
        match conn.pragma_update(None, "journal_mode", "wal") {
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) && attempts > 0 => {
                attempts -= 1;
                #[expect(
                    clippy::disallowed_methods,
                    reason = "connections are opened on threads that may block"
                )]
                thread::sleep(BUSY_PAUSE);
            }
            result => return Ok(result?),
        }
    }
}

/// Adds the function of [`Engine::lower_function`](super::Engine::lower_function).
fn register_lower(conn: &Connection) -> Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    let lower = |context: &Context<'_>| {
        let text: Option<String> = context.get(0)?;
        Ok(text.map(|text| text.to_lowercase()))
    };
    Ok(conn.create_scalar_function("unicode_lower", 1, flags, lower)?)
}

/// Runs a statement without parameters.
pub(super) fn exec(conn: &Connection, sql: &str) -> Result<()> {
    conn.prepare_cached(sql)?.raw_execute()?;
    Ok(())
}
