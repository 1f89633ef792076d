//! The errors of the store, distinguished by what a caller can do about them.

use std::time::Duration;

use crate::{row, storage_health::StorageFault};

/// What went wrong in the store.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// `place` is the path of the file, or the URL without its password.
    #[error("could not open the database at `{place}`")]
    Open {
        place: String,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    #[error(
        "the database is at schema version {found}, this program knows up to {known}: \
         it was used by a newer version; start that one, or restore a backup"
    )]
    TooNew { found: i64, known: i64 },
    /// `place` is the path of the file that was to be copied or restored.
    #[error("`{place}` cannot be used as a backup: {reason}")]
    UnusableBackup { place: String, reason: String },
    #[error("migration `{name}` failed")]
    Migration {
        name: String,
        #[source]
        source: Box<Error>,
    },
    /// A unique index or primary key refused a row. Callers recognise it by the constraint's name.
    /// SQLite gives its whole message instead, which contains the columns.
    #[error("a row with the same unique value exists already ({constraint})")]
    Duplicate { constraint: String },
    /// Two transactions conflicted. On PostgreSQL, [`crate::Db::write`] retries a few times before it
    /// returns this error.
    #[error("the transaction conflicted with another one; retry it")]
    Conflict(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("the database refused a statement")]
    Sqlite(#[source] rusqlite::Error),
    #[error("the database refused a statement")]
    Postgres(#[source] tokio_postgres::Error),
    /// There is no room left for the database, or a quota or file limit is reached. Nothing was written;
    /// the same write succeeds when there is room again.
    #[error("there is no room left to store the data")]
    StorageFull(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// A page of the database is damaged.
    #[error("the stored data is damaged")]
    StorageCorrupt(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("no connection to the database")]
    Pool(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// No answer came from the database, and cancelling the statement did not help. Whether a commit that was
    /// under way has happened is unknown.
    #[error("the database does not answer")]
    Unresponsive,
    /// All connections were in use for as long as a caller may wait.
    #[error("no connection to the database became free within {} seconds", waited.as_secs())]
    Busy { waited: Duration },
    /// As many writes of the requester wait as may. Nothing was written.
    #[error("{limit} writes of this project wait for the database, which is the limit")]
    TooManyWrites { limit: usize },
    /// Other requests of the requester had as many rows in memory as they may, for as long as a caller may wait.
    #[error(
        "the requests of this project had rows of more than {limit} bytes in memory for {} seconds, which is the limit",
        waited.as_secs()
    )]
    TooManyRows { limit: usize, waited: Duration },
    /// The transaction was stopped and rolled back.
    #[error("the transaction took longer than the limit of {} seconds", limit.as_secs_f32())]
    TooSlow { limit: Duration },
    /// The rows that a read collected are more than may be in memory.
    #[error("the result is larger than the limit of {limit} bytes")]
    TooLarge { limit: usize },
    /// The read was stopped, because its caller was dropped.
    #[error("the read was stopped, because nobody waits for it")]
    Abandoned,
    /// A column of a result has another type than the code expects.
    #[error("column {column} does not hold {expected}")]
    Column { column: usize, expected: &'static str },
    /// A column holds an enum value or a JSON structure that this version does not know. No default is
    /// assumed, because the server would act on that guess or write it back.
    #[error(
        "table `{table}`, column `{column}` holds `{value}`, which this version does not know; \
         a newer server may have written it: update this server, or correct the row"
    )]
    Unreadable { table: &'static str, column: &'static str, value: String },
    #[error("the value for column `{column}` of table `{table}` could not be written as JSON")]
    Unwritable {
        table: &'static str,
        column: &'static str,
        #[source]
        source: serde_json::Error,
    },
    /// Another request accepted work with the same idempotency key. Nothing was written.
    #[error("another request with the same idempotency key was accepted before")]
    KeyUsed,
    /// The closure of the transaction ignored the error of a statement and returned `Ok`.
    #[error("a statement of the transaction failed, so the whole transaction was rolled back")]
    Broken,
    #[error("the database is shutting down")]
    Closed,
    #[error("a transaction panicked and was rolled back: {message}")]
    Panicked { message: String },
}

/// How many characters of an unreadable value an error shows.
const MAX_SHOWN_CHARS: usize = 60;

impl Error {
    /// What is wrong with the storage, if that is why the statement failed.
    pub fn storage_fault(&self) -> Option<StorageFault> {
        match self {
            Error::StorageFull(_) => Some(StorageFault::Full),
            Error::StorageCorrupt(_) => Some(StorageFault::Corrupt),
            _ => None,
        }
    }

    /// Builds [`Error::StorageFull`] or [`Error::StorageCorrupt`].
    pub(crate) fn from_fault(
        fault: StorageFault,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        match fault {
            StorageFault::Full => Error::StorageFull(source.into()),
            StorageFault::Corrupt => Error::StorageCorrupt(source.into()),
        }
    }

    /// Builds [`Error::Unreadable`] with a shortened value. `column` may have a table alias.
    pub(crate) fn unreadable(table: &'static str, column: &'static str, value: &str) -> Self {
        let mut shown: String = value.chars().take(MAX_SHOWN_CHARS).collect();
        if shown.len() < value.len() {
            shown.push('…');
        }
        Error::Unreadable { table, column: row::without_alias(column), value: shown }
    }

    /// The code (SQLSTATE) with which PostgreSQL refused a connection or a statement.
    pub fn postgres_code(&self) -> Option<&str> {
        let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(self);
        while let Some(error) = cause {
            if let Some(error) = error.downcast_ref::<tokio_postgres::Error>() {
                return error.code().map(tokio_postgres::error::SqlState::code);
            }
            cause = error.source();
        }
        None
    }

    /// Whether the database says that the statement was stopped from outside.
    pub(crate) fn is_interruption(&self) -> bool {
        match self {
            Error::Sqlite(rusqlite::Error::SqliteFailure(failure, _)) => {
                failure.code == rusqlite::ErrorCode::OperationInterrupted
            }
            Error::Postgres(error) => error.code() == Some(&tokio_postgres::error::SqlState::QUERY_CANCELED),
            _ => false,
        }
    }
}

pub type Result<T, E = Error> = std::result::Result<T, E>;

impl From<rusqlite::Error> for Error {
    fn from(error: rusqlite::Error) -> Self {
        use rusqlite::{
            ErrorCode::{ConstraintViolation, DatabaseBusy, DatabaseLocked},
            ffi::{SQLITE_CONSTRAINT_PRIMARYKEY, SQLITE_CONSTRAINT_UNIQUE},
        };
        match &error {
            rusqlite::Error::SqliteFailure(failure, message) => match failure.code {
                ConstraintViolation
                    if matches!(
                        failure.extended_code,
                        SQLITE_CONSTRAINT_UNIQUE | SQLITE_CONSTRAINT_PRIMARYKEY
                    ) =>
                {
                    Error::Duplicate { constraint: message.clone().unwrap_or_default() }
                }
                DatabaseBusy | DatabaseLocked => Error::Conflict(Box::new(error)),
                _ => match sqlite_fault(failure) {
                    Some(fault) => Error::from_fault(fault, error),
                    None => Error::Sqlite(error),
                },
            },
            _ => Error::Sqlite(error),
        }
    }
}

/// SQLite reports a full disk as `SQLITE_FULL`, and other reasons why a file cannot grow, such as a quota or a
/// limit on the size of files, as a failed write.
fn sqlite_fault(failure: &rusqlite::ffi::Error) -> Option<StorageFault> {
    use rusqlite::ffi;
    match failure.extended_code {
        ffi::SQLITE_IOERR_WRITE | ffi::SQLITE_IOERR_SHMSIZE | ffi::SQLITE_IOERR_TRUNCATE => {
            Some(StorageFault::Full)
        }
        _ => match failure.code {
            rusqlite::ErrorCode::DiskFull => Some(StorageFault::Full),
            rusqlite::ErrorCode::DatabaseCorrupt | rusqlite::ErrorCode::NotADatabase => {
                Some(StorageFault::Corrupt)
            }
            _ => None,
        },
    }
}

/// The class of an error of PostgreSQL that says something about its storage.
fn postgres_fault(code: &tokio_postgres::error::SqlState) -> Option<StorageFault> {
    use tokio_postgres::error::SqlState;
    if *code == SqlState::DISK_FULL {
        Some(StorageFault::Full)
    } else if *code == SqlState::DATA_CORRUPTED || *code == SqlState::INDEX_CORRUPTED {
        Some(StorageFault::Corrupt)
    } else {
        None
    }
}

impl From<tokio_postgres::Error> for Error {
    fn from(error: tokio_postgres::Error) -> Self {
        use tokio_postgres::error::SqlState;
        match error.as_db_error() {
            Some(db_error) if *db_error.code() == SqlState::UNIQUE_VIOLATION => {
                Error::Duplicate { constraint: db_error.constraint().unwrap_or_default().to_owned() }
            }
            Some(db_error)
                if *db_error.code() == SqlState::T_R_SERIALIZATION_FAILURE
                    || *db_error.code() == SqlState::T_R_DEADLOCK_DETECTED =>
            {
                Error::Conflict(Box::new(error))
            }
            Some(db_error) if is_shutdown(db_error.code()) => Error::Pool(Box::new(error)),
            Some(db_error) => match postgres_fault(db_error.code()) {
                Some(fault) => Error::from_fault(fault, error),
                None => Error::Postgres(error),
            },
            None if error.is_closed() || is_io(&error) => Error::Pool(Box::new(error)),
            None => Error::Postgres(error),
        }
    }
}

/// Whether the database server is stopping or starting.
fn is_shutdown(code: &tokio_postgres::error::SqlState) -> bool {
    use tokio_postgres::error::SqlState;
    [SqlState::ADMIN_SHUTDOWN, SqlState::CRASH_SHUTDOWN, SqlState::CANNOT_CONNECT_NOW].contains(code)
}

/// Whether the connection broke.
fn is_io(error: &tokio_postgres::Error) -> bool {
    std::error::Error::source(error).is_some_and(|source| source.is::<std::io::Error>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_codes_of_the_engines_name_what_is_wrong_with_the_storage() {
        let sqlite = |code| {
            let error = rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(code), None);
            Error::from(error).storage_fault()
        };
        use rusqlite::ffi;
        assert_eq!(sqlite(ffi::SQLITE_FULL), Some(StorageFault::Full));
        assert_eq!(sqlite(ffi::SQLITE_IOERR_WRITE), Some(StorageFault::Full));
        assert_eq!(sqlite(ffi::SQLITE_CORRUPT), Some(StorageFault::Corrupt));
        assert_eq!(sqlite(ffi::SQLITE_NOTADB), Some(StorageFault::Corrupt));
        assert_eq!(sqlite(ffi::SQLITE_IOERR_READ), None);
        let postgres = |code| postgres_fault(&tokio_postgres::error::SqlState::from_code(code));
        assert_eq!(postgres("53100"), Some(StorageFault::Full));
        assert_eq!(postgres("XX001"), Some(StorageFault::Corrupt));
        assert_eq!(postgres("23505"), None);
    }
}
