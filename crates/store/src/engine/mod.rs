//! The two database engines, SQLite and PostgreSQL: how each opens a database, commits and reads. Most code
//! above them does not depend on the engine.

mod index_builder;
mod notify;
pub(crate) mod postgres;
pub(crate) mod postgres_session;
mod slots;
pub(crate) mod sqlite;
pub(crate) mod sqlite_connection;
mod sqlite_queue;
mod sqlite_readers;
mod sqlite_writer;
mod tls;
mod watch;
pub(crate) mod work;
mod writer_time;

/// Which database engine is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    Sqlite,
    Postgres,
}

impl Engine {
    pub fn name(self) -> &'static str {
        match self {
            Engine::Sqlite => "sqlite",
            Engine::Postgres => "postgres",
        }
    }

    /// The SQL function that makes all letters of a text small. SQLite's own `lower` changes only A to Z, so each
    /// connection has one of this program.
    pub(crate) fn lower_function(self) -> &'static str {
        match self {
            Engine::Sqlite => "unicode_lower",
            Engine::Postgres => "lower",
        }
    }
}
