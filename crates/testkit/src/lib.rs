//! What tests stand on: a fresh database of either engine, a model that plays a script, and bare
//! values of what has many fields.

pub mod fixtures;
mod postgres;
pub mod scripted;

use std::sync::Arc;

use emergent_domain::time::{Clock, Timestamp};
use emergent_store::{Db, DbConfig, Engine};
pub use postgres::{PostgresDatabase, new_postgres_database, postgres_server};

/// A database of its own, deleted with the test. `db` stands first, since fields are dropped in
/// order: its connections close before the database is deleted.
pub struct TestDb {
    pub db: Db,
    config: DbConfig,
    _dir: Option<Arc<tempfile::TempDir>>,
    _database: Option<PostgresDatabase>,
}

impl std::ops::Deref for TestDb {
    type Target = Db;
    fn deref(&self) -> &Db {
        &self.db
    }
}

impl TestDb {
    pub async fn new(engine: Engine) -> Self {
        match engine {
            Engine::Sqlite => Self::sqlite().await,
            Engine::Postgres => Self::postgres().await,
        }
    }

    pub async fn sqlite() -> Self {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let config = DbConfig::Sqlite { path: dir.path().join("emergent.db") };
        let db = Db::open(config.clone()).await.expect("a new embedded database");
        Self { db, config, _dir: Some(Arc::new(dir)), _database: None }
    }

    pub async fn postgres() -> Self {
        let database = new_postgres_database().await;
        let config = DbConfig::Postgres { url: database.url(), connections: 16, statement_cache: true };
        let db = Db::open(config.clone()).await.expect("a new PostgreSQL database");
        Self { db, config, _dir: None, _database: Some(database) }
    }

    /// A second server on the same database.
    pub async fn second_connection(&self) -> Db {
        Db::open(self.config.clone()).await.expect("the same database")
    }

    pub fn config(&self) -> &DbConfig {
        &self.config
    }
}

/// A clock that stands at a known moment until it is moved.
pub fn fixed_clock() -> Clock {
    Clock::fixed_at("2026-01-31T08:00:00Z".parse::<Timestamp>().expect("a time"))
}

/// One test for each engine: `both_engines! { async fn a_behaviour(db: TestDb) { … } }`.
#[macro_export]
macro_rules! both_engines {
    ($($(#[$meta:meta])* async fn $name:ident($db:ident: TestDb) $body:block)*) => {$(
        mod $name {
            #[allow(unused_imports)]
            use super::*;

            async fn story($db: $crate::TestDb) $body

            $(#[$meta])*
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn on_sqlite() {
                story($crate::TestDb::sqlite().await).await;
            }

            $(#[$meta])*
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn on_postgres() {
                story($crate::TestDb::postgres().await).await;
            }
        }
    )*};
}
