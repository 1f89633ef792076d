//! The SQLite engine: one writer thread (`sqlite_writer.rs`), and a few reader connections that never wait for it.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use tokio::task::JoinSet;

use crate::{
    engine::{
        Engine,
        slots::Slot,
        sqlite_connection::connect,
        sqlite_queue::{WriteSender, write_queue},
        sqlite_readers::Readers,
        sqlite_writer::{QueuedWrite, write_groups},
        watch::Watch,
        work::{ReadWork, WriteWork},
    },
    error::{Error, Result},
    limits::{AbandonOnDrop, EngineLimits, TimeLimits},
    requester,
    search::vectors::VectorIndexes,
    storage_health::StorageHealth,
    wake::Wake,
};

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
    pub(crate) fn write(&self, work: Box<dyn WriteWork>) -> Result<()> {
        let requester = requester::current();
        let limits = self.limits.for_write(requester);
        let write = QueuedWrite::new(work, requester, limits, Arc::clone(&self.vectors));
        self.writer.queue.as_ref().ok_or(Error::Closed)?.send(write)
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
    queue: Option<WriteSender<QueuedWrite>>,
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
