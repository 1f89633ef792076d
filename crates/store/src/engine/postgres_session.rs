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
use futures_util::{
    StreamExt,
    future::{join, join_all},
};
use parking_lot::Mutex;
use tokio::{runtime::Handle, time::timeout};
use tokio_postgres::{
    CancelToken, RowStream, Socket, Statement,
    error::SqlState,
    tls::MakeTlsConnect,
    types::{ToSql, Type},
};

use crate::{
    error::{Error, Result},
    limits::TxLimits,
    row_numbers::NumberPool,
    value::{Param, Row},
};

/// How long the database may take to cancel a statement. After that it is unresponsive.
const CANCEL_TIME: Duration = Duration::from_secs(2);
/// How many rows of a result that ends at a number of bytes are read first. Their size says how many follow. They
/// are few, because the database sends all of them: 32 objects of a megabyte would be four times as much as a page
/// may have, and sending and receiving them would delay everybody.
const FIRST_FETCH: usize = 8;
/// The most rows of one fetch.
const MAX_FETCH: usize = 1_000;
/// The most statements that wait to be sent with the next one. [`join_all`] starts this many in their order.
const MAX_DEFERRED: usize = 16;

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
    /// The connection is closed after the session: a statement was cancelled, and the cancellation could
    /// arrive late and hit the next statement, or a transaction could not be rolled back.
    must_close: AtomicBool,
    /// A transaction was begun and has not ended.
    in_transaction: AtomicBool,
    /// The cursor of [`Session::for_each_row_up_to`] is open in this transaction.
    has_cursor: AtomicBool,
    /// What is sent together with the next statement.
    unsent: Mutex<Unsent>,
    /// Counts the statements that the database has answered.
    answers: Arc<AtomicU64>,
    numbers: Arc<NumberPool>,
}

/// What it means that a statement is not answered although it was cancelled, while others are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Silence {
    /// It takes long, and nothing that it does lasts.
    IsSlow,
    /// Nobody knows what came of it: it is a commit.
    IsUnknown,
}

/// Statements whose answers nobody needs yet. They are sent together with the next statement, before it, and answered
/// in the same round trip.
#[derive(Default)]
struct Unsent {
    /// The statement that begins the transaction.
    begin: Option<&'static str>,
    deferred: Vec<DeferredStatement>,
}

/// A statement of which only its failure matters.
struct DeferredStatement {
    sql: String,
    params: Vec<Param<'static>>,
}

impl Session {
    pub(crate) fn new(
        client: Object,
        cache: bool,
        limits: Arc<TxLimits>,
        cancel: CancelStatement,
        answers: Arc<AtomicU64>,
        numbers: Arc<NumberPool>,
    ) -> Self {
        Self {
            client,
            runtime: Handle::current(),
            cache,
            limits,
            cancel,
            must_close: AtomicBool::new(false),
            in_transaction: AtomicBool::new(false),
            has_cursor: AtomicBool::new(false),
            unsent: Mutex::default(),
            answers,
            numbers,
        }
    }

    pub(crate) fn numbers(&self) -> &Arc<NumberPool> {
        &self.numbers
    }

    pub(crate) fn limits(&self) -> &Arc<TxLimits> {
        &self.limits
    }

    /// Ends the session. Returns the connection to the pool, if it can be used again.
    pub(crate) fn finish(self) {
        if self.must_close.load(Ordering::Relaxed) {
            drop(Object::take(self.client));
        }
    }

    /// Begins a transaction with a statement such as `BEGIN`, which is sent with the first statement of the transaction.
    /// Without a statement cache it is sent at once, because a connection pooler in between must see it before the
    /// statements are prepared.
    pub(crate) fn begin(&self, sql: &'static str) -> Result<()> {
        *self.unsent.lock() = Unsent::default();
        if self.cache {
            self.unsent.lock().begin = Some(sql);
        } else {
            self.run(async { Ok(self.client.batch_execute(sql).await?) })?;
        }
        self.has_cursor.store(false, Ordering::Relaxed);
        self.in_transaction.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Commits. If this fails, nothing is committed, and the caller rolls back.
    pub(crate) fn commit(&self) -> Result<()> {
        let is_empty = {
            let unsent = self.unsent.lock();
            unsent.begin.is_some() && unsent.deferred.is_empty()
        };
        if is_empty {
            // A transaction that consists of no statement was never begun.
            self.unsent.lock().begin = None;
        } else {
            // If a deferred statement fails, either the database rolls back instead or the commit is not sent, and the
            // failure is returned.
            let commit = self.send_with_unsent(async { Ok(self.client.batch_execute("COMMIT").await?) });
            self.run_until_answered(commit, Silence::IsUnknown)?;
        }
        self.in_transaction.store(false, Ordering::Relaxed);
        Ok(())
    }

    /// The names of the types of the parameters of a statement.
    pub(crate) fn param_types(&self, sql: &str) -> Result<Vec<String>> {
        let statement = self.run(self.prepare(sql))?;
        Ok(statement.params().iter().map(|type_| type_.name().to_owned()).collect())
    }

    /// Runs a statement later, together with the next one or with the commit. Its failure is that of the statement or
    /// commit that it is sent with.
    pub(crate) fn defer(&self, sql: &str, params: &[Param<'_>]) -> Result<()> {
        if !self.cache {
            return self.execute(sql, params).map(drop).map_err(deferred_error);
        }
        let statement =
            DeferredStatement { sql: sql.to_owned(), params: params.iter().map(Param::to_static).collect() };
        let count = {
            let mut unsent = self.unsent.lock();
            unsent.deferred.push(statement);
            unsent.deferred.len()
        };
        if count < MAX_DEFERRED { Ok(()) } else { self.run(self.send_with_unsent(async { Ok(()) })) }
    }

    /// Sends what was not sent yet, and then a statement, without waiting for the answers in between.
    async fn send_with_unsent<T>(&self, statement: impl Future<Output = Result<T>>) -> Result<T> {
        let unsent = std::mem::take(&mut *self.unsent.lock());
        if unsent.begin.is_none() && unsent.deferred.is_empty() {
            return statement.await;
        }
        let prepared = match self.prepare_deferred(&unsent.deferred).await {
            Ok(prepared) => prepared,
            Err(error) => {
                // Nothing was sent. If the caller goes on, the next statement must still begin the transaction, and fail
                // with the statement that cannot be prepared.
                *self.unsent.lock() = unsent;
                return Err(error);
            }
        };
        self.send_after(unsent, &prepared, statement).await
    }

    /// Prepares statements. One that is not cached yet takes a round trip.
    async fn prepare_deferred(&self, deferred: &[DeferredStatement]) -> Result<Vec<Statement>> {
        let mut prepared = Vec::with_capacity(deferred.len());
        for DeferredStatement { sql, .. } in deferred {
            prepared.push(self.prepare(sql).await?);
        }
        Ok(prepared)
    }

    async fn send_after<T>(
        &self,
        Unsent { begin, deferred }: Unsent,
        prepared: &[Statement],
        statement: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        // A statement whose parameters cannot be encoded is not sent at all, so the database would not refuse what
        // follows it. Such a failure is known when its future was polled once.
        let has_failed = AtomicBool::new(false);
        let note_failure = |sent: Result<u64, tokio_postgres::Error>| {
            has_failed.fetch_or(sent.is_err(), Ordering::Relaxed);
            sent
        };
        let begin = async {
            match begin {
                Some(sql) => note_failure(self.client.batch_execute(sql).await.map(|()| 0)),
                None => Ok(0),
            }
        };
        let deferred =
            deferred.iter().zip(prepared).map(|(DeferredStatement { params, .. }, prepared)| async {
                let params: Vec<&(dyn ToSql + Sync)> = params.iter().map(|param| param as _).collect();
                note_failure(self.client.execute(prepared, &params).await)
            });
        let statement =
            async { if has_failed.load(Ordering::Relaxed) { Ok(None) } else { statement.await.map(Some) } };
        // Each future sends its statement when it is polled first, and they are polled in this order.
        let (begun, (deferred, result)) = join(begin, join(join_all(deferred), statement)).await;
        begun?;
        // After a failure the database refuses everything that follows, so the first error is the cause.
        for deferred in deferred {
            deferred.map_err(|error| deferred_error(self.numbers.check_error(error.into())))?;
        }
        // Nothing that came before has failed, so the statement was sent.
        result?.ok_or(Error::Broken)
    }

    /// Rolls back what was begun, also when the transaction is over its limits. If that fails, the connection
    /// is closed, which rolls back as well; so is one on which a statement was cancelled.
    pub(crate) fn rollback(&self) {
        let in_transaction = self.in_transaction.swap(false, Ordering::Relaxed);
        let was_sent = std::mem::take(&mut *self.unsent.lock()).begin.is_none();
        if !in_transaction || !was_sent || self.must_close.load(Ordering::Relaxed) {
            return;
        }
        let rolled_back = self.runtime.block_on(timeout(CANCEL_TIME, self.client.batch_execute("ROLLBACK")));
        if !matches!(rolled_back, Ok(Ok(()))) {
            self.must_close.store(true, Ordering::Relaxed);
        }
    }

    /// Runs a statement and returns how many rows it changed.
    pub(crate) fn execute(&self, sql: &str, params: &[Param<'_>]) -> Result<u64> {
        self.run(async {
            let statement = self.prepare(sql).await?;
            let params: Vec<&(dyn ToSql + Sync)> = params.iter().map(|param| param as _).collect();
            self.send_with_unsent(async { Ok(self.client.execute(&statement, &params).await?) }).await
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
            let sent = async { Ok(self.client.query_raw(&statement, params).await?) };
            let mut rows = pin!(self.send_with_unsent(sent).await?);
            while let Some(row) = rows.next().await {
                if !visit(&Row::Postgres(&row?))? {
                    break;
                }
            }
            Ok(())
        })
    }

    /// Like [`Session::for_each_row`], for a result that the visitor ends at about `max_bytes`. The rows are
    /// fetched in parts, so that the database does not read and send what nobody collects. Begins a
    /// transaction if there is none, because a cursor needs one.
    pub(crate) fn for_each_row_up_to(
        &self,
        max_bytes: usize,
        sql: &str,
        params: &[Param<'_>],
        visit: &mut dyn FnMut(&Row<'_>) -> Result<bool>,
    ) -> Result<()> {
        self.run(async {
            let declare = self.prepare(&format!("DECLARE page NO SCROLL CURSOR FOR {sql}")).await?;
            if !self.unsent.lock().deferred.is_empty() {
                self.send_with_unsent(async { Ok(()) }).await?;
            }
            let params: Vec<&(dyn ToSql + Sync)> = params.iter().map(|param| param as _).collect();
            let (mut count, mut fetched, mut bytes) = (FIRST_FETCH, 0, 0);
            let mut rows = Box::pin(self.open_cursor(&declare, &params).await?);
            loop {
                let mut fetched_now = 0;
                while let Some(row) = rows.next().await {
                    let row = row?;
                    fetched_now += 1;
                    bytes += row.raw_size_bytes();
                    if !visit(&Row::Postgres(&row))? {
                        return Ok(());
                    }
                }
                if fetched_now < count {
                    return Ok(());
                }
                fetched += fetched_now;
                count = next_fetch(max_bytes, bytes, fetched);
                rows = Box::pin(self.fetch(count).await?);
            }
        })
    }

    /// Opens a cursor and fetches its first rows. The statements are sent together and answered in one round
    /// trip; if one fails, so do those after it.
    async fn open_cursor(&self, declare: &Statement, params: &[&(dyn ToSql + Sync)]) -> Result<RowStream> {
        let before = if let Some(begin) = self.unsent.lock().begin.take() {
            Some(begin)
        } else if !self.in_transaction.swap(true, Ordering::Relaxed) {
            Some("BEGIN READ ONLY")
        } else if self.has_cursor.load(Ordering::Relaxed) {
            Some("CLOSE page")
        } else {
            None
        };
        let prepare = async {
            match before {
                Some(sql) => self.client.batch_execute(sql).await,
                None => Ok(()),
            }
        };
        let (prepared, declared, rows) =
            tokio::join!(prepare, self.client.execute(declare, params), self.fetch(FIRST_FETCH));
        prepared?;
        declared?;
        self.has_cursor.store(true, Ordering::Relaxed);
        rows
    }

    /// Fetches the next rows of the cursor. The statement is not cached: its columns are those of the cursor.
    async fn fetch(&self, count: usize) -> Result<RowStream> {
        let none: [(&(dyn ToSql + Sync), Type); 0] = [];
        Ok(self.client.query_typed_raw(&format!("FETCH FORWARD {count} FROM page"), none).await?)
    }

    async fn prepare(&self, sql: &str) -> Result<Statement> {
        let client = &self.client;
        Ok(if self.cache { client.prepare_cached(sql).await? } else { client.prepare(sql).await? })
    }

    /// Waits for the database, and cancels the statement when the transaction is over its limits.
    fn run<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        self.run_until_answered(work, Silence::IsSlow)
    }

    fn run_until_answered<T>(&self, work: impl Future<Output = Result<T>>, silence: Silence) -> Result<T> {
        self.runtime.block_on(async {
            let mut work = pin!(work);
            tokio::select! {
                biased;
                result = &mut work => return self.answered(result),
                () = self.limits.over() => {}
            }
            self.must_close.store(true, Ordering::Relaxed);
            let answers_before = self.answers.load(Ordering::Relaxed);
            let cancel = (self.cancel)(self.client.cancel_token());
            let (result, ()) = tokio::join!(timeout(CANCEL_TIME, work), cancel);
            let answers_others = self.answers.load(Ordering::Relaxed) != answers_before;
            match result {
                Ok(result) => self.answered(result),
                // The database is busy with the statement, and takes long to notice that it is cancelled. The connection is
                // closed, so nothing of the transaction is committed.
                Err(_) if answers_others && silence == Silence::IsSlow => Err(self.limits.error()),
                Err(_) => Err(self.numbers.check_error(Error::Unresponsive)),
            }
        })
    }

    fn answered<T>(&self, result: Result<T>) -> Result<T> {
        self.answers.fetch_add(1, Ordering::Relaxed);
        result.map_err(|error| self.numbers.check_error(self.limits.explain(error)))
    }
}

/// The error of a deferred statement. Its caller expects no duplicate, and whoever gets the error would take it for one
/// of its own statement: the transaction is tried again. So it is after a division by zero, with which a statement fails
/// on purpose if it does not find the row that it was written for.
fn deferred_error(error: Error) -> Error {
    match error {
        Error::Duplicate { constraint } => Error::Conflict(constraint.into()),
        Error::Postgres(error) if error.code() == Some(&SqlState::DIVISION_BY_ZERO) => {
            Error::Conflict(Box::new(error))
        }
        other => other,
    }
}

/// How many rows fit into what is left of `max_bytes`, if they are as large as those that were fetched.
fn next_fetch(max_bytes: usize, bytes: usize, fetched: usize) -> usize {
    let row_bytes = (bytes / fetched.max(1)).max(1);
    (max_bytes.saturating_sub(bytes) / row_bytes + 1).min(MAX_FETCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_rows_are_about_as_many_as_fit() {
        assert_eq!(next_fetch(8 << 20, 8 * 100, 8), MAX_FETCH, "small rows");
        assert_eq!(next_fetch(8 << 20, 4 << 20, 32), 33, "as much again, and one to see that there is more");
        assert_eq!(next_fetch(8 << 20, 8 << 20, 8), 1, "the row that does not fit");
    }
}
