//! SQLite: one writer thread that commits queued transactions as a group, so that many writers share an
//! fsync, and a few reader connections that never wait for the writer.

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
use tokio::sync::{Semaphore, mpsc, oneshot};

use crate::{
    error::{Error, Result},
    search::{fts_buffer::FtsBuffer, vectors::VectorIndexes},
    tx::{AfterCommit, Conn, Tx},
    wake::Wake,
};

/// How long a group may grow before it is committed. It limits how long a caller waits for others.
const MAX_GROUP_TIME: Duration = Duration::from_millis(20);
const MAX_GROUP_SIZE: usize = 512;
/// How long the writer waits for the callers of the previous group, when there were several.
const GATHER_TIME: Duration = Duration::from_micros(50);
/// The capacity of the queue; further writers wait before they queue.
const QUEUE_CAPACITY: usize = 4096;
const READER_COUNT: usize = 4;

pub(crate) struct Sqlite {
    writer: Writer,
    readers: Arc<Readers>,
    vectors: Arc<VectorIndexes>,
    commits: Arc<AtomicU64>,
}

impl Sqlite {
    pub(crate) fn open(path: &Path, wake: Arc<Wake>, vectors: Arc<VectorIndexes>) -> Result<Self> {
        let failed =
            |source: Error| Error::Open { place: path.display().to_string(), source: Box::new(source) };
        let mut writer = connect(path).map_err(failed)?;
        // Merging the full-text index reads older segments; the cache keeps those reads off the disk.
        writer.pragma_update(None, "cache_size", -64_000)?;
        crate::migrate::sqlite(&mut writer)?;
        let (sender, queue) = mpsc::channel(QUEUE_CAPACITY);
        let commits = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&commits);
        let thread = std::thread::Builder::new()
            .name("store-writer".to_owned())
            .spawn(move || write_groups(&writer, queue, &wake, &count))
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

    pub(crate) async fn write<T, E, F>(&self, work: F) -> Result<T, E>
    where
        F: Fn(&mut Tx<'_>) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: From<Error> + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let work = Box::new(ClosureWrite { work, outcome: None, reply, vectors: Arc::clone(&self.vectors) });
        let queue = self.writer.queue.as_ref().ok_or(Error::Closed)?;
        queue.send(work).await.map_err(|_| Error::Closed)?;
        answer.await.map_err(|_| Error::Closed)?
    }

    pub(crate) async fn read<T, E, F>(&self, snapshot: bool, work: F) -> Result<T, E>
    where
        F: FnOnce(&mut Tx<'_>) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: From<Error> + Send + 'static,
    {
        let readers = Arc::clone(&self.readers);
        let place = Arc::clone(&self.readers.permits).acquire_owned().await.map_err(|_| Error::Closed)?;
        #[expect(
            clippy::disallowed_methods,
            reason = "awaited here; the permits of the readers limit how many there are"
        )]
        let done = tokio::task::spawn_blocking(move || {
            // The closure owns the permit, because a caller that is dropped does not free the connection.
            let _place = place;
            let conn = readers.checkout()?;
            if snapshot {
                conn.prepare_cached("BEGIN DEFERRED")
                    .and_then(|mut s| s.raw_execute())
                    .map_err(Error::from)?;
            }
            let done = catch_unwind(AssertUnwindSafe(|| work(&mut Tx::new(Conn::Sqlite(&conn, None)))));
            if snapshot {
                conn.prepare_cached("COMMIT").and_then(|mut s| s.raw_execute()).map_err(Error::from)?;
            }
            let done = done.unwrap_or_else(|panic| Err(panic_error(panic.as_ref()).into()));
            readers.idle.lock().push(conn);
            done
        });
        done.await.unwrap_or_else(|_| Err(Error::Closed.into()))
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

struct Readers {
    path: std::path::PathBuf,
    idle: Mutex<Vec<Connection>>,
    permits: Arc<Semaphore>,
}

impl Readers {
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
    conn.busy_timeout(Duration::from_secs(10))?;
    conn.set_prepared_statement_cache_capacity(256);
    // Without this, a plan that depends on bound values would be made again at every call.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    // Rows of runs have about a kilobyte, and pages of four kilobytes would leave a fifth empty.
    conn.pragma_update(None, "page_size", 8_192)?;
    conn.pragma_update(None, "journal_mode", "wal")?;
    // With FULL in WAL mode, an acknowledged commit is on disk, not only in the system's cache.
    conn.pragma_update(None, "synchronous", "full")?;
    conn.pragma_update(None, "temp_store", "memory")?;
    conn.pragma_update(None, "cache_size", -16_000)?;
    conn.pragma_update(None, "wal_autocheckpoint", 2_000)?;
    conn.pragma_update(None, "journal_size_limit", 64 << 20)?;
    crate::search::sqlite::register(&conn)?;
    Ok(conn)
}

/// A queued transaction.
trait QueuedWrite: Send {
    /// Runs the transaction; true when it succeeded. May be called again after a rollback.
    fn run(&mut self, conn: &Connection, late: &FtsBuffer) -> bool;
    /// Replies to the caller, and runs what follows the commit.
    fn finish(self: Box<Self>, committed: Result<(), String>, wake: &Arc<Wake>);
}

struct ClosureWrite<T, E, F> {
    work: F,
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
    fn run(&mut self, conn: &Connection, late: &FtsBuffer) -> bool {
        let mut tx = Tx::new(Conn::Sqlite(conn, Some(late)));
        let done = catch_unwind(AssertUnwindSafe(|| (self.work)(&mut tx)))
            .unwrap_or_else(|panic| Err(panic_error(panic.as_ref()).into()));
        self.outcome = Some(tx.final_result(done).map(|value| (value, tx.into_after_commit())));
        matches!(self.outcome, Some(Ok(_)))
    }

    fn finish(self: Box<Self>, committed: Result<(), String>, wake: &Arc<Wake>) {
        let answer = match (self.outcome, committed) {
            (Some(Ok((value, followups))), Ok(())) => {
                followups.run(wake, Some(&self.vectors));
                Ok(value)
            }
            (Some(Ok(_)), Err(message)) => Err(commit_error(message).into()),
            (Some(Err(error)), _) => Err(error),
            (None, Err(message)) => Err(commit_error(message).into()),
            (None, Ok(())) => Err(Error::Closed.into()),
        };
        // The write stays committed even if its caller was dropped.
        let _ = self.reply.send(answer);
    }
}

fn commit_error(message: String) -> Error {
    Error::Sqlite(rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(1), Some(message)))
}

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
    let mut last_group = 0;
    while let Some(first) = queue.blocking_recv() {
        let (done, committed) = write_group(conn, first, &mut queue, last_group / 2);
        last_group = done.len();
        if committed.is_ok() {
            commits.fetch_add(1, Ordering::Relaxed);
        }
        for work in done {
            work.finish(committed.clone(), wake);
        }
    }
    // The last handle was dropped: checkpoint the WAL, so that the next start has less to do.
    let _ = conn.pragma_update(None, "wal_checkpoint", "TRUNCATE");
}

type Group = (Vec<Box<dyn QueuedWrite>>, Result<(), String>);

/// `expected` is how many transactions to wait for: callers that just got a reply are likely to write again.
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
    let (started, late) = (Instant::now(), FtsBuffer::default());
    let mut good: Vec<Box<dyn QueuedWrite>> = Vec::new();
    // Transactions that failed before they wrote anything. They get their reply with the others.
    let mut failed: Vec<Box<dyn QueuedWrite>> = Vec::new();
    if let Err(error) = exec(conn, "BEGIN IMMEDIATE") {
        return (vec![first], Err(error.to_string()));
    }
    let mut next = Some(first);
    while let Some(mut work) = next.take() {
        let (before, waiting) = (conn.total_changes(), late.len());
        if work.run(conn, &late) {
            good.push(work);
        } else {
            let left_traces = conn.total_changes() != before || late.len() < waiting || conn.is_autocommit();
            failed.push(work);
            late.truncate(waiting);
            if left_traces && !rerun_without_failed(conn, &late, &mut good, &mut failed) {
                break;
            }
        }
        if good.len() + failed.len() < MAX_GROUP_SIZE && started.elapsed() < MAX_GROUP_TIME {
            next = next_write(queue, good.len() + failed.len() < expected);
        }
    }
    let committed = if conn.is_autocommit() {
        Err("the transaction was rolled back by the database".to_owned())
    } else if good.is_empty() {
        exec(conn, "ROLLBACK").map_err(|error| error.to_string())
    } else {
        late.flush(conn).and_then(|()| exec(conn, "COMMIT")).map_err(|error| {
            let _ = exec(conn, "ROLLBACK");
            error.to_string()
        })
    };
    good.append(&mut failed);
    (good, committed)
}

/// Takes the queued transactions and, when more are expected, waits for them briefly. The wait is shorter
/// than an fsync, and a group of twice the size needs half as many.
fn next_write(
    queue: &mut mpsc::Receiver<Box<dyn QueuedWrite>>,
    more_expected: bool,
) -> Option<Box<dyn QueuedWrite>> {
    if let Ok(work) = queue.try_recv() {
        return Some(work);
    }
    #[expect(
        clippy::disallowed_methods,
        reason = "the writer is a thread outside the runtime, and waits in real time"
    )]
    let waiting = Instant::now();
    while more_expected && waiting.elapsed() < GATHER_TIME {
        // Yields to the callers, which may share this core.
        std::thread::yield_now();
        if let Ok(work) = queue.try_recv() {
            return Some(work);
        }
    }
    None
}

/// Undoes a failed transaction of a group: rolls the group back and runs the succeeded ones again. A
/// savepoint would be simpler, but each savepoint makes the full-text index write a segment, which costs
/// too much for something that happens rarely.
fn rerun_without_failed(
    conn: &Connection,
    late: &FtsBuffer,
    good: &mut Vec<Box<dyn QueuedWrite>>,
    failed: &mut Vec<Box<dyn QueuedWrite>>,
) -> bool {
    loop {
        late.truncate(0);
        if !conn.is_autocommit() && exec(conn, "ROLLBACK").is_err() {
            return false;
        }
        if exec(conn, "BEGIN IMMEDIATE").is_err() {
            return false;
        }
        let again = std::mem::take(good);
        let mut clean = true;
        for mut work in again {
            if clean && !work.run(conn, late) {
                clean = false;
                failed.push(work);
            } else {
                good.push(work);
            }
        }
        if clean {
            return true;
        }
    }
}

fn exec(conn: &Connection, sql: &str) -> Result<()> {
    conn.prepare_cached(sql)?.raw_execute()?;
    Ok(())
}
