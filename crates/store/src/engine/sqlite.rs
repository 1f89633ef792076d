//! The SQLite engine: one writer thread that commits queued transactions as a group, so that many writers
//! share an fsync, and a few reader connections that never wait for the writer.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use rusqlite::Connection;
use tokio::{sync::mpsc, task::JoinSet};

use crate::{
    after_commit::AfterCommit,
    engine::{
        Engine,
        slots::Slot,
        sqlite_connection::{connect, exec},
        sqlite_queue::{Queued, WriteQueue, write_queue},
        sqlite_readers::Readers,
        watch::Watch,
        work::{ReadWork, WriteWork},
    },
    error::{Error, Result},
    limits::{AbandonOnDrop, EngineLimits, TimeLimits, TxLimits},
    requester::{self, Requester},
    search::{fts_buffer::FtsBuffer, vectors::VectorIndexes},
    storage_health::{StorageFault, StorageHealth},
    tx::{Conn, Tx},
    wake::Wake,
};

/// After this time a group takes no more transactions. It limits how long a caller waits for others.
const MAX_GROUP_TIME: Duration = Duration::from_millis(20);
/// The maximum number of transactions in a group.
const MAX_GROUP_SIZE: usize = 512;
/// How long the writer waits for another transaction when the previous group had several.
const GATHER_TIME: Duration = Duration::from_micros(50);

/// An open SQLite database.
pub(crate) struct Sqlite {
    writer: Writer,
    readers: Arc<Readers>,
    vectors: Arc<VectorIndexes>,
    commits: Arc<AtomicU64>,
    limits: EngineLimits,
    health: Arc<StorageHealth>,
}

impl Sqlite {
    /// Opens the file, migrates the schema and starts the writer thread.
    pub(crate) fn open(
        path: &Path,
        limits: TimeLimits,
        wake: Arc<Wake>,
        vectors: Arc<VectorIndexes>,
    ) -> Result<Self> {
        let open_error =
            |source: Error| Error::Open { place: path.display().to_string(), source: Box::new(source) };
        let mut writer = connect(path).map_err(open_error)?;
        // Merging the full-text index reads older segments; a large cache keeps those reads off the disk. A
        // negative size is in KiB.
        writer.pragma_update(None, "cache_size", -64_000)?;
        crate::migrate::sqlite(&mut writer)?;
        let watch = Watch::install(&mut writer)?;
        let (sender, queue) = write_queue();
        let commits = Arc::new(AtomicU64::new(0));
        let commit_count = Arc::clone(&commits);
        let health = Arc::new(StorageHealth::new(path.display().to_string()));
        let writer_health = Arc::clone(&health);
        let thread = std::thread::Builder::new()
            .name("store-writer".to_owned())
            .spawn(move || write_groups(&writer, &watch, queue, &wake, &commit_count, &writer_health))
            .map_err(|source| Error::Open { place: path.display().to_string(), source: Box::new(source) })?;
        let readers = Readers::new(path);
        let writer = Writer { queue: Some(sender), thread: Some(thread) };
        let limits = limits.for_engine(Engine::Sqlite);
        Ok(Self { writer, readers: Arc::new(readers), vectors, commits, limits, health })
    }

    pub(crate) fn health(&self) -> &StorageHealth {
        &self.health
    }

    pub(crate) fn commits(&self) -> u64 {
        self.commits.load(Ordering::Relaxed)
    }

    /// Queues a transaction for the writer thread, which replies when its group is committed.
    pub(crate) async fn write(&self, work: Box<dyn WriteWork>) -> Result<()> {
        let requester = requester::current();
        let write = QueuedWrite {
            work,
            outcome: Outcome::NotRun,
            fault: None,
            vectors: Arc::clone(&self.vectors),
            limits: self.limits.for_write(requester),
            is_urgent: requester == Requester::Priority,
        };
        let queue = self.writer.queue.as_ref().ok_or(Error::Closed)?;
        queue.send(write).await.map_err(|_| Error::Closed)
    }

    /// Runs reads; with `snapshot`, all statements see the same committed state.
    pub(crate) async fn read(&self, snapshot: bool, work: ReadWork) -> Result<()> {
        let requester = requester::current();
        let limits = self.limits.for_read(requester);
        let max_wait = limits.time();
        let _abandon = AbandonOnDrop::new(&limits);
        let (readers, health) = (Arc::clone(&self.readers), Arc::clone(&self.health));
        let read = move |slot: Slot| {
            // The closure owns the slot: if the caller is dropped, the connection stays in use until the
            // closure returns.
            let _slot = slot;
            limits.check()?;
            readers.read(snapshot, &limits, &health, work)
        };
        #[expect(
            clippy::disallowed_methods,
            reason = "awaited below; the slots of the readers limit how many there are"
        )]
        let run = move |slot| tokio::task::spawn_blocking(move || read(slot));
        let slots = self.readers.slots();
        let result = match slots.try_take(requester) {
            Some(slot) => run(slot).await,
            // The wait is a task of its own. A caller that is not polled, such as a response that its client
            // does not read, would otherwise be given the slot and keep it from everybody.
            None => {
                let mut waiting = JoinSet::new();
                waiting.spawn(async move {
                    match slots.take(requester, max_wait).await {
                        Some(slot) => run(slot).await.unwrap_or(Err(Error::Closed)),
                        None => Err(Error::Busy { waited: max_wait }),
                    }
                });
                waiting.join_next().await.unwrap_or(Ok(Err(Error::Closed)))
            }
        };
        result.unwrap_or(Err(Error::Closed))
    }
}

/// The handle of the writer thread. Dropping it waits until the thread has checkpointed the WAL, so that a
/// clean shutdown leaves one complete file.
struct Writer {
    queue: Option<mpsc::Sender<QueuedWrite>>,
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

/// Why a group was not committed. Each of its callers gets a copy.
#[derive(Debug, Clone)]
struct CommitFailure {
    fault: Option<StorageFault>,
    message: String,
}

impl From<Error> for CommitFailure {
    fn from(error: Error) -> Self {
        Self { fault: error.storage_fault(), message: emergent_net::errors::error_chain(&error) }
    }
}

/// A queued transaction.
struct QueuedWrite {
    work: Box<dyn WriteWork>,
    outcome: Outcome,
    /// What the last run found wrong with the storage.
    fault: Option<(StorageFault, String)>,
    vectors: Arc<VectorIndexes>,
    limits: Arc<TxLimits>,
    is_urgent: bool,
}

impl Queued for QueuedWrite {
    fn is_urgent(&self) -> bool {
        self.is_urgent
    }
}

/// The outcome of the last run of a transaction.
enum Outcome {
    NotRun,
    Succeeded(AfterCommit),
    Failed,
}

impl QueuedWrite {
    /// Runs the transaction; true when it succeeded. May be called again after a rollback.
    fn run(&mut self, conn: &Connection, watch: &Watch, fts_buffer: &FtsBuffer) -> bool {
        let mut tx = Tx::new(Conn::Sqlite(conn, Some(fts_buffer)), Arc::clone(&self.limits));
        self.limits.start();
        let succeeded = watch.limit(&self.limits, || self.work.run(&mut tx));
        self.fault = tx.fault.take();
        self.outcome = if succeeded { Outcome::Succeeded(tx.into_after_commit()) } else { Outcome::Failed };
        succeeded
    }

    /// Replies to the caller. If the transaction was committed, runs what follows the commit first.
    /// `committed` is the outcome of the group.
    fn finish(self, committed: Result<(), CommitFailure>, wake: &Arc<Wake>) {
        match (self.outcome, committed) {
            (Outcome::Succeeded(after_commit), Ok(())) => {
                after_commit.run(wake, Some(&self.vectors));
                self.work.reply();
            }
            (Outcome::Failed, _) => self.work.reply(),
            (_, Err(failure)) => self.work.fail(commit_error(failure)),
            (Outcome::NotRun, Ok(())) => self.work.fail(Error::Closed),
        }
    }
}

fn commit_error(failure: CommitFailure) -> Error {
    match failure.fault {
        Some(fault) => Error::from_fault(fault, failure.message),
        None => Error::Sqlite(rusqlite::Error::SqliteFailure(
            rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_ERROR),
            Some(failure.message),
        )),
    }
}

/// The writer thread: takes queued transactions, commits them as a group, replies to all, and repeats.
fn write_groups(
    conn: &Connection,
    watch: &Watch,
    mut queue: WriteQueue<QueuedWrite>,
    wake: &Arc<Wake>,
    commits: &AtomicU64,
    health: &StorageHealth,
) {
    let mut previous_group_size = 0;
    while let Some(first) = queue.take() {
        let changes_before = conn.total_changes();
        let (group, committed) = write_group(conn, watch, first, &mut queue, previous_group_size / 2);
        previous_group_size = group.len();
        if committed.is_ok() {
            commits.fetch_add(1, Ordering::Relaxed);
        }
        report_health(health, &group, &committed, conn.total_changes() != changes_before);
        for write in group {
            write.finish(committed.clone(), wake);
        }
    }
    // The last handle was dropped: checkpoint the WAL, so that the next start has less to do.
    let _ = conn.pragma_update(None, "wal_checkpoint", "TRUNCATE");
}

/// Records what a group says about the storage. A group that changed nothing says nothing.
fn report_health(
    health: &StorageHealth,
    group: &[QueuedWrite],
    committed: &Result<(), CommitFailure>,
    has_written: bool,
) {
    let of_commit = match committed {
        Err(CommitFailure { fault: Some(fault), message }) => Some((*fault, message.clone())),
        _ => None,
    };
    match of_commit.or_else(|| group.iter().find_map(|write| write.fault.clone())) {
        Some((fault, reason)) => health.report(fault, reason),
        None if committed.is_ok() && has_written => health.report_commit(),
        None => {}
    }
}

/// The transactions of a group, and the outcome of its commit.
type Group = (Vec<QueuedWrite>, Result<(), CommitFailure>);

/// Runs `first` and further queued transactions, and commits those that succeeded. The group waits briefly
/// for more until it has `expected` transactions: callers that just got a reply are likely to write again.
fn write_group(
    conn: &Connection,
    watch: &Watch,
    first: QueuedWrite,
    queue: &mut WriteQueue<QueuedWrite>,
    expected: usize,
) -> Group {
    #[expect(
        clippy::disallowed_methods,
        reason = "the writer is a thread outside the runtime, and waits in real time"
    )]
    let (started, fts_buffer) = (Instant::now(), FtsBuffer::default());
    let mut succeeded: Vec<QueuedWrite> = Vec::new();
    // Failed transactions get their reply together with the others.
    let mut failed: Vec<QueuedWrite> = Vec::new();
    if let Err(error) = exec(conn, "BEGIN IMMEDIATE") {
        return (vec![first], Err(error.into()));
    }
    let mut next = Some(first);
    while let Some(mut write) = next.take() {
        let (changes_before, buffered_before) = (conn.total_changes(), fts_buffer.len());
        if write.run(conn, watch, &fts_buffer) {
            succeeded.push(write);
        } else {
            // A transaction that wrote nothing needs no rollback. A buffer that became shorter was flushed.
            let has_written = conn.total_changes() != changes_before
                || fts_buffer.len() < buffered_before
                || conn.is_autocommit();
            failed.push(write);
            fts_buffer.truncate(buffered_before);
            if has_written && !rerun_without_failed(conn, watch, &fts_buffer, &mut succeeded, &mut failed) {
                break;
            }
        }
        if succeeded.len() + failed.len() < MAX_GROUP_SIZE && started.elapsed() < MAX_GROUP_TIME {
            next = next_write(queue, succeeded.len() + failed.len() < expected);
        }
    }
    let committed = if conn.is_autocommit() {
        // A full disk, for example, makes SQLite roll back by itself.
        let fault = failed.iter().find_map(|write| write.fault.as_ref()).map(|(fault, _)| *fault);
        Err(CommitFailure { fault, message: "the transaction was rolled back by the database".to_owned() })
    } else if succeeded.is_empty() {
        exec(conn, "ROLLBACK").map_err(CommitFailure::from)
    } else {
        fts_buffer.flush(conn).and_then(|()| exec(conn, "COMMIT")).map_err(|error| {
            let _ = exec(conn, "ROLLBACK");
            CommitFailure::from(error)
        })
    };
    succeeded.append(&mut failed);
    (succeeded, committed)
}

/// Takes the next queued transaction. When more are expected, waits for one briefly: the wait is shorter than
/// an fsync, and groups of twice the size need half as many. `None` when the queue stays empty.
fn next_write(queue: &mut WriteQueue<QueuedWrite>, more_expected: bool) -> Option<QueuedWrite> {
    if let Some(write) = queue.try_take() {
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
        if let Some(write) = queue.try_take() {
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
    watch: &Watch,
    fts_buffer: &FtsBuffer,
    succeeded: &mut Vec<QueuedWrite>,
    failed: &mut Vec<QueuedWrite>,
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
            if all_succeeded && !write.run(conn, watch, fts_buffer) {
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
