//! Migrates a PostgreSQL database while other servers may use it.
//!
//! Each migration is a transaction of its own, so that no lock is held longer than necessary. A statement that
//! waits for a lock makes all later ones of the same table wait, so it waits only briefly: if another transaction
//! has the lock for longer, everything of this migration is rolled back, and tried again after a pause. The indexes
//! of large tables are built concurrently, outside of transactions: others write to the table meanwhile.

use std::time::Duration;

use deadpool_postgres::{Object, Transaction};
use tokio_postgres::{Client, GenericClient, error::SqlState};

use super::{CREATE_MIGRATIONS_TABLE, MIGRATIONS, Migration, refuse_newer};
use crate::{
    engine::Engine,
    error::{Error, Result},
};

/// The statement that makes servers which start at the same time migrate one after the other. The lock is
/// held until the commit; its number is arbitrary. The session has it already, unless there may be a pooler in between;
/// then, and for servers of an earlier version, this is the lock.
const MIGRATION_LOCK_SQL: &str = "SELECT pg_advisory_xact_lock(4400001)";
/// The same lock, for the session. It is polled and not waited for: a statement that waits has a snapshot, and an
/// index that is built concurrently waits for the end of every snapshot.
const TRY_SESSION_LOCK_SQL: &str = "SELECT pg_try_advisory_lock(4400001)";
const SESSION_UNLOCK_SQL: &str = "SELECT pg_advisory_unlock(4400001)";
const LOCK_POLL_INTERVAL: Duration = Duration::from_millis(200);
/// How long the build of an index waits for transactions that began before it. Nobody waits behind it.
const INDEX_SETTINGS_SQL: &str = "SET statement_timeout = 0; SET lock_timeout = '60s'";
const RESET_SETTINGS_SQL: &str = "RESET statement_timeout; RESET lock_timeout";
/// How long a statement of a migration waits for a lock.
const LOCK_TIMEOUT_SQL: &str = "SET LOCAL lock_timeout = '1s'";
/// How often a migration is tried that does not get its locks, and the pause before the next attempt. Together
/// with the waits this is about five minutes.
const MAX_ATTEMPTS: u32 = 150;
const PAUSE: Duration = Duration::from_secs(1);

/// What the statements of one client have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClientKind {
    /// All of them run in one session of PostgreSQL.
    Session,
    /// There may be a connection pooler in between, so only those of one transaction run in one session. A lock of the
    /// session would stay with a connection of the pooler, and every server that starts later would wait for it.
    Pooled,
}

/// Migrates a PostgreSQL database.
pub(crate) async fn postgres(client: &mut Object, kind: ClientKind) -> Result<()> {
    if kind == ClientKind::Pooled {
        return migrate_locked(client, kind).await;
    }
    while !client.query_one(TRY_SESSION_LOCK_SQL, &[]).await?.get::<_, bool>(0) {
        tokio::time::sleep(LOCK_POLL_INTERVAL).await;
    }
    let migrated = migrate_locked(client, kind).await;
    client.batch_execute(SESSION_UNLOCK_SQL).await?;
    migrated
}

/// Migrates with the lock of the session, or with that of each transaction alone.
async fn migrate_locked(client: &mut Object, kind: ClientKind) -> Result<()> {
    apply_missing(client, kind, MIGRATIONS).await?;
    let tx = begin(client).await?;
    crate::feed::follow_cluster(&tx).await?;
    Ok(tx.commit().await?)
}

/// Applies the migrations that the database does not have.
async fn apply_missing(client: &mut Object, kind: ClientKind, migrations: &[Migration]) -> Result<()> {
    let found = with_retries("schema_migrations", client, Step::Prepare).await?;
    for migration in migrations.iter().filter(|migration| migration.version > found) {
        for index in migration.index_statements() {
            // Nobody uses a new database yet, and a transaction is faster. Behind a pooler only a transaction keeps other
            // servers from building the same index, and those that write to the table wait for it.
            let step = match found == 0 || kind == ClientKind::Pooled {
                true => Step::Index(migration, index),
                false => Step::ConcurrentIndex(migration, index),
            };
            with_retries(migration.name, client, step).await?;
        }
        with_retries(migration.name, client, Step::Apply(migration)).await?;
    }
    Ok(())
}

/// What one transaction does.
#[derive(Clone, Copy)]
enum Step<'a> {
    /// Creates the schema and the table of migrations.
    Prepare,
    /// Builds an index before the migration that needs it.
    Index(&'a Migration, &'a str),
    /// Builds an index, outside of a transaction, while others write to its table.
    ConcurrentIndex(&'a Migration, &'a str),
    Apply(&'a Migration),
}

/// Runs a step, again while it does not get its locks. Returns the version of the schema before the step.
async fn with_retries(name: &str, client: &mut Object, step: Step<'_>) -> Result<i64> {
    let mut attempt = 1;
    loop {
        match run(client, step).await {
            Err(error) if is_lock_timeout(&error) && attempt < MAX_ATTEMPTS => {
                tracing::warn!(
                    attempt,
                    "migration `{name}` waits for a lock that another transaction has; trying again"
                );
                attempt += 1;
                tokio::time::sleep(PAUSE).await;
            }
            result => return result,
        }
    }
}

async fn run(client: &mut Object, step: Step<'_>) -> Result<i64> {
    if let Step::ConcurrentIndex(migration, sql) = step {
        client.batch_execute(INDEX_SETTINGS_SQL).await?;
        let built = build_index(client, sql).await.map_err(migration.error());
        client.batch_execute(RESET_SETTINGS_SQL).await?;
        return built.map(|()| migration.version);
    }
    let tx = begin(client).await?;
    if matches!(step, Step::Prepare) {
        tx.batch_execute("CREATE SCHEMA IF NOT EXISTS kb").await?;
        tx.batch_execute("CREATE EXTENSION IF NOT EXISTS vector WITH SCHEMA public").await?;
        tx.batch_execute(CREATE_MIGRATIONS_TABLE).await?;
    }
    let found = version(&tx).await?;
    refuse_newer(found)?;
    match step {
        Step::Prepare | Step::ConcurrentIndex(..) => {}
        // Another server may have applied it meanwhile.
        Step::Index(migration, _) | Step::Apply(migration) if found >= migration.version => {}
        Step::Index(migration, sql) => create_index(&tx, sql).await.map_err(migration.error())?,
        Step::Apply(migration) => apply(&tx, migration).await?,
    }
    tx.commit().await?;
    Ok(found)
}

/// Builds an index in a transaction, given as `CREATE INDEX IF NOT EXISTS …`. An invalid one counts as existing, so it is
/// dropped first.
async fn create_index(tx: &Transaction<'_>, sql: &str) -> Result<()> {
    if let Some(name) = invalid_index(&**tx, sql).await? {
        tx.batch_execute(&format!("DROP INDEX IF EXISTS {name}")).await?;
    }
    Ok(tx.batch_execute(sql).await?)
}

/// Builds an index concurrently, given as `CREATE INDEX IF NOT EXISTS …`. One that was interrupted leaves an invalid
/// index, which is built anew.
pub(crate) async fn build_index(client: &Client, sql: &str) -> Result<()> {
    drop_invalid_index(client, sql).await?;
    let create = sql.replacen("INDEX IF NOT EXISTS", "INDEX CONCURRENTLY IF NOT EXISTS", 1);
    let built = client.batch_execute(&create).await.map_err(Error::from);
    // Nothing uses an invalid index, but every write would maintain it until the next attempt.
    if built.is_err()
        && let Err(error) = drop_invalid_index(client, sql).await
    {
        tracing::warn!(error = %error, "could not drop an index whose build failed; the next attempt drops it");
    }
    built
}

async fn drop_invalid_index(client: &Client, sql: &str) -> Result<()> {
    if let Some(name) = invalid_index(client, sql).await? {
        client.batch_execute(&format!("DROP INDEX CONCURRENTLY IF EXISTS {name}")).await?;
    }
    Ok(())
}

/// The name of the index of a statement `CREATE INDEX IF NOT EXISTS …`, if there is an invalid one. One that another
/// server builds at this moment is not valid yet, and is left alone.
async fn invalid_index<'a>(client: &impl GenericClient, sql: &'a str) -> Result<Option<&'a str>> {
    let Some((_, definition)) = sql.split_once("INDEX IF NOT EXISTS ") else { return Ok(None) };
    let name = definition.split_whitespace().next().unwrap_or_default();
    // Builds in other databases of the cluster are listed as well, and their indexes may have the same number.
    let invalid = "SELECT count(*) FROM pg_index AS i WHERE indexrelid = to_regclass($1) AND NOT indisvalid
                       AND NOT EXISTS (SELECT 1 FROM pg_stat_progress_create_index AS p
                                       WHERE p.index_relid = i.indexrelid AND p.datname = current_database())";
    let is_invalid = client.query_one(invalid, &[&name]).await?.get::<_, i64>(0) > 0;
    Ok(is_invalid.then_some(name))
}

async fn apply(tx: &Transaction<'_>, migration: &Migration) -> Result<()> {
    let sql = migration.sql(Engine::Postgres);
    tx.batch_execute(&sql).await.map_err(Error::from).map_err(migration.error())?;
    tx.execute(
        "INSERT INTO schema_migrations (version, name, applied_at) VALUES ($1, $2, now())",
        &[&migration.version, &migration.name],
    )
    .await?;
    Ok(())
}

/// Begins a transaction, and waits until no other server migrates.
async fn begin(client: &mut Object) -> Result<Transaction<'_>> {
    let tx = client.transaction().await?;
    // A migration may take longer than other statements, and so may the wait for another server's.
    tx.batch_execute("SET LOCAL statement_timeout = 0").await?;
    tx.batch_execute(MIGRATION_LOCK_SQL).await?;
    tx.batch_execute(LOCK_TIMEOUT_SQL).await?;
    Ok(tx)
}

/// The version of the last migration that was applied.
async fn version(tx: &Transaction<'_>) -> Result<i64> {
    Ok(tx.query_one("SELECT coalesce(max(version), 0) FROM schema_migrations", &[]).await?.get(0))
}

/// Whether another transaction had a lock for too long.
fn is_lock_timeout(error: &Error) -> bool {
    match error {
        Error::Migration { source, .. } => is_lock_timeout(source),
        // A server of an earlier version that starts meanwhile waits for the migration with a snapshot.
        Error::Postgres(error) => [SqlState::LOCK_NOT_AVAILABLE, SqlState::T_R_DEADLOCK_DETECTED]
            .iter()
            .any(|code| error.code() == Some(code)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use deadpool_postgres::{Manager, Pool};
    use emergent_testkit::new_postgres_database;
    use tokio_postgres::{Config, NoTls};

    use super::*;

    fn migration(version: i64, name: &'static str, postgres: &'static str) -> Migration {
        Migration { version, name, indexes: "", shared: "", sqlite: "", postgres }
    }

    fn first() -> Migration {
        migration(1, "first", "CREATE TABLE things (id bigint)")
    }

    fn pool(url: &str) -> Pool {
        let mut config: Config = url.parse().unwrap();
        config.options("-c search_path=kb,public");
        Pool::builder(Manager::new(config, NoTls)).max_size(4).build().unwrap()
    }

    async fn number(client: &Object, sql: &str) -> i64 {
        client.query_one(sql, &[]).await.unwrap().get(0)
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn each_migration_and_each_index_is_committed_by_itself() {
        let database = new_postgres_database().await;
        let pool = pool(&database.url());
        let mut client = pool.get().await.unwrap();
        let broken = Migration {
            indexes: "CREATE INDEX IF NOT EXISTS things_a ON things (id);
                      CREATE INDEX IF NOT EXISTS things_b ON things (id);",
            ..migration(2, "second", "ALTER TABLE missing ADD COLUMN a bigint")
        };
        let failed = apply_missing(&mut client, ClientKind::Session, &[first(), broken]).await.unwrap_err();
        assert!(matches!(&failed, Error::Migration { name, .. } if name == "second"), "{failed:?}");
        assert_eq!(number(&client, "SELECT max(version) FROM schema_migrations").await, 1);
        let indexes = "SELECT count(*) FROM pg_indexes WHERE indexname LIKE 'things%'";
        assert_eq!(number(&client, indexes).await, 2);
        let mended = migration(2, "second", "ALTER TABLE things ADD COLUMN a bigint");
        apply_missing(&mut client, ClientKind::Session, &[first(), mended]).await.unwrap();
        assert_eq!(number(&client, "SELECT max(version) FROM schema_migrations").await, 2);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn behind_a_pooler_nothing_is_locked_outside_of_transactions() {
        let database = new_postgres_database().await;
        let pool = pool(&database.url());
        let (mut client, other) = (pool.get().await.unwrap(), pool.get().await.unwrap());
        // A server that migrates has this lock, and behind a pooler it is not taken for the session.
        other.batch_execute("SELECT pg_advisory_lock(4400001)").await.unwrap();
        let migrating = tokio::spawn(async move {
            let second = Migration {
                indexes: "CREATE INDEX IF NOT EXISTS things_a ON things (id);",
                ..migration(2, "second", "ALTER TABLE things ADD COLUMN a bigint")
            };
            apply_missing(&mut client, ClientKind::Pooled, &[first()]).await?;
            apply_missing(&mut client, ClientKind::Pooled, &[first(), second]).await
        });
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert!(!migrating.is_finished(), "it waits for the server that migrates");
        other.batch_execute("SELECT pg_advisory_unlock(4400001)").await.unwrap();
        migrating.await.unwrap().unwrap();
        assert_eq!(number(&other, "SELECT max(version) FROM schema_migrations").await, 2);
        let valid = "SELECT count(*) FROM pg_index WHERE indexrelid = 'things_a'::regclass AND indisvalid";
        assert_eq!(number(&other, valid).await, 1);
        let locks = "SELECT count(*) FROM pg_locks AS l JOIN pg_database AS d ON d.oid = l.database
                     WHERE l.locktype = 'advisory' AND d.datname = current_database()";
        assert_eq!(number(&other, locks).await, 0);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_migration_that_waits_for_a_lock_does_not_stop_the_others() {
        let database = new_postgres_database().await;
        let pool = pool(&database.url());
        let mut client = pool.get().await.unwrap();
        apply_missing(&mut client, ClientKind::Session, &[first()]).await.unwrap();
        let (mut holder, reader) = (pool.get().await.unwrap(), pool.get().await.unwrap());
        let long = holder.transaction().await.unwrap();
        long.batch_execute("SELECT count(*) FROM things").await.unwrap();
        let migrating = tokio::spawn(async move {
            let second = migration(2, "second", "ALTER TABLE things ADD COLUMN a bigint");
            apply_missing(&mut client, ClientKind::Session, &[first(), second]).await
        });
        tokio::time::sleep(Duration::from_millis(300)).await;
        let started = Instant::now();
        assert_eq!(number(&reader, "SELECT count(*) FROM things").await, 0);
        assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
        assert!(!migrating.is_finished());
        long.commit().await.unwrap();
        migrating.await.unwrap().expect("it is applied when the lock is free");
        assert_eq!(number(&reader, "SELECT max(version) FROM schema_migrations").await, 2);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn behind_a_pooler_an_interrupted_index_is_built_anew() {
        let database = new_postgres_database().await;
        let pool = pool(&database.url());
        let mut client = pool.get().await.unwrap();
        apply_missing(&mut client, ClientKind::Pooled, &[first()]).await.unwrap();
        leave_invalid_index(&client).await;
        let indexes = "CREATE INDEX IF NOT EXISTS things_a ON things (id);";
        let second = Migration { indexes, ..migration(2, "second", "") };
        apply_missing(&mut client, ClientKind::Pooled, &[first(), second]).await.unwrap();
        assert_eq!(number(&client, VALID_INDEX).await, 1);
    }

    /// Counts the index of the migrations if it was built by them.
    const VALID_INDEX: &str =
        "SELECT count(*) FROM pg_index WHERE indexrelid = 'things_a'::regclass AND indisvalid
                               AND NOT indisunique";

    /// Leaves what an interrupted build leaves.
    async fn leave_invalid_index(client: &Object) {
        client.batch_execute("INSERT INTO things VALUES (1), (1)").await.unwrap();
        let failing = "CREATE UNIQUE INDEX CONCURRENTLY things_a ON things (id)";
        client.batch_execute(failing).await.unwrap_err();
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn an_index_is_built_while_others_write_and_an_interrupted_one_anew() {
        let database = new_postgres_database().await;
        let pool = pool(&database.url());
        let mut client = pool.get().await.unwrap();
        apply_missing(&mut client, ClientKind::Session, &[first()]).await.unwrap();
        let (mut holder, writer) = (pool.get().await.unwrap(), pool.get().await.unwrap());
        leave_invalid_index(&writer).await;
        let long = holder.transaction().await.unwrap();
        long.batch_execute("INSERT INTO things VALUES (2)").await.unwrap();
        let migrating = tokio::spawn(async move {
            let indexes = "-- A comment.\nCREATE INDEX IF NOT EXISTS things_a ON things (id);";
            let second = Migration { indexes, ..migration(2, "second", "") };
            apply_missing(&mut client, ClientKind::Session, &[first(), second]).await
        });
        tokio::time::sleep(Duration::from_millis(300)).await;
        let started = Instant::now();
        writer.batch_execute("INSERT INTO things VALUES (3)").await.unwrap();
        assert!(started.elapsed() < Duration::from_millis(900), "{:?}", started.elapsed());
        assert!(!migrating.is_finished(), "it waits for the transaction that began before");
        long.commit().await.unwrap();
        migrating.await.unwrap().unwrap();
        assert_eq!(number(&writer, VALID_INDEX).await, 1);
    }
}
