//! Databases on the PostgreSQL test server. Each is dropped together with its value.

use std::time::Duration;

use tokio_postgres::{Client, Config, NoTls, error::SqlState};

/// The timeout for connecting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The maximum time by which dropping a database may delay the end of its test.
const DROP_TIMEOUT: Duration = Duration::from_secs(5);

/// An empty database that exists as long as this value does, also when the test panics.
///
/// A test process that is killed cannot drop its database; the cluster of `scripts/postgres` is
/// deleted as a whole.
#[derive(Debug)]
pub struct PostgresDatabase {
    server: String,
    name: String,
}

impl PostgresDatabase {
    pub fn url(&self) -> String {
        with_database(&self.server, &self.name)
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Creates a database as a copy of another one; `None` if there is no database of that name.
    pub(crate) async fn copy_of(template: &str) -> Option<Self> {
        let database = Self::named();
        match execute(&database.server, &format!("CREATE DATABASE {} TEMPLATE {template}", database.name))
            .await
        {
            Ok(()) => Some(database),
            Err(error) if error.code() == Some(&SqlState::UNDEFINED_DATABASE) => None,
            Err(error) => panic!("could not copy the database `{template}`: {error:?}"),
        }
    }

    /// A name of its own on the test server. Nothing is created.
    fn named() -> Self {
        Self { server: postgres_server(), name: format!("test_{}", uuid::Uuid::now_v7().simple()) }
    }
}

impl Drop for PostgresDatabase {
    /// Waits until the database is dropped, because the process of the test may exit right after.
    ///
    /// A thread with its own runtime does the work: a test may drop this value inside of a runtime,
    /// where blocking on another one panics. Failing here would hide why the test failed, or abort
    /// the process while it panics, so a failure is only printed.
    fn drop(&mut self) {
        let (server, name) = (self.server.clone(), self.name.clone());
        let thread = std::thread::Builder::new().name("drop test database".to_owned()).spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let dropping = async { tokio::time::timeout(DROP_TIMEOUT, drop_database(&server, &name)).await };
            match runtime.map(|runtime| runtime.block_on(dropping)) {
                Ok(Ok(Ok(()))) => {}
                Ok(Ok(Err(error))) => eprintln!("could not drop the database `{name}`: {error}"),
                Ok(Err(_)) => eprintln!("could not drop the database `{name}` within {DROP_TIMEOUT:?}"),
                Err(error) => eprintln!("could not drop the database `{name}`: {error}"),
            }
        });
        let _ = thread.map(std::thread::JoinHandle::join);
    }
}

/// Returns the URL of the PostgreSQL server for tests. A test that needs it and has none fails.
pub fn postgres_server() -> String {
    std::env::var("TEST_DATABASE_URL").unwrap_or_else(|_| {
        panic!(
            "this test needs PostgreSQL with pgvector: run `make test`, or \
             `scripts/postgres run cargo test …`, or set TEST_DATABASE_URL"
        )
    })
}

/// Creates an empty database on the test server.
pub async fn new_postgres_database() -> PostgresDatabase {
    let database = PostgresDatabase::named();
    execute(&database.server, &format!("CREATE DATABASE {}", database.name))
        .await
        .expect("a database on the server of TEST_DATABASE_URL");
    database
}

/// Drops a database and ends its connections, because servers under test may still have some.
async fn drop_database(server: &str, name: &str) -> Result<(), tokio_postgres::Error> {
    execute(server, &format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)")).await
}

async fn execute(server: &str, statement: &str) -> Result<(), tokio_postgres::Error> {
    let mut config: Config = server.parse()?;
    config.connect_timeout(CONNECT_TIMEOUT);
    let (client, connection) = config.connect(NoTls).await?;
    let connection = tokio::spawn(connection);
    let result = client.batch_execute(statement).await;
    disconnect(client, connection).await;
    result
}

/// Waits until the connection is closed, so that no later test is affected by it.
pub(crate) async fn disconnect<T>(client: Client, connection: tokio::task::JoinHandle<T>) {
    drop(client);
    let _ = connection.await;
}

fn with_database(url: &str, name: &str) -> String {
    let (base, query) = match url.split_once('?') {
        Some((base, query)) => (base, format!("?{query}")),
        None => (url, String::new()),
    };
    let slash = base.rfind('/').filter(|index| *index > base.find("://").map_or(0, |start| start + 2));
    match slash {
        Some(index) => format!("{}/{name}{query}", &base[..index]),
        None => format!("{base}/{name}{query}"),
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    async fn exists(name: &str) -> bool {
        let config: Config = postgres_server().parse().unwrap();
        let (client, connection) = config.connect(NoTls).await.unwrap();
        let connection = tokio::spawn(connection);
        let rows = client.query("SELECT 1 FROM pg_database WHERE datname = $1", &[&name]).await.unwrap();
        disconnect(client, connection).await;
        !rows.is_empty()
    }

    #[tokio::test]
    async fn a_database_is_dropped_with_its_value() {
        let database = new_postgres_database().await;
        let name = database.name.clone();
        // An open connection must not keep the database.
        let (client, connection) = tokio_postgres::connect(&database.url(), NoTls).await.unwrap();
        let connection = tokio::spawn(connection);
        assert!(exists(&name).await);
        drop(database);
        assert!(!exists(&name).await);
        drop(client);
        let _ = connection.await;
    }

    #[tokio::test]
    async fn a_database_is_dropped_when_the_test_panics() {
        let database = new_postgres_database().await;
        let name = database.name.clone();
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let _database = database;
            panic!("as a failing test does");
        }));
        assert!(panicked.is_err());
        assert!(!exists(&name).await);
    }

    #[test]
    fn a_server_that_is_gone_does_not_hold_up_the_end() {
        let started = std::time::Instant::now();
        let server = "postgres://nobody@127.0.0.1:9/none".to_owned();
        drop(PostgresDatabase { server, name: "test_none".to_owned() });
        assert!(started.elapsed() < DROP_TIMEOUT + Duration::from_secs(1));
    }

    #[test]
    fn the_name_of_the_database_replaces_the_one_of_the_server() {
        for (server, url) in [
            ("postgres://a@host:1/postgres", "postgres://a@host:1/t"),
            ("postgres://a@host:1/postgres?x=1", "postgres://a@host:1/t?x=1"),
            ("postgres://host", "postgres://host/t"),
        ] {
            assert_eq!(with_database(server, "t"), url);
        }
    }
}
