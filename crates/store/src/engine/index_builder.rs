//! Builds an index of a PostgreSQL table outside of transactions, while others use the table. This may take minutes, so
//! it has a connection of its own, which no transaction waits for, with settings of its own.

use std::{collections::HashMap, pin::Pin, sync::Arc, time::Duration};

use emergent_net::backoff::Backoff;
use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_postgres::{
    Client, Config, Socket,
    tls::{MakeTlsConnect, TlsConnect},
};

use crate::{
    error::{Error, Result},
    migrate,
};

/// The settings of the connection. A build waits for transactions that began before it, and nobody waits behind it.
/// With less memory than the graph of the index needs, PostgreSQL builds it on disk, which takes much longer.
const OPTIONS: &str = "-c search_path=kb,public -c timezone=UTC -c statement_timeout=0 -c lock_timeout=60s \
                       -c maintenance_work_mem=256MB -c jit=off";
/// How long an index whose build failed is not tried again. A build reads the whole table, so one that always fails must
/// not be repeated all the time.
const BACKOFF: Backoff = Backoff::new(Duration::from_secs(10), Duration::from_secs(60 * 60));

/// An index to build.
pub(crate) struct IndexDefinition {
    pub(crate) name: String,
    /// `CREATE INDEX IF NOT EXISTS …`
    pub(crate) sql: String,
    /// Whether the session locks the name of the index, so that one server builds it. A connection pooler may run each
    /// statement on another connection, where the lock would remain.
    pub(crate) is_locked: bool,
}

/// Builds the indexes of one database.
pub(crate) struct IndexBuilder {
    build: BuildIndex,
    failed: Mutex<FailedBuilds>,
}

/// Builds an index with these parallel workers. Returns whether it did: it does not if the index exists, or if another
/// server builds it.
type BuildIndex = Box<
    dyn Fn(Arc<IndexDefinition>, Workers) -> Pin<Box<dyn Future<Output = Result<bool>> + Send>> + Send + Sync,
>;

/// How many processes of the database build an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Workers {
    /// As many as the database is set up for.
    Several,
    One,
}

impl Workers {
    /// The settings of the connection. They are given when it is opened: a connection pooler would keep what a statement
    /// has set, for others.
    fn options(self) -> String {
        match self {
            Workers::Several => OPTIONS.to_owned(),
            Workers::One => format!("{OPTIONS} -c max_parallel_maintenance_workers=0"),
        }
    }
}

impl IndexBuilder {
    pub(crate) fn new<T>(config: &Config, tls: T) -> Self
    where
        T: MakeTlsConnect<Socket> + Clone + Send + Sync + 'static,
        T::Stream: Send,
        T::TlsConnect: Send,
        <T::TlsConnect as TlsConnect<Socket>>::Future: Send,
    {
        let config = config.clone();
        let build: BuildIndex = Box::new(move |index, workers| {
            let (mut config, tls) = (config.clone(), tls.clone());
            config.options(workers.options());
            Box::pin(connect_and_build(config, tls, index))
        });
        Self { build, failed: Mutex::default() }
    }

    /// Builds an index. Returns whether it did: it does not if the index exists, if another server builds it, or if its
    /// build has failed a short time ago.
    pub(crate) async fn build(&self, index: IndexDefinition) -> Result<bool> {
        if !self.failed.lock().may_try(&index.name, Instant::now()) {
            return Ok(false);
        }
        let index = Arc::new(index);
        let mut built = (self.build)(Arc::clone(&index), Workers::Several).await;
        // Parallel workers share the memory of the build in a file system that is small in containers.
        if matches!(built, Err(Error::StorageFull(_))) {
            built = (self.build)(Arc::clone(&index), Workers::One).await;
        }
        self.failed.lock().record(&index.name, built.is_ok(), Instant::now());
        built
    }
}

/// The indexes whose last build failed, by name.
#[derive(Default)]
struct FailedBuilds(HashMap<String, FailedBuild>);

struct FailedBuild {
    failures: u32,
    next_attempt: Instant,
}

impl FailedBuilds {
    fn may_try(&self, index: &str, now: Instant) -> bool {
        self.0.get(index).is_none_or(|failed| now >= failed.next_attempt)
    }

    fn record(&mut self, index: &str, is_built: bool, now: Instant) {
        if is_built {
            self.0.remove(index);
            return;
        }
        let failures = self.0.get(index).map_or(0, |failed| failed.failures);
        let failed =
            FailedBuild { failures: failures.saturating_add(1), next_attempt: now + BACKOFF.delay(failures) };
        self.0.insert(index.to_owned(), failed);
    }
}

async fn connect_and_build<T>(config: Config, tls: T, index: Arc<IndexDefinition>) -> Result<bool>
where
    T: MakeTlsConnect<Socket>,
{
    let (client, connection) = config.connect(tls).await?;
    tokio::select! {
        built = build(&client, &index) => built,
        closed = connection => Err(closed.map_or_else(Error::from, |()| Error::Closed)),
    }
}

async fn build(client: &Client, index: &IndexDefinition) -> Result<bool> {
    if !index.is_locked {
        return build_missing(client, index).await;
    }
    // It is tried and not waited for: a statement that waits has a snapshot, and the build waits for the end of every
    // snapshot. If this server is killed, the database goes on building and keeps the lock until the index is complete.
    let name = index.name.as_str();
    let try_lock = "SELECT pg_try_advisory_lock(hashtextextended($1, 4400))";
    if !client.query_one(try_lock, &[&name]).await?.get::<_, bool>(0) {
        return Ok(false);
    }
    let built = build_missing(client, index).await;
    client.query_one("SELECT pg_advisory_unlock(hashtextextended($1, 4400))", &[&name]).await?;
    built
}

/// Builds the index unless it exists or is being built.
async fn build_missing(client: &Client, index: &IndexDefinition) -> Result<bool> {
    let name = index.name.as_str();
    let is_done = "SELECT EXISTS (SELECT 1 FROM pg_index WHERE indexrelid = to_regclass($1) AND indisvalid)
                       OR EXISTS (SELECT 1 FROM pg_stat_progress_create_index
                                  WHERE index_relid = to_regclass($1) AND datname = current_database())";
    if client.query_one(is_done, &[&name]).await?.get::<_, bool>(0) {
        return Ok(false);
    }
    migrate::build_index(client, &index.sql).await?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use emergent_testkit::{PostgresDatabase, new_postgres_database};
    use tokio_postgres::NoTls;

    use super::*;

    #[test]
    fn an_index_that_cannot_be_built_is_tried_less_and_less_often() {
        let (mut failed, mut now) = (FailedBuilds::default(), Instant::now());
        assert!(failed.may_try("a", now));
        for seconds in [10, 20, 40, 80, 160, 320, 640, 1_280, 2_560, 3_600, 3_600] {
            failed.record("a", false, now);
            assert!(failed.may_try("b", now), "another index is not affected");
            now += Duration::from_secs(seconds - 1);
            assert!(!failed.may_try("a", now), "{seconds}");
            now += Duration::from_secs(1);
            assert!(failed.may_try("a", now), "{seconds}");
        }
        failed.record("a", true, now);
        failed.record("a", false, now);
        assert!(failed.may_try("a", now + Duration::from_secs(10)), "it was built meanwhile");
    }

    async fn connect(database: &PostgresDatabase) -> Client {
        let (client, connection) = tokio_postgres::connect(&database.url(), NoTls).await.unwrap();
        tokio::spawn(connection);
        client.batch_execute("CREATE SCHEMA IF NOT EXISTS kb; SET search_path = kb").await.unwrap();
        client
    }

    fn index(name: &str) -> IndexDefinition {
        let sql = format!("CREATE INDEX IF NOT EXISTS {name} ON things (id)");
        IndexDefinition { name: name.to_owned(), sql, is_locked: true }
    }

    async fn number(client: &Client, sql: &str) -> i64 {
        client.query_one(sql, &[]).await.unwrap().get(0)
    }

    const INDEXES: &str = "SELECT count(*) FROM pg_indexes WHERE indexname LIKE 'things%'";

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_failed_build_leaves_nothing_and_does_not_delay_other_indexes() {
        let database = new_postgres_database().await;
        let (client, holder) = (connect(&database).await, connect(&database).await);
        client.batch_execute("CREATE TABLE things (id bigint)").await.unwrap();
        let builder = Arc::new(IndexBuilder::new(&database.url().parse().unwrap(), NoTls));
        // A build waits for transactions that began before it. Its index exists by then, and is not valid.
        holder.batch_execute("BEGIN; INSERT INTO things VALUES (1)").await.unwrap();
        let building = Arc::clone(&builder);
        let failing = tokio::spawn(async move { building.build(index("things_a")).await });
        let under_way =
            "SELECT count(pg_cancel_backend(pid)) FROM pg_stat_progress_create_index WHERE index_relid <> 0";
        while number(&client, under_way).await == 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        holder.batch_execute("COMMIT").await.unwrap();
        failing.await.unwrap().unwrap_err();
        assert_eq!(number(&client, INDEXES).await, 0);

        assert!(!builder.build(index("things_a")).await.unwrap(), "it is not tried again at once");
        assert!(builder.build(index("things_b")).await.unwrap());
        assert_eq!(number(&client, INDEXES).await, 1);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_build_without_parallel_workers_sets_nothing_that_stays() {
        let database = new_postgres_database().await;
        let client = connect(&database).await;
        client.batch_execute("CREATE TABLE things (id bigint)").await.unwrap();
        let builder = IndexBuilder::new(&database.url().parse().unwrap(), NoTls);
        assert!((builder.build)(Arc::new(index("things_a")), Workers::One).await.unwrap());
        assert!(
            number(&client, "SELECT current_setting('max_parallel_maintenance_workers')::bigint").await > 0
        );
        assert_eq!(number(&client, INDEXES).await, 1);
    }
}
