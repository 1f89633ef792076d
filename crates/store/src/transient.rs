//! Which errors of the database pass without a change of the data.

use tokio_postgres::error::SqlState;

use crate::error::Error;

impl Error {
    /// Whether the cause is the database or the way to it, and not what was to be read or written. The same
    /// transaction may succeed later: when the database answers again, has room, or is less busy.
    pub fn is_transient(&self) -> bool {
        match self {
            Error::Open { .. }
            | Error::Conflict(_)
            | Error::StorageFull(_)
            | Error::StorageCorrupt(_)
            | Error::Pool(_)
            | Error::Unresponsive
            | Error::Busy { .. }
            | Error::TooManyRows { .. }
            | Error::TooManyWrites { .. }
            | Error::Abandoned
            | Error::Closed => true,
            Error::Sqlite(error) => error.sqlite_error_code().is_some_and(is_transient_in_sqlite),
            // Without a code, the connection failed and not a statement.
            Error::Postgres(error) => error.code().is_none_or(is_transient_in_postgres),
            Error::TooNew { .. }
            | Error::UnusableBackup { .. }
            | Error::Migration { .. }
            | Error::Duplicate { .. }
            // The same transaction takes as long the next time. What caused it decides whether to try again.
            | Error::TooSlow { .. }
            | Error::TooLarge { .. }
            | Error::Column { .. }
            | Error::Unreadable { .. }
            | Error::Unwritable { .. }
            | Error::KeyUsed
            | Error::Broken
            | Error::Panicked { .. } => false,
        }
    }
}

fn is_transient_in_sqlite(code: rusqlite::ErrorCode) -> bool {
    use rusqlite::ErrorCode::{
        CannotOpen, DatabaseBusy, DatabaseLocked, DiskFull, FileLockingProtocolFailed, OperationAborted,
        OperationInterrupted, OutOfMemory, PermissionDenied, ReadOnly, SystemIoFailure,
    };
    matches!(
        code,
        CannotOpen
            | DatabaseBusy
            | DatabaseLocked
            | DiskFull
            | FileLockingProtocolFailed
            | OperationAborted
            | OperationInterrupted
            | OutOfMemory
            | PermissionDenied
            | ReadOnly
            | SystemIoFailure
    )
}

/// The classes are those of the manual of PostgreSQL: connection, read-only transaction, transaction rollback,
/// resources, lock not available, operator intervention, system error.
fn is_transient_in_postgres(code: &SqlState) -> bool {
    let code = code.code();
    code == "25006"
        || code == "55P03"
        || ["08", "40", "53", "57", "58"].iter().any(|class| code.starts_with(class))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_the_database_cannot_do_now_passes_and_what_it_refuses_does_not() {
        let sqlite =
            |code| Error::from(rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(code), None));
        use rusqlite::ffi;
        for code in [ffi::SQLITE_BUSY, ffi::SQLITE_FULL, ffi::SQLITE_IOERR_READ, ffi::SQLITE_NOMEM] {
            assert!(sqlite(code).is_transient(), "{code}");
        }
        for code in [ffi::SQLITE_CONSTRAINT_CHECK, ffi::SQLITE_TOOBIG, ffi::SQLITE_ERROR] {
            assert!(!sqlite(code).is_transient(), "{code}");
        }
        for code in ["08006", "53300", "57014", "55P03", "40001"] {
            assert!(is_transient_in_postgres(&SqlState::from_code(code)), "{code}");
        }
        for code in ["23514", "22003", "42P01"] {
            assert!(!is_transient_in_postgres(&SqlState::from_code(code)), "{code}");
        }
        assert!(Error::Busy { waited: Duration::from_secs(30) }.is_transient());
        assert!(!Error::TooSlow { limit: Duration::from_secs(30) }.is_transient());
        assert!(!Error::Duplicate { constraint: "agent_runs_turn".into() }.is_transient());
    }
}
