//! The PostgreSQL engine: a pool of connections, and transactions that are retried when two conflict.

use std::{
    num::NonZero,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread::available_parallelism,
    time::Duration,
};

use deadpool_postgres::{Manager, ManagerConfig, Object, Pool, QueueMode, RecyclingMethod, Runtime};
use emergent_net::backoff::{Backoff, random_spread};
use tokio::{task::JoinSet, time::Instant};
use tokio_postgres::{
    Config, NoTls, Socket,
    tls::{MakeTlsConnect, TlsConnect},
};

use crate::{
    after_commit::AfterCommit,
    engine::{
        Engine,
        index_builder::{IndexBuilder, IndexDefinition},
        notify::{self, Notifier},
        postgres_session::{CancelStatement, Session, cancel_statement},
        slots::{Slot, Slots},
        tls,
        work::{ReadWork, WriteWork, panic_error},
    },
    error::{Error, Result},
    feed,
    limits::{AbandonOnDrop, EngineLimits, TimeLimits, TxLimits},
    migrate::{self, ClientKind},
    requester,
    row_numbers::NumberPool,
    storage_health::StorageHealth,
    tx::{Conn, Tx},
    wake::Wake,
};

/// How often a transaction that conflicts is tried before the caller gets the error.
const MAX_ATTEMPTS: u32 = 12;
const BACKOFF: Backoff = Backoff::new(Duration::from_micros(500), Duration::from_millis(128));
/// How long a new connection may take, including the handshake.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the network may take to confirm what was sent before a connection counts as lost.
const TCP_TIMEOUT: Duration = Duration::from_secs(20);
/// The database itself ends a statement this long after the server should have cancelled it.
const STATEMENT_TIMEOUT_RESERVE: Duration = Duration::from_secs(5);
/// With fewer connections than this, one is reserved for leases, health checks and authentication, otherwise
/// two.
const FEW_CONNECTIONS: usize = 8;
/// A connection that reads megabytes keeps a thread of this server busy, and on one machine a process of the database.
const PROJECT_CONNECTIONS_PER_PROCESSOR: usize = 4;
/// How many connections the server's own work uses for each processor, if the database is on the same machine. Each
/// connection prepares and plans every statement for itself, and PostgreSQL needs more time for the same work the more
/// of them are at work at once.
const SERVER_CONNECTIONS_PER_PROCESSOR: usize = 4;
/// How many more it uses for each processor and millisecond of a round trip, in which the connection does nothing. A
/// task takes about 30 round trips, and 3 ms of the time of a processor of this server.
const SERVER_CONNECTIONS_PER_MILLISECOND: f64 = 10.0;
/// What it may always use: with one processor four are few, because some of them wait for locks.
const MIN_SERVER_CONNECTIONS: usize = 8;
/// How many round trips are measured. The shortest counts.
const MEASURED_ROUND_TRIPS: usize = 5;

/// An open PostgreSQL database.
pub(crate) struct Postgres {
    pool: Pool,
    slots: Slots,
    limits: EngineLimits,
    cancel: CancelStatement,
    index_builder: IndexBuilder,
    /// How many statements the database has answered. If a caller waits for a connection and there is no answer
    /// meanwhile, the database is not busy but unresponsive.
    answers: Arc<AtomicU64>,
    /// Whether prepared statements are reused; see [`crate::DbConfig`].
    cache: bool,
    /// Row numbers for the next transactions.
    numbers: Arc<NumberPool>,
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
    pub(crate) async fn open(
        url: &str,
        connections: usize,
        cache: bool,
        limits: TimeLimits,
        wake: Arc<Wake>,
    ) -> Result<Self> {
        let limits = limits.for_engine(Engine::Postgres);
        let place = crate::db::without_password(url);
        let health = Arc::new(StorageHealth::new(place.clone()));
        let open_error = |source: Box<dyn std::error::Error + Send + Sync>| Error::Open { place, source };
        let options = tls::parse_tls_options(url);
        let (notifier, numbers) = (Arc::<Notifier>::default(), Arc::<NumberPool>::default());
        let connected = match options.url.parse::<Config>() {
            Ok(mut config) => {
                configure(&mut config, limits);
                match options.tls.map(|roots| tls::connector(&roots)) {
                    None => connect(config, NoTls, connections, &wake, &notifier, &numbers).await,
                    Some(Ok(tls)) => connect(config, tls, connections, &wake, &notifier, &numbers).await,
                    Some(Err(error)) => Err(error.into()),
                }
            }
            Err(error) => Err(error.into()),
        };
        let OpenedPool { pool, mut client, round_trip, listener, cancel, index_builder } =
            connected.map_err(open_error)?;
        let processors = available_parallelism().map_or(1, NonZero::get);
        let reserved = if connections < FEW_CONNECTIONS { 1 } else { 2 };
        let engine = Self {
            pool,
            slots: Slots::with_limits(
                connections.saturating_sub(reserved),
                reserved,
                PROJECT_CONNECTIONS_PER_PROCESSOR * processors,
                max_server_connections(processors, round_trip),
            ),
            limits,
            cancel,
            index_builder,
            answers: Arc::default(),
            cache,
            numbers,
            wake,
            notifier,
            commits: Arc::default(),
            health,
            listener,
        };
        // Without a statement cache there may be a connection pooler in between.
        let kind = if cache { ClientKind::Session } else { ClientKind::Pooled };
        migrate::postgres(&mut client, kind).await?;
        Ok(engine)
    }

    pub(crate) fn commits(&self) -> u64 {
        self.commits.load(Ordering::Relaxed)
    }

    pub(crate) fn health(&self) -> &StorageHealth {
        &self.health
    }

    /// Builds an index while others use its table; see [`IndexBuilder::build`]. `sql` is `CREATE INDEX IF NOT EXISTS …`.
    pub(crate) async fn build_index(&self, name: String, sql: String) -> Result<bool> {
        self.index_builder.build(IndexDefinition { name, sql, is_locked: self.cache }).await
    }

    /// Runs a write transaction, again after each conflict, up to [`MAX_ATTEMPTS`] times.
    pub(crate) async fn write(&self, mut work: Box<dyn WriteWork>) -> Result<()> {
        let (wake, notifier) = (Arc::clone(&self.wake), Arc::clone(&self.notifier));
        let (commits, health) = (Arc::clone(&self.commits), Arc::clone(&self.health));
        let run = move |session: &Session| {
            let mut attempt = 1;
            loop {
                match try_write(session, &health, work.as_mut()) {
                    WriteAttempt::Committed { after_commit, has_written } => {
                        commits.fetch_add(1, Ordering::Relaxed);
                        // A transaction that changed nothing says nothing about the storage.
                        if has_written {
                            health.report_commit();
                        }
                        notifier.notify(after_commit.wakes());
                        after_commit.run(&wake, None);
                        work.reply();
                        return Ok(());
                    }
                    WriteAttempt::Refused { conflicted } if !conflicted || attempt == MAX_ATTEMPTS => {
                        work.reply();
                        return Ok(());
                    }
                    WriteAttempt::Failed(error)
                        if !matches!(error, Error::Conflict(_)) || attempt == MAX_ATTEMPTS =>
                    {
                        return Err(error);
                    }
                    WriteAttempt::Refused { .. } | WriteAttempt::Failed(_) => {
                        #[expect(
                            clippy::disallowed_methods,
                            reason = "it only blocks this transaction's thread"
                        )]
                        std::thread::sleep(backoff(attempt));
                        attempt += 1;
                    }
                }
            }
        };
        self.with_session(self.limits.for_write(requester::current()), Box::new(run)).await
    }

    /// Runs reads; with `snapshot`, all statements see the same committed state.
    pub(crate) async fn read(&self, snapshot: bool, work: ReadWork) -> Result<()> {
        let health = Arc::clone(&self.health);
        // Without a statement cache there may be a connection pooler in between. Only inside a transaction
        // does it run all statements on one connection.
        let snapshot = snapshot || !self.cache;
        let limits = self.limits.for_read(requester::current());
        let _abandon = AbandonOnDrop::new(&limits);
        let run = move |session: &Session| {
            if snapshot {
                session.begin("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")?;
            }
            let mut tx = Tx::new(Conn::Postgres(session), Arc::clone(session.limits()));
            let result =
                catch_unwind(AssertUnwindSafe(|| work(&mut tx))).map_err(|panic| panic_error(panic.as_ref()));
            if let Some((fault, reason)) = tx.fault.take() {
                health.report(fault, reason);
            }
            // The result stands, whatever becomes of the transaction that it was read in.
            session.rollback();
            result
        };
        self.with_session(limits, Box::new(run)).await
    }

    /// Runs `work` on a blocking thread with a connection of the pool. The wait is a task of its own. A
    /// caller that is not polled, such as a response that its client does not read, would otherwise be given
    /// a connection and keep it from everybody.
    async fn with_session(&self, limits: Arc<TxLimits>, work: SessionWork) -> Result<()> {
        let (pool, slots, cache) = (self.pool.clone(), self.slots.clone(), self.cache);
        let (cancel, answers) = (Arc::clone(&self.cancel), Arc::clone(&self.answers));
        let numbers = Arc::clone(&self.numbers);
        let requester = requester::current();
        let mut task = JoinSet::new();
        task.spawn(async move {
            let answers_before = answers.load(Ordering::Relaxed);
            let Some(slot) = slots.take(requester, limits.time()).await else {
                return Err(match answers.load(Ordering::Relaxed) == answers_before {
                    true => numbers.check_error(Error::Unresponsive),
                    false => Error::Busy { waited: limits.time() },
                });
            };
            let connected = pool.get().await.map_err(|source| Error::Pool(Box::new(source)));
            let client = connected.map_err(|error| numbers.check_error(error))?;
            #[expect(clippy::disallowed_methods, reason = "awaited here; the slots limit how many there are")]
            let blocking = tokio::task::spawn_blocking(move || {
                let session = Session::new(client, cache, limits, cancel, answers, numbers);
                run_session(session, slot, work)
            });
            blocking.await.unwrap_or(Err(Error::Closed))
        });
        let result = task.join_next().await;
        result.and_then(Result::ok).unwrap_or(Err(Error::Closed))
    }
}

/// How long the database takes to answer a statement that does nothing.
async fn measure_round_trip(client: &Object) -> Result<Duration, tokio_postgres::Error> {
    let mut shortest = Duration::MAX;
    for _ in 0..MEASURED_ROUND_TRIPS {
        let sent = Instant::now();
        client.batch_execute("").await?;
        shortest = shortest.min(sent.elapsed());
    }
    Ok(shortest)
}

/// The most connections that the server's own work uses at once, if its share allows as many.
fn max_server_connections(processors: usize, round_trip: Duration) -> usize {
    let waiting = SERVER_CONNECTIONS_PER_MILLISECOND * round_trip.as_secs_f64() * 1_000.0;
    (processors * (SERVER_CONNECTIONS_PER_PROCESSOR + waiting as usize)).max(MIN_SERVER_CONNECTIONS)
}

/// What is done with a connection.
type SessionWork = Box<dyn FnOnce(&Session) -> Result<()> + Send>;

/// Runs `work` and returns the connection to the pool before the slot is freed.
fn run_session(session: Session, slot: Slot, work: SessionWork) -> Result<()> {
    session.limits().start();
    let result = session.limits().check().and_then(|()| work(&session));
    session.finish();
    drop(slot);
    result
}

/// Sets the options of all connections.
fn configure(config: &mut Config, limits: EngineLimits) {
    // A server that stalls inside a transaction would keep its row locks, and the servers that take over
    // its work would wait for them. The database ends such a transaction after 6 seconds, before the leases
    // expire. Statements are cancelled by this server; if it cannot do that, the database ends them later.
    let statement_timeout = (limits.read.max(limits.write) + STATEMENT_TIMEOUT_RESERVE).as_millis();
    // The plan of a prepared statement stays until its tables are analysed, however much they grow. A scan of a whole
    // table is the best plan while the table has one page, so it is only chosen where no index can be used. No
    // statement is worth compiling: each reads few rows, whatever its plan is estimated to cost.
    config.options(format!(
        "-c search_path=kb,public -c timezone=UTC -c idle_in_transaction_session_timeout=6000 \
         -c statement_timeout={statement_timeout} -c enable_seqscan=off -c jit=off"
    ));
    config.application_name("emergent");
    config.connect_timeout(CONNECT_TIMEOUT);
    config.tcp_user_timeout(TCP_TIMEOUT);
}

/// A pool, its first connection and how long a round trip over it takes, the task that exchanges wakes, how statements are
/// cancelled and how indexes are built.
struct OpenedPool {
    pool: Pool,
    client: Object,
    round_trip: Duration,
    listener: tokio::task::JoinHandle<()>,
    cancel: CancelStatement,
    index_builder: IndexBuilder,
}

/// Opens a pool and its first connection, and starts the task that exchanges wakes.
async fn connect<T>(
    config: Config,
    tls: T,
    connections: usize,
    wake: &Arc<Wake>,
    notifier: &Arc<Notifier>,
    numbers: &Arc<NumberPool>,
) -> Result<OpenedPool, Box<dyn std::error::Error + Send + Sync>>
where
    T: MakeTlsConnect<Socket> + Clone + Sync + Send + 'static,
    T::Stream: Sync + Send,
    T::TlsConnect: Sync + Send,
    <T::TlsConnect as TlsConnect<Socket>>::Future: Send,
{
    let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
    let manager = Manager::from_config(config.clone(), tls.clone(), recycling);
    let pool = Pool::builder(manager)
        .max_size(connections)
        // The connection that was used last has the statements prepared and planned, and its catalogue in memory.
        // Each connection does that for itself, so that taking turns would multiply the work.
        .queue_mode(QueueMode::Lifo)
        .runtime(Runtime::Tokio1)
        .create_timeout(Some(CONNECT_TIMEOUT))
        .wait_timeout(Some(CONNECT_TIMEOUT))
        .build()?;
    let (cancel, index_builder) = (cancel_statement(tls.clone()), IndexBuilder::new(&config, tls.clone()));
    let client = pool.get().await?;
    // Before the task starts: nobody would end it if this failed.
    let round_trip = measure_round_trip(&client).await?;
    #[expect(
        clippy::disallowed_methods,
        reason = "`Postgres` keeps the handle, and aborts the task when it is dropped"
    )]
    let listener =
        tokio::spawn(notify::run(config, tls, Arc::clone(wake), Arc::clone(notifier), Arc::clone(numbers)));
    Ok(OpenedPool { pool, client, round_trip, listener, cancel, index_builder })
}

/// The outcome of one attempt to run and commit a transaction.
enum WriteAttempt {
    Committed {
        after_commit: AfterCommit,
        has_written: bool,
    },
    /// The closure returned an error, and keeps it. After a conflict with another transaction it can run again.
    Refused {
        conflicted: bool,
    },
    /// The transaction could not begin or commit.
    Failed(Error),
}

fn try_write(session: &Session, health: &StorageHealth, work: &mut dyn WriteWork) -> WriteAttempt {
    if let Err(error) = session.begin("BEGIN") {
        return WriteAttempt::Failed(error);
    }
    let mut tx = Tx::new(Conn::Postgres(session), Arc::clone(session.limits()));
    let succeeded = work.run(&mut tx);
    if let Some((fault, reason)) = tx.fault.take() {
        health.report(fault, reason);
    }
    if !succeeded {
        session.rollback();
        return WriteAttempt::Refused { conflicted: tx.conflicted };
    }
    match feed::flush(&mut tx).and_then(|()| session.commit()) {
        Ok(()) => {
            let has_written = tx.has_written;
            WriteAttempt::Committed { after_commit: tx.into_after_commit(), has_written }
        }
        Err(error) => {
            if let Some(fault) = error.storage_fault() {
                health.report(fault, emergent_net::errors::error_chain(&error));
            }
            session.rollback();
            WriteAttempt::Failed(error)
        }
    }
}

/// The delay before the next attempt. It has jitter, so that two transactions do not conflict again.
fn backoff(attempt: u32) -> Duration {
    BACKOFF.delay(attempt) + Duration::from_millis(attempt.into()).mul_f64(random_spread())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_that_is_far_away_is_used_over_more_connections() {
        let for_micros = |micros| max_server_connections(2, Duration::from_micros(micros));
        assert_eq!([for_micros(60), for_micros(250), for_micros(1_000)], [8, 12, 28]);
    }

    #[test]
    fn a_server_with_one_processor_has_enough_connections_for_its_own_work() {
        let for_micros = |micros| max_server_connections(1, Duration::from_micros(micros));
        assert_eq!([for_micros(60), for_micros(1_000)], [8, 14]);
    }
}
