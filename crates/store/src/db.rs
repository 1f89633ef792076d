//! [`Db`], the entry point of the store: opens SQLite or PostgreSQL, runs write transactions and
//! concurrent reads.

use std::{path::PathBuf, sync::Arc};

use parking_lot::Mutex;

use crate::{
    audit,
    engine::{
        Engine,
        postgres::Postgres,
        sqlite::Sqlite,
        work::{ReadWork, WriteWork, read_work, write_work},
    },
    error::{Error, Result},
    idempotency,
    limits::TimeLimits,
    read_memory::{self, RequestRows},
    search::{vector_index::MissingIndex, vectors::VectorIndexes},
    storage_health::{StorageHealth, StorageProblem},
    tx::Tx,
    wake::{Waiter, Wake},
};

/// Which database to open, and how.
#[derive(Debug, Clone)]
pub enum DbConfig {
    /// The database file. Its directory must exist.
    Sqlite { path: PathBuf },
    Postgres {
        url: String,
        /// The maximum size of the connection pool.
        connections: usize,
        /// Whether prepared statements are reused. Must be off behind a connection pooler that may run each
        /// transaction on another connection.
        statement_cache: bool,
    },
}

/// How often a transaction runs again because something had to be done outside of it.
const MAX_PREPARATIONS: usize = 4;

/// A handle on an open database. Clones share its connections.
#[derive(Clone)]
pub struct Db {
    inner: Arc<Inner>,
}

struct Inner {
    engine: EngineHandle,
    wake: Arc<Wake>,
    vectors: Arc<VectorIndexes>,
}

enum EngineHandle {
    Sqlite(Sqlite),
    Postgres(Postgres),
}

impl Db {
    /// Opens the database with the default time limits, and migrates its schema. Several processes may open it
    /// concurrently.
    pub async fn open(config: DbConfig) -> Result<Self> {
        Self::open_with(config, TimeLimits::default()).await
    }

    /// Like [`Db::open`], with other time limits.
    pub async fn open_with(config: DbConfig, limits: TimeLimits) -> Result<Self> {
        let wake = Arc::new(Wake::default());
        let vectors = Arc::new(VectorIndexes::default());
        let engine = match config {
            DbConfig::Sqlite { path } => {
                let (wake, vectors) = (Arc::clone(&wake), Arc::clone(&vectors));
                #[expect(clippy::disallowed_methods, reason = "awaited here")]
                let opened =
                    tokio::task::spawn_blocking(move || Sqlite::open(&path, limits, wake, vectors)).await;
                EngineHandle::Sqlite(opened.map_err(|_| Error::Closed)??)
            }
            DbConfig::Postgres { url, connections, statement_cache } => EngineHandle::Postgres(
                Postgres::open(&url, connections, statement_cache, limits, Arc::clone(&wake)).await?,
            ),
        };
        Ok(Self { inner: Arc::new(Inner { engine, wake, vectors }) })
    }

    pub fn engine(&self) -> Engine {
        match self.inner.engine {
            EngineHandle::Sqlite(_) => Engine::Sqlite,
            EngineHandle::Postgres(_) => Engine::Postgres,
        }
    }

    /// Runs a write transaction. When this returns `Ok`, the transaction is on disk.
    ///
    /// The closure may run more than once: on PostgreSQL after a conflict with another transaction, on
    /// SQLite when another transaction of the same commit group failed, and on both after [`Tx::retry_after`].
    /// Side effects outside `tx` must therefore be idempotent.
    pub async fn write<T, E, F>(&self, work: F) -> Result<T, E>
    where
        F: Fn(&mut Tx<'_>) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: From<Error> + Send + 'static,
    {
        let (origin, keyed_request) = (audit::current_origin(), idempotency::current_request());
        let (work, preparation) = (Arc::new(Mutex::new(work)), Arc::new(Mutex::new(None)));
        let mut preparation_count = 0;
        loop {
            let (origin, keyed_request) = (origin.clone(), keyed_request.clone());
            let (work, requested) = (Arc::clone(&work), Arc::clone(&preparation));
            let (work, reply) = write_work(move |tx: &mut Tx<'_>| {
                tx.origin.clone_from(&origin);
                tx.keyed_request.clone_from(&keyed_request);
                let result = work.lock()(tx);
                *requested.lock() = tx.preparation.take();
                result
            });
            self.write_erased(work).await?;
            let result = reply.await.unwrap_or_else(|_| Err(Error::Closed.into()));
            let requested = preparation.lock().take();
            match requested {
                Some(prepare) if result.is_err() && preparation_count < MAX_PREPARATIONS => {
                    preparation_count += 1;
                    prepare.await;
                }
                _ => return result,
            }
        }
    }

    /// Runs reads. Each statement sees what was committed when it started.
    pub async fn read<T, E, F>(&self, work: F) -> Result<T, E>
    where
        F: FnOnce(&mut Tx<'_>) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: From<Error> + Send + 'static,
    {
        self.read_with(false, work).await
    }

    /// Runs reads on one snapshot: all statements see the same committed state.
    pub async fn snapshot<T, E, F>(&self, work: F) -> Result<T, E>
    where
        F: FnOnce(&mut Tx<'_>) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: From<Error> + Send + 'static,
    {
        self.read_with(true, work).await
    }

    async fn read_with<T, E, F>(&self, snapshot: bool, work: F) -> Result<T, E>
    where
        F: FnOnce(&mut Tx<'_>) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: From<Error> + Send + 'static,
    {
        let (work, reply) = read_work(work);
        match read_memory::current() {
            Some(rows) => self.read_for_request(snapshot, rows, work).await?,
            None => self.read_erased(snapshot, work).await?,
        }
        reply.await.unwrap_or_else(|_| Err(Error::Closed.into()))
    }

    /// Reads for a request, when it may have more rows in memory, and counts them.
    async fn read_for_request(&self, snapshot: bool, rows: Arc<RequestRows>, work: ReadWork) -> Result<()> {
        let (pending_work, deadline) = (Arc::new(Mutex::new(Some(work))), read_memory::wait_deadline());
        loop {
            rows.wait(deadline).await?;
            let (work, rows) = (Arc::clone(&pending_work), Arc::clone(&rows));
            let attempt: ReadWork = Box::new(move |tx: &mut Tx<'_>| {
                // Many requests can have waited for a connection since they were admitted, so this is checked again.
                let Some(_reading) = rows.begin() else { return };
                if let Some(work) = work.lock().take() {
                    tx.counts_values = true;
                    work(tx);
                    rows.count(tx.read_bytes);
                }
            });
            self.read_erased(snapshot, attempt).await?;
            if pending_work.lock().is_none() {
                return Ok(());
            }
        }
    }

    async fn write_erased(&self, work: Box<dyn WriteWork>) -> Result<()> {
        match &self.inner.engine {
            EngineHandle::Sqlite(engine) => engine.write(work),
            EngineHandle::Postgres(engine) => engine.write(work).await,
        }
    }

    async fn read_erased(&self, snapshot: bool, work: ReadWork) -> Result<()> {
        match &self.inner.engine {
            EngineHandle::Sqlite(engine) => engine.read(snapshot, work).await,
            EngineHandle::Postgres(engine) => engine.read(snapshot, work).await,
        }
    }

    /// How many commits were made through this handle and its clones. On SQLite, transactions that were
    /// queued together share one commit.
    pub fn commits(&self) -> u64 {
        match &self.inner.engine {
            EngineHandle::Sqlite(engine) => engine.commits(),
            EngineHandle::Postgres(engine) => engine.commits(),
        }
    }

    /// What is wrong with the storage, from the last statement that failed because of it. A full disk is reported until
    /// [`crate::health::check`] finds room for a large write.
    pub fn storage_problem(&self) -> Option<StorageProblem> {
        self.storage_health().problem()
    }

    /// Records that there is room for a large write.
    pub(crate) fn report_room(&self) {
        self.storage_health().report_room();
    }

    fn storage_health(&self) -> &StorageHealth {
        match &self.inner.engine {
            EngineHandle::Sqlite(engine) => engine.health(),
            EngineHandle::Postgres(engine) => engine.health(),
        }
    }

    /// Builds an index of vectors while others write vectors. It may take minutes. Returns whether it was built here: not
    /// if it exists, and not if another server builds it. SQLite has no such index.
    pub async fn build_vector_index(&self, missing: &MissingIndex) -> Result<bool> {
        match (&self.inner.engine, missing.create_sql()) {
            (EngineHandle::Postgres(engine), Some(sql)) => engine.build_index(missing.name(), sql).await,
            _ => Ok(false),
        }
    }

    /// Subscribes to the wakes of a channel, from now on.
    pub fn waiter(&self, channel: &str) -> Waiter {
        self.inner.wake.subscribe(channel)
    }

    /// The quantised vectors that SQLite searches in memory. Unused on PostgreSQL.
    pub fn vectors(&self) -> &Arc<VectorIndexes> {
        &self.inner.vectors
    }
}

/// Returns a database URL without its password, for messages.
pub fn without_password(url: &str) -> String {
    let Some((scheme, address)) = url.split_once("://") else { return "a database URL".to_owned() };
    let address = match address.rsplit_once('@') {
        Some((credentials, host)) => {
            let user = credentials.split(':').next().unwrap_or_default();
            format!("{user}@{host}")
        }
        None => address.to_owned(),
    };
    // The password can also be a parameter. Everything from there on is left out.
    let address = address.split("password=").next().unwrap_or_default();
    format!("{scheme}://{address}")
}
