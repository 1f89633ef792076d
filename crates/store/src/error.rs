//! What can go wrong in a database, told apart by what a caller can do about it.

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
    #[error("a row like this one is already there ({constraint})")]
    Duplicate { constraint: String },
    /// Two transactions got in each other's way; [`crate::Db::write`] tries again by itself.
    #[error("the transaction met another one and must be tried again")]
    Conflict(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("the database refused a statement")]
    Sqlite(#[source] rusqlite::Error),
    #[error("the database refused a statement")]
    Postgres(#[source] tokio_postgres::Error),
    #[error("no connection to the database")]
    Pool(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("column {column} does not hold {expected}")]
    Column { column: usize, expected: &'static str },
    #[error("a statement of the transaction failed, so nothing of it was kept")]
    Broken,
    #[error("the database is shutting down")]
    Closed,
    #[error("a transaction panicked and was rolled back: {message}")]
    Panicked { message: String },
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
