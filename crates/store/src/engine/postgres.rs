//! The PostgreSQL engine: a pool of connections, and transactions that are retried when two conflict.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use deadpool_postgres::{Manager, ManagerConfig, Object, Pool, RecyclingMethod};
use emergent_net::backoff::{Backoff, random_spread};
use tokio::task::JoinSet;
use tokio_postgres::{
    Config, NoTls, Socket,
    tls::{MakeTlsConnect, TlsConnect},
};

use crate::{
    engine::{
        notify::{self, Notifier},
        sqlite::panic_error,
        tls,
    },
    error::{Error, Result},
    storage_health::StorageHealth,
    tx::{Conn, Tx},
    wake::Wake,
};

/// How often a transaction that conflicts is tried before the caller gets the error.
const MAX_ATTEMPTS: u32 = 12;
const BACKOFF: Backoff = Backoff::new(Duration::from_micros(500), Duration::from_millis(128));
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// An open PostgreSQL database.
pub(crate) struct Postgres {
    pool: Pool,
    /// Whether prepared statements are reused; see [`crate::DbConfig`].
    cache: bool,
    wake: Arc<Wake>,
    notifier: Arc<Notifier>,
    commits: Arc<AtomicU64>,
    health: Arc<StorageHealth>,
    /// The task that exchanges wakes with other servers.
    listener: tokio::task::JoinHandle<()>,
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.listener.abort();
    }
}

impl Postgres {
    /// Opens the pool and migrates the schema.
    pub(crate) async fn open(url: &str, connections: usize, cache: bool, wake: Arc<Wake>) -> Result<Self> {
        let place = crate::db::without_password(url);
        let health = Arc::new(StorageHealth::new(place.clone()));
        let open_error = |source: Box<dyn std::error::Error + Send + Sync>| Error::Open { place, source };
        let options = tls::parse_tls_options(url);
        let notifier = Arc::<Notifier>::default();
        let connected = match options.url.parse::<Config>() {
            Ok(config) => match options.tls.map(|roots| tls::connector(&roots)) {
                None => connect(config, NoTls, connections, &wake, &notifier).await,
                Some(Ok(tls)) => connect(config, tls, connections, &wake, &notifier).await,
                Some(Err(error)) => Err(error.into()),
            },
            Err(error) => Err(error.into()),
        };
        let (pool, mut client, listener) = connected.map_err(open_error)?;
        let engine = Self { pool, cache, wake, notifier, commits: Arc::default(), health, listener };
        crate::migrate::postgres(&mut client).await?;
        Ok(engine)
    }

    pub(crate) fn commits(&self) -> u64 {
        self.commits.load(Ordering::Relaxed)
    }

    pub(crate) fn health(&self) -> &StorageHealth {
        &self.health
    }

    /// Runs a write transaction, again after each conflict, up to [`MAX_ATTEMPTS`] times.
    pub(crate) async fn write<T, E, F>(&self, work: F) -> Result<T, E>
    where
        F: Fn(&mut Tx<'_>) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: From<Error> + Send + 'static,
    {
        let (wake, notifier) = (Arc::clone(&self.wake), Arc::clone(&self.notifier));
        let (cache, commits, health) = (self.cache, Arc::clone(&self.commits), Arc::clone(&self.health));
        let runtime = tokio::runtime::Handle::current();
        self.with_client(move |client| {
            let mut attempt = 1;
            loop {
                match try_write(&client, &runtime, cache, &health, &work) {
                    WriteAttempt::Committed(value, after_commit) => {
                        commits.fetch_add(1, Ordering::Relaxed);
                        health.report_commit();
                        notifier.notify(after_commit.wakes());
                        after_commit.run(&wake, None);
                        return Ok(value);
                    }
                    WriteAttempt::Failed(error) => return Err(error),
                    WriteAttempt::Conflicted(error) if attempt == MAX_ATTEMPTS => return Err(error),
                    WriteAttempt::Conflicted(_) => {
                        #[expect(
                            clippy::disallowed_methods,
                            reason = "it only blocks this transaction's thread"
                        )]
                        std::thread::sleep(backoff(attempt));
                        attempt += 1;
                    }
                }
            }
        })
        .await
    }

    /// Runs reads; with `snapshot`, all statements see the same committed state.
    pub(crate) async fn read<T, E, F>(&self, snapshot: bool, work: F) -> Result<T, E>
    where
        F: FnOnce(&mut Tx<'_>) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: From<Error> + Send + 'static,
    {
        let (cache, health) = (self.cache, Arc::clone(&self.health));
        // Without a statement cache there may be a connection pooler in between. Only inside a transaction
        // does it run all statements on one connection.
        let snapshot = snapshot || !cache;
        let runtime = tokio::runtime::Handle::current();
        self.with_client(move |client| {
            if snapshot {
                runtime
                    .block_on(client.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"))
                    .map_err(Error::from)?;
            }
            let mut tx = Tx::new(Conn::Postgres { client: &client, runtime: runtime.clone(), cache });
            let result = catch_unwind(AssertUnwindSafe(|| work(&mut tx)))
                .unwrap_or_else(|panic| Err(panic_error(panic.as_ref()).into()));
            if let Some((fault, reason)) = tx.fault.take() {
                health.report(fault, reason);
            }
            if snapshot {
                runtime.block_on(client.batch_execute("ROLLBACK")).map_err(Error::from)?;
            }
            result
        })
        .await
    }

    /// Runs `work` on a blocking thread with a connection of the pool. The wait is a task of its own. A caller that is not polled, such as
    /// a response that its client does not read, would otherwise be given a connection and keep it from
    /// everybody.
    async fn with_client<T, E, W>(&self, work: W) -> Result<T, E>
    where
        W: FnOnce(Object) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: From<Error> + Send + 'static,
    {
        let pool = self.pool.clone();
        let mut task = JoinSet::new();
        task.spawn(async move {
            let client = pool.get().await.map_err(|source| Error::Pool(Box::new(source)))?;
            #[expect(
                clippy::disallowed_methods,
                reason = "awaited here; the connections of the pool limit how many there are"
            )]
            let blocking = tokio::task::spawn_blocking(move || work(client));
            blocking.await.unwrap_or_else(|_| Err(Error::Closed.into()))
        });
        let result = task.join_next().await;
        result.and_then(Result::ok).unwrap_or_else(|| Err(Error::Closed.into()))
    }
}

/// A pool, its first connection, and the task that exchanges wakes.
type OpenedPool = (Pool, Object, tokio::task::JoinHandle<()>);

/// Opens a pool and its first connection, and starts the task that exchanges wakes.
async fn connect<T>(
    mut config: Config,
    tls: T,
    connections: usize,
    wake: &Arc<Wake>,
    notifier: &Arc<Notifier>,
) -> Result<OpenedPool, Box<dyn std::error::Error + Send + Sync>>
where
    T: MakeTlsConnect<Socket> + Clone + Sync + Send + 'static,
    T::Stream: Sync + Send,
    T::TlsConnect: Sync + Send,
    <T::TlsConnect as TlsConnect<Socket>>::Future: Send,
{
    // A server that stalls inside a transaction would keep its row locks, and the servers that take over
    // its work would wait for them. The database ends such a transaction after 6 seconds, before the leases
    // expire.
    config.options("-c search_path=kb,public -c timezone=UTC -c idle_in_transaction_session_timeout=6000");
    config.application_name("emergent");
    config.connect_timeout(CONNECT_TIMEOUT);
    let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
    let manager = Manager::from_config(config.clone(), tls.clone(), recycling);
    let pool = Pool::builder(manager).max_size(connections).build()?;
    let client = pool.get().await?;
    #[expect(
        clippy::disallowed_methods,
        reason = "`Postgres` keeps the handle, and aborts the task when it is dropped"
    )]
    let listener = tokio::spawn(notify::run(config, tls, Arc::clone(wake), Arc::clone(notifier)));
    Ok((pool, client, listener))
}

/// The outcome of one attempt to run and commit a transaction.
enum WriteAttempt<T, E> {
    Committed(T, crate::tx::AfterCommit),
    Failed(E),
    /// The transaction conflicted with another one and can be retried.
    Conflicted(E),
}

fn try_write<T, E: From<Error>>(
    client: &Object,
    runtime: &tokio::runtime::Handle,
    cache: bool,
    health: &StorageHealth,
    work: &impl Fn(&mut Tx<'_>) -> Result<T, E>,
) -> WriteAttempt<T, E> {
    if let Err(error) = runtime.block_on(client.batch_execute("BEGIN")) {
        return WriteAttempt::Failed(Error::from(error).into());
    }
    let mut tx = Tx::new(Conn::Postgres { client, runtime: runtime.clone(), cache });
    let result = catch_unwind(AssertUnwindSafe(|| work(&mut tx)))
        .unwrap_or_else(|panic| Err(panic_error(panic.as_ref()).into()));
    if let Some((fault, reason)) = tx.fault.take() {
        health.report(fault, reason);
    }
    match tx.final_result(result) {
        Ok(value) => match runtime.block_on(client.batch_execute("COMMIT")).map_err(Error::from) {
            Ok(()) => WriteAttempt::Committed(value, tx.into_after_commit()),
            Err(error @ Error::Conflict(_)) => WriteAttempt::Conflicted(error.into()),
            Err(error) => {
                if let Some(fault) = error.storage_fault() {
                    health.report(fault, emergent_net::errors::error_chain(&error));
                }
                WriteAttempt::Failed(error.into())
            }
        },
        Err(error) => {
            // If the rollback fails too, the connection is broken, and the pool discards it.
            let _ = runtime.block_on(client.batch_execute("ROLLBACK"));
            if tx.conflicted { WriteAttempt::Conflicted(error) } else { WriteAttempt::Failed(error) }
        }
    }
}

/// The delay before the next attempt. It has jitter, so that two transactions do not conflict again.
fn backoff(attempt: u32) -> Duration {
    BACKOFF.delay(attempt) + Duration::from_millis(attempt.into()).mul_f64(random_spread())
}
