//! What tests stand on: a fresh database of either engine, a model that plays a script, and bare
//! values of what has many fields.

pub mod fixtures;
pub mod scripted;

use std::sync::Arc;

use emergent_domain::time::{Clock, Timestamp};
use emergent_store::{Db, DbConfig, Engine};

/// A database of its own, gone with the test.
pub struct TestDb {
    pub db: Db,
    config: DbConfig,
    _dir: Option<Arc<tempfile::TempDir>>,
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
        Self { db, config, _dir: Some(Arc::new(dir)) }
    }

    pub async fn postgres() -> Self {
        let config =
            DbConfig::Postgres { url: new_postgres_database().await, connections: 16, statement_cache: true };
        let db = Db::open(config.clone()).await.expect("a new PostgreSQL database");
        Self { db, config, _dir: None }
    }

    /// A second server on the same database.
    pub async fn second_connection(&self) -> Db {
        Db::open(self.config.clone()).await.expect("the same database")
    }

    pub fn config(&self) -> &DbConfig {
        &self.config
    }
}

/// Where PostgreSQL is for tests. A test that needs it and has none fails: it never just passes.
pub fn postgres_server() -> String {
    std::env::var("TEST_DATABASE_URL").unwrap_or_else(|_| {
        panic!(
            "this test needs PostgreSQL with pgvector: run `make test`, or \
             `scripts/postgres run cargo test …`, or set TEST_DATABASE_URL"
        )
    })
}

/// Makes an empty database on the test server and returns its URL.
pub async fn new_postgres_database() -> String {
    let server = postgres_server();
    let mut config: tokio_postgres::Config = server.parse().expect("TEST_DATABASE_URL is a PostgreSQL URL");
    config.connect_timeout(std::time::Duration::from_secs(10));
    let (client, connection) =
        config.connect(tokio_postgres::NoTls).await.expect("the PostgreSQL of TEST_DATABASE_URL answers");
    let connection = tokio::spawn(connection);
    let name = format!("test_{}", uuid::Uuid::now_v7().simple());
    client.batch_execute(&format!("CREATE DATABASE {name}")).await.expect("a database can be made");
    drop(client);
    let _ = connection.await;
    with_database(&server, &name)
}

fn with_database(url: &str, name: &str) -> String {
    let (base, query) = match url.split_once('?') {
        Some((base, query)) => (base, format!("?{query}")),
        None => (url, String::new()),
    };
    let slash = base.rfind('/').filter(|at| *at > base.find("://").map_or(0, |start| start + 2));
    match slash {
        Some(at) => format!("{}/{name}{query}", &base[..at]),
        None => format!("{base}/{name}{query}"),
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
