//! PostgreSQL: a pool of connections, and transactions that are retried when two conflict.

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
    tx::{Conn, Tx},
    wake::Wake,
};

/// How often a conflicting transaction is tried before the caller gets the error.
const MAX_ATTEMPTS: u32 = 12;
const BACKOFF: Backoff = Backoff::new(Duration::from_micros(500), Duration::from_millis(128));

pub(crate) struct Postgres {
    pool: Pool,
    cache: bool,
    wake: Arc<Wake>,
    announcer: Arc<Notifier>,
    commits: Arc<AtomicU64>,
    listener: tokio::task::JoinHandle<()>,
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.listener.abort();
    }
}

impl Postgres {
    pub(crate) async fn open(url: &str, connections: usize, cache: bool, wake: Arc<Wake>) -> Result<Self> {
        let place = crate::db::without_password(url);
        let failed = |source: Box<dyn std::error::Error + Send + Sync>| Error::Open { place, source };
        let wanted = tls::parse_tls_options(url);
        let announcer = Arc::<Notifier>::default();
        let opened = match wanted.url.parse::<Config>() {
            Ok(config) => match wanted.tls.map(|roots| tls::connector(&roots)) {
                None => connect(config, NoTls, connections, &wake, &announcer).await,
                Some(Ok(tls)) => connect(config, tls, connections, &wake, &announcer).await,
                Some(Err(error)) => Err(error.into()),
            },
            Err(error) => Err(error.into()),
        };
        let (pool, mut first, listener) = opened.map_err(failed)?;
        let opened = Self { pool, cache, wake, announcer, commits: Arc::default(), listener };
        crate::migrate::postgres(&mut first).await?;
        Ok(opened)
    }

    pub(crate) fn commits(&self) -> u64 {
        self.commits.load(Ordering::Relaxed)
    }

    pub(crate) async fn write<T, E, F>(&self, work: F) -> Result<T, E>
    where
        F: Fn(&mut Tx<'_>) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: From<Error> + Send + 'static,
    {
        let client = self.client().await?;
        let (wake, announcer) = (Arc::clone(&self.wake), Arc::clone(&self.announcer));
        let (cache, commits) = (self.cache, Arc::clone(&self.commits));
        let runtime = tokio::runtime::Handle::current();
        #[expect(
            clippy::disallowed_methods,
            reason = "awaited here; the connections of the pool limit how many there are, and only its own thread sleeps"
        )]
        let done = tokio::task::spawn_blocking(move || {
            let mut attempt = 1;
            loop {
                match try_write(&client, &runtime, cache, &work) {
                    WriteAttempt::Committed(value, followups) => {
                        commits.fetch_add(1, Ordering::Relaxed);
                        announcer.notify(followups.wakes());
                        followups.run(&wake, None);
                        return Ok(value);
                    }
                    WriteAttempt::Failed(error) => return Err(error),
                    WriteAttempt::Conflicted(error) if attempt == MAX_ATTEMPTS => return Err(error),
                    WriteAttempt::Conflicted(_) => {
                        std::thread::sleep(backoff(attempt));
                        attempt += 1;
                    }
                }
            }
        });
        done.await.unwrap_or_else(|_| Err(Error::Closed.into()))
    }

    pub(crate) async fn read<T, E, F>(&self, snapshot: bool, work: F) -> Result<T, E>
    where
        F: FnOnce(&mut Tx<'_>) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: From<Error> + Send + 'static,
    {
        let client = self.client().await?;
        let cache = self.cache;
        // Without a statement cache there may be a connection pooler in between, which keeps only a
        // transaction on one connection.
        let snapshot = snapshot || !cache;
        let runtime = tokio::runtime::Handle::current();
        #[expect(
            clippy::disallowed_methods,
            reason = "awaited here; the connections of the pool limit how many there are"
        )]
        let done = tokio::task::spawn_blocking(move || {
            if snapshot {
                runtime
                    .block_on(client.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"))
                    .map_err(Error::from)?;
            }
            let mut tx = Tx::new(Conn::Postgres { client: &client, runtime: runtime.clone(), cache });
            let done = catch_unwind(AssertUnwindSafe(|| work(&mut tx)))
                .unwrap_or_else(|panic| Err(panic_error(panic.as_ref()).into()));
            if snapshot {
                runtime.block_on(client.batch_execute("ROLLBACK")).map_err(Error::from)?;
            }
            done
        });
        done.await.unwrap_or_else(|_| Err(Error::Closed.into()))
    }

    async fn client(&self) -> Result<Object> {
        self.pool.get().await.map_err(|source| Error::Pool(Box::new(source)))
    }
}

type OpenedPool = (Pool, Object, tokio::task::JoinHandle<()>);

/// Opens a pool and its first connection, and starts the task that listens for wake-ups.
async fn connect<T>(
    mut config: Config,
    tls: T,
    connections: usize,
    wake: &Arc<Wake>,
    announcer: &Arc<Notifier>,
) -> Result<OpenedPool, Box<dyn std::error::Error + Send + Sync>>
where
    T: MakeTlsConnect<Socket> + Clone + Sync + Send + 'static,
    T::Stream: Sync + Send,
    T::TlsConnect: Sync + Send,
    <T::TlsConnect as TlsConnect<Socket>>::Future: Send,
{
    // A server that stalls inside a transaction would keep its row locks, and the servers that take over
    // its work would wait for them. The database ends such a transaction before the leases expire.
    config.options("-c search_path=kb,public -c timezone=UTC -c idle_in_transaction_session_timeout=6000");
    config.application_name("emergent");
    config.connect_timeout(Duration::from_secs(10));
    let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
    let manager = Manager::from_config(config.clone(), tls.clone(), recycling);
    let pool = Pool::builder(manager).max_size(connections).build()?;
    let first = pool.get().await?;
    #[expect(
        clippy::disallowed_methods,
        reason = "`Postgres` keeps the handle, and aborts the task when it is dropped"
    )]
    let listener = tokio::spawn(notify::run(config, tls, Arc::clone(wake), Arc::clone(announcer)));
    Ok((pool, first, listener))
}

enum WriteAttempt<T, E> {
    Committed(T, crate::tx::AfterCommit),
    Failed(E),
    /// Another transaction conflicted; retry.
    Conflicted(E),
}

fn try_write<T, E: From<Error>>(
    client: &Object,
    runtime: &tokio::runtime::Handle,
    cache: bool,
    work: &impl Fn(&mut Tx<'_>) -> Result<T, E>,
) -> WriteAttempt<T, E> {
    if let Err(error) = runtime.block_on(client.batch_execute("BEGIN")) {
        return WriteAttempt::Failed(Error::from(error).into());
    }
    let mut tx = Tx::new(Conn::Postgres { client, runtime: runtime.clone(), cache });
    let done = catch_unwind(AssertUnwindSafe(|| work(&mut tx)))
        .unwrap_or_else(|panic| Err(panic_error(panic.as_ref()).into()));
    match tx.final_result(done) {
        Ok(value) => match runtime.block_on(client.batch_execute("COMMIT")).map_err(Error::from) {
            Ok(()) => WriteAttempt::Committed(value, tx.into_after_commit()),
            Err(error @ Error::Conflict(_)) => WriteAttempt::Conflicted(error.into()),
            Err(error) => WriteAttempt::Failed(error.into()),
        },
        Err(error) => {
            // If the rollback fails too, the connection is broken, and the pool discards it.
            let _ = runtime.block_on(client.batch_execute("ROLLBACK"));
            if tx.conflicted { WriteAttempt::Conflicted(error) } else { WriteAttempt::Failed(error) }
        }
    }
}

/// A delay that grows with each attempt and has jitter, so that two transactions do not conflict again.
fn backoff(attempt: u32) -> Duration {
    BACKOFF.delay(attempt) + Duration::from_millis(attempt.into()).mul_f64(random_spread())
}
