//! The thread that writes to SQLite. It commits queued transactions as a group, so that many writers share an
//! fsync.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use rusqlite::Connection;

use crate::{
    after_commit::AfterCommit,
    engine::{
        sqlite_connection::exec,
        sqlite_queue::{Queued, WriteQueue},
        watch::Watch,
        work::WriteWork,
    },
    error::{Error, Result},
    limits::TxLimits,
    requester::Requester,
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
/// When the transactions of a group have buffered this many bytes for the full-text index, they are written within
/// the time of the transaction that is under way. What is left for the end of the group takes little time.
const MAX_BUFFERED_BYTES: usize = 256 << 10;

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
pub(super) struct QueuedWrite {
    work: Box<dyn WriteWork>,
    outcome: Outcome,
    /// What the last run found wrong with the storage.
    fault: Option<(StorageFault, String)>,
    vectors: Arc<VectorIndexes>,
    limits: Arc<TxLimits>,
    requester: Requester,
    /// How long the last run took.
    time: Duration,
}

impl Queued for QueuedWrite {
    fn requester(&self) -> Requester {
        self.requester
    }

    fn is_abandoned(&self) -> bool {
        self.work.is_abandoned()
    }
}

/// The outcome of the last run of a transaction.
enum Outcome {
    NotRun,
    Succeeded(AfterCommit),
    /// The closure returned an error, and keeps it.
    Failed,
    /// The closure succeeded, and its changes of the full-text index failed.
    NotIndexed(Error),
}

impl QueuedWrite {
    pub(super) fn new(
        work: Box<dyn WriteWork>,
        requester: Requester,
        limits: Arc<TxLimits>,
        vectors: Arc<VectorIndexes>,
    ) -> Self {
        let (outcome, time) = (Outcome::NotRun, Duration::ZERO);
        Self { work, outcome, fault: None, vectors, limits, requester, time }
    }

    /// Runs the transaction; true when it succeeded. May be called again after a rollback. The buffered changes of
    /// the full-text index are part of the transaction that makes them many, and of its time limit.
    fn run(&mut self, conn: &Connection, watch: &Watch, fts_buffer: &FtsBuffer) -> bool {
        let started = now();
        let mut tx = Tx::new(Conn::Sqlite(conn, Some(fts_buffer)), Arc::clone(&self.limits));
        self.limits.start();
        let indexed = watch.limit(&self.limits, || {
            let succeeded = self.work.run(&mut tx);
            let is_large = succeeded && fts_buffer.bytes() > MAX_BUFFERED_BYTES;
            let indexed = if is_large { fts_buffer.flush_within(conn, &self.limits) } else { Ok(()) };
            succeeded.then_some(indexed)
        });
        self.fault = tx.fault.take();
        self.outcome = match indexed {
            Some(Ok(())) => Outcome::Succeeded(tx.into_after_commit()),
            Some(Err(error)) => Outcome::NotIndexed(self.limits.explain(error)),
            None => Outcome::Failed,
        };
        self.time = started.elapsed();
        matches!(self.outcome, Outcome::Succeeded(_))
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
            (Outcome::NotIndexed(error), _) => self.work.fail(error),
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
pub(super) fn write_groups(
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
            let (requester, started) = (write.requester, now());
            write.finish(committed.clone(), wake);
            queue.count_reply(requester, started.elapsed());
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
    let (started, fts_buffer) = (now(), FtsBuffer::default());
    let mut succeeded: Vec<QueuedWrite> = Vec::new();
    // Failed transactions get their reply together with the others.
    let mut failed: Vec<QueuedWrite> = Vec::new();
    if let Err(error) = exec(conn, "BEGIN IMMEDIATE") {
        return (vec![first], Err(error.into()));
    }
    let mut next = Some(first);
    while let Some(mut write) = next.take() {
        let (changes_before, buffered_before) = (conn.total_changes(), fts_buffer.len());
        let has_succeeded = write.run(conn, watch, &fts_buffer);
        let (requester, mut time) = (write.requester, write.time);
        let mut can_continue = true;
        if has_succeeded {
            succeeded.push(write);
        } else {
            // A transaction that wrote nothing needs no rollback. A buffer that became shorter was flushed.
            let has_written = conn.total_changes() != changes_before
                || fts_buffer.len() < buffered_before
                || matches!(write.outcome, Outcome::NotIndexed(_))
                || conn.is_autocommit();
            failed.push(write);
            fts_buffer.truncate(buffered_before);
            if has_written {
                let rerun_started = now();
                can_continue = rerun_without_failed(conn, watch, &fts_buffer, &mut succeeded, &mut failed);
                // The one that failed is the reason why the others ran again.
                time += rerun_started.elapsed();
            }
        }
        queue.count_write(requester, time);
        if !can_continue {
            break;
        }
        let remaining = MAX_GROUP_TIME.saturating_sub(started.elapsed());
        if succeeded.len() + failed.len() < MAX_GROUP_SIZE && !remaining.is_zero() {
            next = next_write(queue, remaining, succeeded.len() + failed.len() < expected);
        }
    }
    let commit_started = now();
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
    let times: Vec<_> = succeeded.iter().map(|write| (write.requester, write.time)).collect();
    queue.count_commit(commit_started.elapsed(), &times);
    succeeded.append(&mut failed);
    (succeeded, committed)
}

/// Takes the next queued transaction that is expected to end within the `remaining` time of the group: those that
/// have run would otherwise wait for their commit until a long one has ended. When more are expected, waits for one
/// briefly: the wait is shorter than an fsync, and groups of twice the size need half as many. `None` when there is
/// none.
fn next_write(
    queue: &mut WriteQueue<QueuedWrite>,
    remaining: Duration,
    more_expected: bool,
) -> Option<QueuedWrite> {
    if let Some(write) = queue.try_take(remaining) {
        return Some(write);
    }
    let wait_started = now();
    while more_expected && wait_started.elapsed() < GATHER_TIME {
        // Yields to the callers, which may share this core.
        std::thread::yield_now();
        if let Some(write) = queue.try_take(remaining) {
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

#[expect(
    clippy::disallowed_methods,
    reason = "the writer is a thread outside the runtime, and works in real time"
)]
fn now() -> Instant {
    Instant::now()
}
