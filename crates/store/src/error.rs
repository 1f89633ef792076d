//! The errors of the store, distinguished by what a caller can do about them.

use crate::row;

#[derive(Debug, thiserror::Error)]
pub enum Error {
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
    #[error("migration `{name}` failed")]
    Migration {
        name: String,
        #[source]
        source: Box<Error>,
    },
    /// A unique index refused a row. Callers look for it by the constraint's name.
    #[error("a row with the same unique value exists already ({constraint})")]
    Duplicate { constraint: String },
    /// Two transactions conflicted. [`crate::Db::write`] retries by itself.
    #[error("the transaction conflicted with another one; retry it")]
    Conflict(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("the database refused a statement")]
    Sqlite(#[source] rusqlite::Error),
    #[error("the database refused a statement")]
    Postgres(#[source] tokio_postgres::Error),
    #[error("no connection to the database")]
    Pool(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("column {column} does not hold {expected}")]
    Column { column: usize, expected: &'static str },
    /// A column holds a word or a structure that this version does not know. It is not replaced by
    /// another value, because that guess would be acted on or written back.
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
    #[error("a statement of the transaction failed, so the whole transaction was rolled back")]
    Broken,
    #[error("the database is shutting down")]
    Closed,
    #[error("a transaction panicked and was rolled back: {message}")]
    Panicked { message: String },
}

/// How much of an unreadable value an error shows.
const MAX_SHOWN_CHARS: usize = 60;

impl Error {
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
        use rusqlite::ErrorCode::{ConstraintViolation, DatabaseBusy, DatabaseLocked};
        match &error {
            rusqlite::Error::SqliteFailure(failure, message) => match failure.code {
                // 2067 and 1555: unique index, primary key.
                ConstraintViolation if matches!(failure.extended_code, 2067 | 1555) => {
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
            Some(refusal) if *refusal.code() == SqlState::UNIQUE_VIOLATION => {
                Error::Duplicate { constraint: refusal.constraint().unwrap_or_default().to_owned() }
            }
            Some(refusal)
                if *refusal.code() == SqlState::T_R_SERIALIZATION_FAILURE
                    || *refusal.code() == SqlState::T_R_DEADLOCK_DETECTED =>
            {
                Error::Conflict(Box::new(error))
            }
            _ => Error::Postgres(error),
        }
    }
}
