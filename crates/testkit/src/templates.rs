//! Databases that are migrated already. Migrating takes longer than most tests do, so each schema is migrated once for
//! each engine, and a test gets a copy of the result.

use std::path::PathBuf;

use emergent_store::{Db, DbConfig, backup, schema_digest};
use tokio_postgres::{Client, NoTls};

use crate::postgres::{PostgresDatabase, disconnect, new_postgres_database, postgres_server};

/// The lock that a test process holds while it makes the template on a PostgreSQL server. Its number has no meaning.
const TEMPLATE_LOCK: i64 = 7_220_144_561;

/// Returns the file of a SQLite database that is migrated and empty. The first test process makes it, in the folder
/// where cargo builds.
pub async fn sqlite_template() -> PathBuf {
    let folder = build_folder().join("test-templates");
    let file = folder.join(format!("schema-{:016x}.db", schema_digest()));
    if file.exists() {
        return file;
    }
    std::fs::create_dir_all(&folder).expect("a folder for templates");
    let scratch = tempfile::tempdir_in(&folder).expect("a temporary folder");
    let (made, copied) = (scratch.path().join("made.db"), scratch.path().join("copied.db"));
    let db = Db::open(DbConfig::Sqlite { path: made.clone() }).await.expect("a new embedded database");
    std::fs::File::create(&copied).expect("an empty file");
    backup::copy(&made, &copied, |_| {}).expect("a copy of the new database");
    drop(db);
    // Whoever renames last wins; both files are the same.
    std::fs::rename(&copied, &file).expect("the template has its name");
    file
}

/// The folder where cargo puts programs: test programs are in `deps` below it.
fn build_folder() -> PathBuf {
    let program = std::env::current_exe().expect("the path of this program");
    let folder = program.parent().expect("the folder of this program");
    if folder.ends_with("deps") { folder.join("..") } else { folder.to_owned() }
}

/// Creates a database on the test server that is migrated and empty.
pub async fn migrated_postgres_database() -> PostgresDatabase {
    let template = format!("emergent_template_{:016x}", schema_digest());
    if let Some(database) = PostgresDatabase::copy_of(&template).await {
        return database;
    }
    make_postgres_template(&template).await;
    PostgresDatabase::copy_of(&template).await.expect("the template was just made")
}

/// Makes the template, unless another test process has made it meanwhile.
async fn make_postgres_template(template: &str) {
    let (client, connection) =
        tokio_postgres::connect(&postgres_server(), NoTls).await.expect("the server of TEST_DATABASE_URL");
    let connection = tokio::spawn(connection);
    client.execute("SELECT pg_advisory_lock($1)", &[&TEMPLATE_LOCK]).await.expect("the lock of the template");
    let found = client.query("SELECT 1 FROM pg_database WHERE datname = $1", &[&template]).await;
    if found.expect("the databases of the server").is_empty() {
        let database = new_postgres_database().await;
        let config = DbConfig::Postgres { url: database.url(), connections: 2, statement_cache: true };
        drop(Db::open(config).await.expect("a new PostgreSQL database"));
        rename(&client, database.name(), template).await;
    }
    // Closing the connection releases the lock.
    disconnect(client, connection).await;
}

/// Renames a database. PostgreSQL refuses this while there are connections to it, and those of a pool that was dropped
/// end a moment later.
async fn rename(client: &Client, from: &str, to: &str) {
    for attempt in 0.. {
        let ended = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1";
        client.execute(ended, &[&from]).await.expect("connections are ended");
        match client.batch_execute(&format!("ALTER DATABASE {from} RENAME TO {to}")).await {
            Ok(()) => return,
            Err(error) if attempt == 100 => panic!("could not rename the database `{from}`: {error}"),
            Err(_) => tokio::time::sleep(std::time::Duration::from_millis(50)).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use emergent_store::latest_version;

    use super::*;
    use crate::TestDb;

    async fn version(db: &Db) -> Option<i64> {
        let read = |tx: &mut emergent_store::Tx<'_>| {
            tx.query_opt("SELECT max(version) FROM schema_migrations", &[], |row| row.get(0))
        };
        let found: Result<_, emergent_store::Error> = db.read(read).await;
        found.expect("an answer")
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_copy_has_the_newest_schema_and_is_apart_from_other_copies() {
        for engine in [emergent_store::Engine::Sqlite, emergent_store::Engine::Postgres] {
            let (one, other) = tokio::join!(TestDb::new(engine), TestDb::new(engine));
            assert_eq!(version(&one).await, Some(latest_version()), "{engine:?}");
            let change = |tx: &mut emergent_store::Tx<'_>| {
                tx.execute("UPDATE schema_migrations SET name = 'changed'", &[])
            };
            let changed: Result<_, emergent_store::Error> = one.write(change).await;
            assert!(changed.expect("a change") > 0);
            let unchanged = |tx: &mut emergent_store::Tx<'_>| {
                let sql = "SELECT count(*) FROM schema_migrations WHERE name = 'changed'";
                tx.query_opt(sql, &[], |row| row.get::<i64>(0))
            };
            let found: Result<_, emergent_store::Error> = other.read(unchanged).await;
            assert_eq!(found.expect("an answer"), Some(0), "{engine:?}");
        }
    }
}
