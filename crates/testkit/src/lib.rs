//! Test support: a new database of either engine for each test, a scripted model, and fixtures for
//! types with many fields.

mod a2a_agents;
pub mod fixtures;
mod postgres;
pub mod scripted;
mod shell_mcp_server;
mod stalling_proxy;
mod templates;

use std::sync::Arc;

pub use a2a_agents::A2aAgents;
use emergent_domain::time::{Clock, Timestamp};
use emergent_store::{Db, DbConfig, Engine};
pub use postgres::{PostgresDatabase, new_postgres_database, postgres_server};
pub use shell_mcp_server::ShellMcpServer;
pub use stalling_proxy::StallingProxy;
pub use templates::migrated_postgres_database;

/// A database that is deleted when the test ends. The field `db` comes first, because fields are
/// dropped in order: its connections must close before the database is deleted.
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
        let dir = quick_folder();
        let path = dir.path().join("emergent.db");
        std::fs::copy(templates::sqlite_template().await, &path).expect("a copy of a migrated database");
        let config = DbConfig::Sqlite { path };
        let db = Db::open(config.clone()).await.expect("a new embedded database");
        Self { db, config, _dir: Some(Arc::new(dir)), _database: None }
    }

    pub async fn postgres() -> Self {
        let database = migrated_postgres_database().await;
        let config = DbConfig::Postgres { url: database.url(), connections: 16, statement_cache: true };
        let db = Db::open(config.clone()).await.expect("a new PostgreSQL database");
        Self { db, config, _dir: None, _database: Some(database) }
    }

    /// Opens a second connection pool, as another server would.
    pub async fn second_connection(&self) -> Db {
        Db::open(self.config.clone()).await.expect("the same database")
    }

    pub fn config(&self) -> &DbConfig {
        &self.config
    }
}

/// A temporary folder in memory, if `scripts/postgres` offers one: a test waits for hundreds of commits, and none of
/// them has to survive the machine.
fn quick_folder() -> tempfile::TempDir {
    let folder = match std::env::var_os("EMERGENT_TEST_MEMORY") {
        Some(parent) => tempfile::tempdir_in(parent),
        None => tempfile::tempdir(),
    };
    folder.expect("a temporary folder")
}

/// Returns a clock that stands at a fixed time until it is advanced.
pub fn fixed_clock() -> Clock {
    Clock::fixed_at("2026-01-31T08:00:00Z".parse::<Timestamp>().expect("a time"))
}

/// Declares one test per engine: `both_engines! { async fn a_behaviour(db: TestDb) { … } }`.
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
