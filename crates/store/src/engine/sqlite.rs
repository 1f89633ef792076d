//! The SQLite engine: one writer thread that commits queued transactions as a group, so that many writers
//! share an fsync, and a few reader connections that never wait for the writer.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use rusqlite::{Connection, OpenFlags, config::DbConfig};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot},
    task::JoinSet,
};

use crate::{
    error::{Error, Result},
    search::{fts_buffer::FtsBuffer, vectors::VectorIndexes},
    tx::{AfterCommit, Conn, Tx},
    wake::Wake,
};

/// After this time a group takes no more transactions. It limits how long a caller waits for others.
const MAX_GROUP_TIME: Duration = Duration::from_millis(20);
/// The maximum number of transactions in a group.
const MAX_GROUP_SIZE: usize = 512;
/// How long the writer waits for another transaction when the previous group had several.
const GATHER_TIME: Duration = Duration::from_micros(50);
/// The capacity of the queue of transactions. When it is full, callers wait until one is taken from it.
const QUEUE_CAPACITY: usize = 4096;
/// The maximum number of connections that read.
const READER_COUNT: usize = 4;
/// How long a connection waits for a lock before the statement fails.
pub(crate) const BUSY_TIMEOUT: Duration = Duration::from_secs(10);
const STATEMENT_CACHE_CAPACITY: usize = 256;

/// An open SQLite database.
pub(crate) struct Sqlite {
    writer: Writer,
    readers: Arc<Readers>,
    vectors: Arc<VectorIndexes>,
    commits: Arc<AtomicU64>,
}

impl Sqlite {
    /// Opens the file, migrates the schema and starts the writer thread.
    pub(crate) fn open(path: &Path, wake: Arc<Wake>, vectors: Arc<VectorIndexes>) -> Result<Self> {
        let open_error =
            |source: Error| Error::Open { place: path.display().to_string(), source: Box::new(source) };
        let mut writer = connect(path).map_err(open_error)?;
        // Merging the full-text index reads older segments; a large cache keeps those reads off the disk. A
        // negative size is in KiB.
        writer.pragma_update(None, "cache_size", -64_000)?;
        crate::migrate::sqlite(&mut writer)?;
        let (sender, queue) = mpsc::channel(QUEUE_CAPACITY);
        let commits = Arc::new(AtomicU64::new(0));
        let commit_count = Arc::clone(&commits);
        let thread = std::thread::Builder::new()
            .name("store-writer".to_owned())
            .spawn(move || write_groups(&writer, queue, &wake, &commit_count))
            .map_err(|source| Error::Open { place: path.display().to_string(), source: Box::new(source) })?;
        let readers = Readers {
            path: path.to_owned(),
            idle: Mutex::default(),
            permits: Arc::new(Semaphore::new(READER_COUNT)),
        };
        let writer = Writer { queue: Some(sender), thread: Some(thread) };
        Ok(Self { writer, readers: Arc::new(readers), vectors, commits })
    }

    pub(crate) fn commits(&self) -> u64 {
        self.commits.load(Ordering::Relaxed)
    }

    /// Queues a transaction for the writer thread and waits until its group is committed.
    pub(crate) async fn write<T, E, F>(&self, work: F) -> Result<T, E>
    where
        F: Fn(&mut Tx<'_>) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: From<Error> + Send + 'static,
    {
        let (reply_sender, reply) = oneshot::channel();
        let write = Box::new(ClosureWrite {
            work,
            outcome: None,
            reply: reply_sender,
            vectors: Arc::clone(&self.vectors),
        });
        let queue = self.writer.queue.as_ref().ok_or(Error::Closed)?;
        queue.send(write).await.map_err(|_| Error::Closed)?;
        reply.await.map_err(|_| Error::Closed)?
    }

    /// Runs reads; with `snapshot`, all statements see the same committed state.
    pub(crate) async fn read<T, E, F>(&self, snapshot: bool, work: F) -> Result<T, E>
    where
        F: FnOnce(&mut Tx<'_>) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: From<Error> + Send + 'static,
    {
        let readers = Arc::clone(&self.readers);
        let read = move |permit: OwnedSemaphorePermit| {
            // The closure owns the permit: if the caller is dropped, the connection stays in use until the
            // closure returns.
            let _permit = permit;
            let conn = readers.checkout()?;
            if snapshot {
                conn.prepare_cached("BEGIN DEFERRED")
                    .and_then(|mut statement| statement.raw_execute())
                    .map_err(Error::from)?;
            }
            let result = catch_unwind(AssertUnwindSafe(|| work(&mut Tx::new(Conn::Sqlite(&conn, None)))));
            if snapshot {
                conn.prepare_cached("COMMIT")
                    .and_then(|mut statement| statement.raw_execute())
                    .map_err(Error::from)?;
            }
            let result = result.unwrap_or_else(|panic| Err(panic_error(panic.as_ref()).into()));
            readers.idle.lock().push(conn);
            result
        };
        #[expect(
            clippy::disallowed_methods,
            reason = "awaited below; the permits of the readers limit how many there are"
        )]
        let run = move |permit| tokio::task::spawn_blocking(move || read(permit));
        let permits = Arc::clone(&self.readers.permits);
        let result = match Arc::clone(&permits).try_acquire_owned() {
            Ok(permit) => run(permit).await,
            // The wait is a task of its own. A caller that is not polled, such as a response that its client
            // does not read, would otherwise be given the permit and keep it from everybody.
            Err(_) => {
                let mut waiting = JoinSet::new();
                waiting.spawn(async move {
                    match permits.acquire_owned().await {
                        Ok(permit) => run(permit).await.unwrap_or_else(|_| Err(Error::Closed.into())),
                        Err(_) => Err(Error::Closed.into()),
                    }
                });
                waiting.join_next().await.unwrap_or_else(|| Ok(Err(Error::Closed.into())))
            }
        };
        result.unwrap_or_else(|_| Err(Error::Closed.into()))
    }
}

/// The handle of the writer thread. Dropping it waits until the thread has checkpointed the WAL, so that a
/// clean shutdown leaves one complete file.
struct Writer {
    queue: Option<mpsc::Sender<Box<dyn QueuedWrite>>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Drop for Writer {
    fn drop(&mut self) {
        drop(self.queue.take());
        if let Some(thread) = self.thread.take()
            // A queued closure may own the last handle, and the thread cannot join itself.
            && thread.thread().id() != std::thread::current().id()
        {
            let _ = thread.join();
        }
    }
}

/// The connections that read, opened on demand.
struct Readers {
    path: std::path::PathBuf,
    idle: Mutex<Vec<Connection>>,
    /// One permit for each connection that may be open.
    permits: Arc<Semaphore>,
}

impl Readers {
    /// Takes an idle connection, or opens one. The caller has a permit.
    fn checkout(&self) -> Result<Connection> {
        if let Some(conn) = self.idle.lock().pop() {
            return Ok(conn);
        }
        let conn = connect(&self.path)?;
        conn.pragma_update(None, "query_only", true)?;
        Ok(conn)
    }
}

fn connect(path: &Path) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_URI;
    let conn = Connection::open_with_flags(path, flags)?;
    conn.busy_timeout(BUSY_TIMEOUT)?;
    conn.set_prepared_statement_cache_capacity(STATEMENT_CACHE_CAPACITY);
    // The query planner stability guarantee: otherwise SQLite would plan a statement again whenever bound
    // values that affect the plan change.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    // Rows of runs have about a kilobyte. With the default page size of 4096 bytes, a fifth of a page would
    // stay empty.
    conn.pragma_update(None, "page_size", 8_192)?;
    conn.pragma_update(None, "journal_mode", "wal")?;
    // With FULL in WAL mode, an acknowledged commit is on disk, not only in the system's cache.
    conn.pragma_update(None, "synchronous", "full")?;
    conn.pragma_update(None, "temp_store", "memory")?;
    conn.pragma_update(None, "cache_size", -16_000)?;
    // In pages.
    conn.pragma_update(None, "wal_autocheckpoint", 2_000)?;
    // In bytes.
    conn.pragma_update(None, "journal_size_limit", 64 << 20)?;
    crate::search::sqlite::register(&conn)?;
    Ok(conn)
}

/// A queued transaction, with the types of its result erased.
trait QueuedWrite: Send {
    /// Runs the transaction; true when it succeeded. May be called again after a rollback.
    fn run(&mut self, conn: &Connection, fts_buffer: &FtsBuffer) -> bool;
    /// Replies to the caller. If the transaction was committed, runs what follows the commit first.
    /// `committed` is the outcome of the group, with the message of its error.
    fn finish(self: Box<Self>, committed: Result<(), String>, wake: &Arc<Wake>);
}

/// The transaction of a closure.
struct ClosureWrite<T, E, F> {
    work: F,
    /// The result of the last run; `None` before the first one.
    outcome: Option<Result<(T, AfterCommit), E>>,
    reply: oneshot::Sender<Result<T, E>>,
    vectors: Arc<VectorIndexes>,
}

impl<T, E, F> QueuedWrite for ClosureWrite<T, E, F>
where
    F: Fn(&mut Tx<'_>) -> Result<T, E> + Send,
    T: Send,
    E: From<Error> + Send,
{
    fn run(&mut self, conn: &Connection, fts_buffer: &FtsBuffer) -> bool {
        let mut tx = Tx::new(Conn::Sqlite(conn, Some(fts_buffer)));
        let result = catch_unwind(AssertUnwindSafe(|| (self.work)(&mut tx)))
            .unwrap_or_else(|panic| Err(panic_error(panic.as_ref()).into()));
        self.outcome = Some(tx.final_result(result).map(|value| (value, tx.into_after_commit())));
        matches!(self.outcome, Some(Ok(_)))
    }

    fn finish(self: Box<Self>, committed: Result<(), String>, wake: &Arc<Wake>) {
        let reply = match (self.outcome, committed) {
            (Some(Ok((value, after_commit))), Ok(())) => {
                after_commit.run(wake, Some(&self.vectors));
                Ok(value)
            }
            (Some(Ok(_)), Err(message)) => Err(commit_error(message).into()),
            (Some(Err(error)), _) => Err(error),
            (None, Err(message)) => Err(commit_error(message).into()),
            (None, Ok(())) => Err(Error::Closed.into()),
        };
        // The write stays committed even if its caller was dropped.
        let _ = self.reply.send(reply);
    }
}

fn commit_error(message: String) -> Error {
    Error::Sqlite(rusqlite::Error::SqliteFailure(
        rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_ERROR),
        Some(message),
    ))
}

/// The error for a caught panic, with its message.
pub(crate) fn panic_error(panic: &(dyn std::any::Any + Send)) -> Error {
    let message = panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned());
    Error::Panicked { message }
}

/// The writer thread: takes queued transactions, commits them as a group, replies to all, and repeats.
fn write_groups(
    conn: &Connection,
    mut queue: mpsc::Receiver<Box<dyn QueuedWrite>>,
    wake: &Arc<Wake>,
    commits: &AtomicU64,
) {
    let mut previous_group_size = 0;
    while let Some(first) = queue.blocking_recv() {
        let (group, committed) = write_group(conn, first, &mut queue, previous_group_size / 2);
        previous_group_size = group.len();
        if committed.is_ok() {
            commits.fetch_add(1, Ordering::Relaxed);
        }
        for write in group {
            write.finish(committed.clone(), wake);
        }
    }
    // The last handle was dropped: checkpoint the WAL, so that the next start has less to do.
    let _ = conn.pragma_update(None, "wal_checkpoint", "TRUNCATE");
}

/// The transactions of a group, and the outcome of its commit.
type Group = (Vec<Box<dyn QueuedWrite>>, Result<(), String>);

/// Runs `first` and further queued transactions, and commits those that succeeded. The group waits briefly
/// for more until it has `expected` transactions: callers that just got a reply are likely to write again.
fn write_group(
    conn: &Connection,
    first: Box<dyn QueuedWrite>,
    queue: &mut mpsc::Receiver<Box<dyn QueuedWrite>>,
    expected: usize,
) -> Group {
    #[expect(
        clippy::disallowed_methods,
        reason = "the writer is a thread outside the runtime, and waits in real time"
    )]
    let (started, fts_buffer) = (Instant::now(), FtsBuffer::default());
    let mut succeeded: Vec<Box<dyn QueuedWrite>> = Vec::new();
    // Failed transactions get their reply together with the others.
    let mut failed: Vec<Box<dyn QueuedWrite>> = Vec::new();
    if let Err(error) = exec(conn, "BEGIN IMMEDIATE") {
        return (vec![first], Err(error.to_string()));
    }
    let mut next = Some(first);
    while let Some(mut write) = next.take() {
        let (changes_before, buffered_before) = (conn.total_changes(), fts_buffer.len());
        if write.run(conn, &fts_buffer) {
            succeeded.push(write);
        } else {
            // A transaction that wrote nothing needs no rollback. A buffer that became shorter was flushed.
            let has_written = conn.total_changes() != changes_before
                || fts_buffer.len() < buffered_before
                || conn.is_autocommit();
            failed.push(write);
            fts_buffer.truncate(buffered_before);
            if has_written && !rerun_without_failed(conn, &fts_buffer, &mut succeeded, &mut failed) {
                break;
            }
        }
        if succeeded.len() + failed.len() < MAX_GROUP_SIZE && started.elapsed() < MAX_GROUP_TIME {
            next = next_write(queue, succeeded.len() + failed.len() < expected);
        }
    }
    let committed = if conn.is_autocommit() {
        Err("the transaction was rolled back by the database".to_owned())
    } else if succeeded.is_empty() {
        exec(conn, "ROLLBACK").map_err(|error| error.to_string())
    } else {
        fts_buffer.flush(conn).and_then(|()| exec(conn, "COMMIT")).map_err(|error| {
            let _ = exec(conn, "ROLLBACK");
            error.to_string()
        })
    };
    succeeded.append(&mut failed);
    (succeeded, committed)
}

/// Takes the next queued transaction. When more are expected, waits for one briefly: the wait is shorter than
/// an fsync, and groups of twice the size need half as many. `None` when the queue stays empty.
fn next_write(
    queue: &mut mpsc::Receiver<Box<dyn QueuedWrite>>,
    more_expected: bool,
) -> Option<Box<dyn QueuedWrite>> {
    if let Ok(write) = queue.try_recv() {
        return Some(write);
    }
    #[expect(
        clippy::disallowed_methods,
        reason = "the writer is a thread outside the runtime, and waits in real time"
    )]
    let wait_started = Instant::now();
    while more_expected && wait_started.elapsed() < GATHER_TIME {
        // Yields to the callers, which may share this core.
        std::thread::yield_now();
        if let Ok(write) = queue.try_recv() {
            return Some(write);
        }
    }
    None
}

/// Undoes a failed transaction of a group: rolls the group back and runs the succeeded ones again. Those that
/// fail this time move to `failed`. Returns false if the database refused to roll back or to begin.
///
/// A savepoint would be simpler, but each savepoint makes the full-text index write a segment, which costs
/// too much for something that happens rarely.
fn rerun_without_failed(
    conn: &Connection,
    fts_buffer: &FtsBuffer,
    succeeded: &mut Vec<Box<dyn QueuedWrite>>,
    failed: &mut Vec<Box<dyn QueuedWrite>>,
) -> bool {
    loop {
        fts_buffer.truncate(0);
        if !conn.is_autocommit() && exec(conn, "ROLLBACK").is_err() {
            return false;
        }
        if exec(conn, "BEGIN IMMEDIATE").is_err() {
            return false;
        }
        let reruns = std::mem::take(succeeded);
        let mut all_succeeded = true;
        for mut write in reruns {
            if all_succeeded && !write.run(conn, fts_buffer) {
                all_succeeded = false;
                failed.push(write);
            } else {
                succeeded.push(write);
            }
        }
        if all_succeeded {
            return true;
        }
    }
}

fn exec(conn: &Connection, sql: &str) -> Result<()> {
    conn.prepare_cached(sql)?.raw_execute()?;
    Ok(())
}
