//! The limits of a transaction: how long it may take, and how many bytes a read may collect in memory.
//!
//! On SQLite a progress handler checks the deadline while a statement runs. On PostgreSQL the statement is
//! cancelled. Both also stop a read whose caller was dropped, for example because its client disconnected.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::{
    engine::Engine,
    error::{Error, Result},
    requester::Requester,
};

/// How long reads and writes may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeLimits {
    /// A read on behalf of a project or an operator.
    pub read: Duration,
    /// A write, and a read of the server's own work. On SQLite a write takes at most 2.5 seconds.
    pub write: Duration,
}

impl Default for TimeLimits {
    fn default() -> Self {
        Self { read: Duration::from_secs(10), write: Duration::from_secs(30) }
    }
}

/// The time limit of leases, health checks and authentication, which read or write single rows.
pub const PRIORITY_TIME: Duration = Duration::from_secs(5);
/// The most time of a write on SQLite while a server runs, whatever the settings say. There is one writer, so the renewal of a
/// lease waits for the write that is under way, and the next renewal for the next one. The owner of a lease of
/// 9 seconds gives up 6 seconds after the start of its last renewal (see [`crate::lease_keeper`]): two of the
/// longest writes and their commits fit in there.
pub(crate) const SQLITE_WRITE_TIME: Duration = Duration::from_millis(2_500);
/// The most bytes of one stored text, such as that of a document. A longer one could not be read again.
pub const MAX_TEXT_BYTES: usize = 64 << 20;
/// The bytes that a read on behalf of a project or an operator may collect: the longest text, and what is
/// stored beside it. Pages of lists end earlier, see [`crate::page::MAX_PAGE_BYTES`].
const MAX_RESULT_BYTES: usize = MAX_TEXT_BYTES + (1 << 20);

impl TimeLimits {
    /// The limits of a process that has the database to itself, such as a command that is used while no server
    /// runs. Nobody waits for its writes, so they may take long.
    pub const ALONE: Self =
        Self { read: Duration::from_secs(24 * 3600), write: Duration::from_secs(24 * 3600) };

    /// The limits as an engine allows them.
    pub(crate) fn for_engine(mut self, engine: Engine) -> EngineLimits {
        let server_read = self.write;
        if engine == Engine::Sqlite && self != Self::ALONE {
            self.write = self.write.min(SQLITE_WRITE_TIME);
        }
        EngineLimits { read: self.read, server_read, write: self.write }
    }
}

/// The limits of an open database.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EngineLimits {
    /// A read on behalf of a project or an operator.
    pub(crate) read: Duration,
    /// A read of the server's own work.
    server_read: Duration,
    pub(crate) write: Duration,
}

impl EngineLimits {
    /// The limits of a read.
    pub(crate) fn for_read(&self, requester: Requester) -> Arc<TxLimits> {
        let (time, max_bytes) = match requester {
            Requester::Server => (self.server_read, usize::MAX),
            Requester::Priority | Requester::Authentication | Requester::DoubtedAuthentication => {
                (PRIORITY_TIME, MAX_RESULT_BYTES)
            }
            Requester::AllProjects | Requester::Project(_) => (self.read, MAX_RESULT_BYTES),
        };
        TxLimits::new(time, max_bytes)
    }

    /// The limits of a write.
    pub(crate) fn for_write(&self, requester: Requester) -> Arc<TxLimits> {
        let time = match requester {
            Requester::Priority | Requester::Authentication | Requester::DoubtedAuthentication => {
                PRIORITY_TIME.min(self.write)
            }
            Requester::Server | Requester::AllProjects | Requester::Project(_) => self.write,
        };
        TxLimits::new(time, usize::MAX)
    }
}

/// The limits of one transaction. Its time starts with [`TxLimits::start`].
#[derive(Debug)]
pub(crate) struct TxLimits {
    time: Duration,
    max_bytes: usize,
    ends_at: Mutex<Instant>,
    /// The caller was dropped.
    abandoned: AtomicBool,
    abandoned_signal: Notify,
    /// The limits do not apply at the moment.
    suspended: AtomicBool,
}

impl TxLimits {
    fn new(time: Duration, max_bytes: usize) -> Arc<Self> {
        Arc::new(Self {
            time,
            max_bytes,
            ends_at: Mutex::new(now() + time),
            abandoned: AtomicBool::new(false),
            abandoned_signal: Notify::new(),
            suspended: AtomicBool::new(false),
        })
    }

    pub(crate) fn time(&self) -> Duration {
        self.time
    }

    /// Starts the time. A transaction that is run again starts it again.
    pub(crate) fn start(&self) {
        *self.ends_at.lock() = now() + self.time;
    }

    /// Stops the transaction, because its caller was dropped.
    fn abandon(&self) {
        self.abandoned.store(true, Ordering::Relaxed);
        self.abandoned_signal.notify_one();
    }

    pub(crate) fn is_over(&self) -> bool {
        !self.suspended.load(Ordering::Relaxed)
            && (self.abandoned.load(Ordering::Relaxed) || now() >= *self.ends_at.lock())
    }

    /// Resolves when the transaction has to stop.
    pub(crate) async fn over(&self) {
        let ends_at = *self.ends_at.lock();
        tokio::select! {
            () = self.abandoned_signal.notified() => {}
            () = tokio::time::sleep_until(ends_at.into()) => {}
        }
    }

    /// Fails when the transaction has to stop.
    pub(crate) fn check(&self) -> Result<()> {
        if self.is_over() { Err(self.error()) } else { Ok(()) }
    }

    /// The reason why a transaction was stopped.
    pub(crate) fn error(&self) -> Error {
        if self.abandoned.load(Ordering::Relaxed) {
            Error::Abandoned
        } else {
            Error::TooSlow { limit: self.time }
        }
    }

    /// Replaces the database's message that a statement was stopped by the reason.
    pub(crate) fn explain(&self, error: Error) -> Error {
        if error.is_interruption() { self.error() } else { error }
    }

    /// Fails when a read has collected too much.
    pub(crate) fn check_bytes(&self, bytes: usize) -> Result<()> {
        if bytes > self.max_bytes { Err(Error::TooLarge { limit: self.max_bytes }) } else { Ok(()) }
    }

    /// Runs work to which the time limit does not apply, and does not count its time.
    pub(crate) fn suspend<T>(&self, work: impl FnOnce() -> T) -> T {
        let started = now();
        self.suspended.store(true, Ordering::Relaxed);
        let result = work();
        *self.ends_at.lock() += started.elapsed();
        self.suspended.store(false, Ordering::Relaxed);
        result
    }
}

/// Stops a read when its caller is dropped.
pub(crate) struct AbandonOnDrop(Arc<TxLimits>);

impl AbandonOnDrop {
    pub(crate) fn new(limits: &Arc<TxLimits>) -> Self {
        Self(Arc::clone(limits))
    }
}

impl Drop for AbandonOnDrop {
    fn drop(&mut self) {
        self.0.abandon();
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the database works in real time, also when a test pauses time"
)]
fn now() -> Instant {
    Instant::now()
}
