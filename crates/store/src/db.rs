//! The way in: open a database of either kind, write in transactions, read beside them.

use std::{path::PathBuf, sync::Arc};

use crate::{
    engine::{Engine, postgres::Postgres, sqlite::Sqlite},
    error::{Error, Result},
    search::vectors::VectorIndexes,
    tx::Tx,
    wake::{Waiter, Wake},
};

#[derive(Debug, Clone)]
pub enum DbConfig {
    /// A file; its folder is there.
    Sqlite { path: PathBuf },
    Postgres {
        url: String,
        connections: usize,
        /// Off for poolers that hand each transaction another connection.
        statement_cache: bool,
    },
}

/// A handle on the database; clones share it.
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
    /// Opens the database and brings its schema up to date. Safe while others do the same.
    pub async fn open(config: DbConfig) -> Result<Self> {
        let wake = Arc::new(Wake::default());
        let vectors = Arc::new(VectorIndexes::default());
        let engine = match config {
            DbConfig::Sqlite { path } => {
                let (wake, vectors) = (Arc::clone(&wake), Arc::clone(&vectors));
                #[expect(clippy::disallowed_methods, reason = "awaited here")]
                let opened = tokio::task::spawn_blocking(move || Sqlite::open(&path, wake, vectors)).await;
                EngineHandle::Sqlite(opened.map_err(|_| Error::Closed)??)
            }
            DbConfig::Postgres { url, connections, statement_cache } => EngineHandle::Postgres(
                Postgres::open(&url, connections, statement_cache, Arc::clone(&wake)).await?,
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

    /// Runs a transaction. When this returns `Ok`, it is on the disk.
    ///
    /// The closure may run more than once (another transaction was in its way, or one that shared
    /// its commit failed), so everything it does besides `tx` must bear repeating.
    pub async fn write<T, E, F>(&self, work: F) -> Result<T, E>
    where
        F: Fn(&mut Tx<'_>) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: From<Error> + Send + 'static,
    {
        match &self.inner.engine {
            EngineHandle::Sqlite(engine) => engine.write(work).await,
            EngineHandle::Postgres(engine) => engine.write(work).await,
        }
    }

    /// Reads; each statement sees what is committed when it starts.
    pub async fn read<T, E, F>(&self, work: F) -> Result<T, E>
    where
        F: FnOnce(&mut Tx<'_>) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: From<Error> + Send + 'static,
    {
        self.read_with(false, work).await
    }

    /// Reads; all statements see the same moment.
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
        match &self.inner.engine {
            EngineHandle::Sqlite(engine) => engine.read(snapshot, work).await,
            EngineHandle::Postgres(engine) => engine.read(snapshot, work).await,
        }
    }

    /// How many commits this handle made. Embedded writes that were queued together share one.
    pub fn commits(&self) -> u64 {
        match &self.inner.engine {
            EngineHandle::Sqlite(engine) => engine.commits(),
            EngineHandle::Postgres(engine) => engine.commits(),
        }
    }

    /// Hears wakes on a channel from now on.
    pub fn waiter(&self, channel: &str) -> Waiter {
        self.inner.wake.subscribe(channel)
    }

    /// The embedded engine's vectors, quantised in memory.
    pub fn vectors(&self) -> &Arc<VectorIndexes> {
        &self.inner.vectors
    }
}

/// A URL as it may be shown: the password is nobody's business.
pub fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return "a database URL".to_owned() };
    let rest = match rest.rsplit_once('@') {
        Some((user, host)) => format!("{}@{host}", user.split(':').next().unwrap_or_default()),
        None => rest.to_owned(),
    };
    // Connection strings may carry it as a parameter, too.
    let rest = rest.split("password=").next().unwrap_or_default();
    format!("{scheme}://{rest}")
}
