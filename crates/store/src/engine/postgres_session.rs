//! A connection of the pool for the time of one transaction. Each statement ends within the limits of the
//! transaction, also when the database does not answer.

use std::{
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use deadpool_postgres::Object;
use futures_util::StreamExt;
use tokio::{runtime::Handle, time::timeout};
use tokio_postgres::{CancelToken, Socket, Statement, tls::MakeTlsConnect, types::ToSql};

use crate::{
    error::{Error, Result},
    limits::TxLimits,
    value::{Param, Row},
};

/// How long the database may take to cancel a statement. After that it is unresponsive.
const CANCEL_TIME: Duration = Duration::from_secs(2);

/// Asks the database, over a connection of its own, to cancel the statement of another connection.
pub(crate) type CancelStatement =
    Arc<dyn Fn(CancelToken) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

/// Returns the function that cancels statements over connections with this TLS.
pub(crate) fn cancel_statement<T>(tls: T) -> CancelStatement
where
    T: MakeTlsConnect<Socket> + Clone + Send + Sync + 'static,
    T::Stream: Send,
    T::TlsConnect: Send,
    <T::TlsConnect as tokio_postgres::tls::TlsConnect<Socket>>::Future: Send,
{
    Arc::new(move |token| {
        let tls = tls.clone();
        Box::pin(async move {
            // If it fails, the connection is closed without it.
            let _ = timeout(CANCEL_TIME, token.cancel_query(tls)).await;
        })
    })
}

/// A connection for the time of one transaction, on a thread that may block.
pub(crate) struct Session {
    client: Object,
    runtime: Handle,
    /// Whether prepared statements are cached, which some connection poolers do not allow.
    cache: bool,
    limits: Arc<TxLimits>,
    cancel: CancelStatement,
    /// A statement was cancelled. The connection is closed, because the cancellation could arrive late and hit
    /// the next statement.
    cancelled: AtomicBool,
    /// Counts the statements that the database has answered.
    answers: Arc<AtomicU64>,
}

impl Session {
    pub(crate) fn new(
        client: Object,
        cache: bool,
        limits: Arc<TxLimits>,
        cancel: CancelStatement,
        answers: Arc<AtomicU64>,
    ) -> Self {
        let (runtime, cancelled) = (Handle::current(), AtomicBool::new(false));
        Self { client, runtime, cache, limits, cancel, cancelled, answers }
    }

    pub(crate) fn limits(&self) -> &Arc<TxLimits> {
        &self.limits
    }

    /// Ends the session. Returns the connection to the pool, if it can be used again.
    pub(crate) fn finish(self) {
        if self.cancelled.load(Ordering::Relaxed) {
            drop(Object::take(self.client));
        }
    }

    /// Runs a statement without parameters, such as `BEGIN`.
    pub(crate) fn batch_execute(&self, sql: &str) -> Result<()> {
        self.run(async { Ok(self.client.batch_execute(sql).await?) })
    }

    /// Rolls back, also when the transaction is over its limits. A connection that was cancelled is closed
    /// anyway, which rolls back as well.
    pub(crate) fn rollback(&self) -> Result<()> {
        if self.cancelled.load(Ordering::Relaxed) {
            return Ok(());
        }
        match self.runtime.block_on(timeout(CANCEL_TIME, self.client.batch_execute("ROLLBACK"))) {
            Ok(result) => Ok(result?),
            Err(_) => {
                self.cancelled.store(true, Ordering::Relaxed);
                Err(Error::Unresponsive)
            }
        }
    }

    /// Runs a statement and returns how many rows it changed.
    pub(crate) fn execute(&self, sql: &str, params: &[Param<'_>]) -> Result<u64> {
        self.run(async {
            let statement = self.prepare(sql).await?;
            let params: Vec<&(dyn ToSql + Sync)> = params.iter().map(|param| param as _).collect();
            Ok(self.client.execute(&statement, &params).await?)
        })
    }

    /// Runs a query and passes each row on as it arrives, until `visit` returns false.
    pub(crate) fn for_each_row(
        &self,
        sql: &str,
        params: &[Param<'_>],
        visit: &mut dyn FnMut(&Row<'_>) -> Result<bool>,
    ) -> Result<()> {
        self.run(async {
            let statement = self.prepare(sql).await?;
            let params = params.iter().map(|param| param as &(dyn ToSql + Sync));
            let mut rows = pin!(self.client.query_raw(&statement, params).await?);
            while let Some(row) = rows.next().await {
                if !visit(&Row::Postgres(&row?))? {
                    break;
                }
            }
            Ok(())
        })
    }

    async fn prepare(&self, sql: &str) -> Result<Statement> {
        let client = &self.client;
        Ok(if self.cache { client.prepare_cached(sql).await? } else { client.prepare(sql).await? })
    }

    /// Waits for the database, and cancels the statement when the transaction is over its limits.
    fn run<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        self.runtime.block_on(async {
            let mut work = pin!(work);
            tokio::select! {
                biased;
                result = &mut work => return self.answered(result),
                () = self.limits.over() => {}
            }
            self.cancelled.store(true, Ordering::Relaxed);
            let cancel = (self.cancel)(self.client.cancel_token());
            let (result, ()) = tokio::join!(timeout(CANCEL_TIME, work), cancel);
            match result {
                Ok(result) => self.answered(result),
                Err(_) => Err(Error::Unresponsive),
            }
        })
    }

    fn answered<T>(&self, result: Result<T>) -> Result<T> {
        self.answers.fetch_add(1, Ordering::Relaxed);
        result.map_err(|error| self.limits.explain(error))
    }
}
