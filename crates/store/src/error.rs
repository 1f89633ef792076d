//! The errors of the store, distinguished by what a caller can do about them.

use crate::row;

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
    #[error("no connection to the database")]
    Pool(#[source] Box<dyn std::error::Error + Send + Sync>),
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
    /// Builds [`Error::Unreadable`] with a shortened value. `column` may have a table alias.
    pub(crate) fn unreadable(table: &'static str, column: &'static str, value: &str) -> Self {
        let mut shown: String = value.chars().take(MAX_SHOWN_CHARS).collect();
        if shown.len() < value.len() {
            shown.push('…');
        }
        Error::Unreadable { table, column: row::without_alias(column), value: shown }
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
                _ => Error::Sqlite(error),
            },
            _ => Error::Sqlite(error),
        }
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
            _ => Error::Postgres(error),
        }
    }
}
