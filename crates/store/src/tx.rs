//! [`Tx`], a database transaction. Every statement of the store runs in one.
//!
//! Store functions are plain functions over `&mut Tx`. The same code runs on SQLite's writer thread and on a
//! PostgreSQL connection, where each statement whose answer is needed is a round trip. A caller can therefore
//! combine several functions in one transaction on both engines.

use std::{collections::HashMap, pin::Pin, sync::Arc};

use emergent_domain::{audit::AuditOrigin, ids::ObjectId};

use crate::{
    after_commit::AfterCommit,
    engine::{Engine, postgres_session::Session},
    error::{Error, Result},
    idempotency::KeyedRequest,
    limits::TxLimits,
    objects::LockedObject,
    row_numbers::NumberPool,
    search::{fts_buffer::FtsBuffer, vectors::VectorChange},
    storage_health::StorageFault,
    value::{Param, Row},
};

/// A running transaction on one of the two engines.
pub struct Tx<'a> {
    pub(crate) conn: Conn<'a>,
    /// The channels to wake after the commit.
    pub(crate) wakes: Vec<String>,
    /// The hooks to call after the commit.
    pub(crate) hooks: Vec<Box<dyn FnOnce() + Send>>,
    /// The changes for the vector indexes in memory, applied after the commit. Only on SQLite.
    pub(crate) vectors: Vec<VectorChange>,
    /// The changes for the feed, inserted before the commit. Only on PostgreSQL.
    pub(crate) changes: Vec<Vec<Param<'static>>>,
    /// Objects that were locked together and not asked for yet. Only on PostgreSQL.
    pub(crate) locked_objects: HashMap<ObjectId, LockedObject>,
    /// A statement conflicted with another transaction, so the whole transaction must be retried.
    pub(crate) conflicted: bool,
    /// A statement failed. PostgreSQL commits nothing of such a transaction, so neither engine does.
    pub(crate) failed: bool,
    /// A statement changed a row.
    pub(crate) has_written: bool,
    limits: Arc<TxLimits>,
    /// The bytes of the rows that were collected so far.
    collected_bytes: usize,
    /// The bytes of the rows that were collected so far, those of limited queries included.
    pub(crate) read_bytes: usize,
    /// Whether the memory of JSON values is counted as well. A request holds them until it is answered.
    pub(crate) counts_values: bool,
    /// A statement failed because of the storage, with what the database said.
    pub(crate) fault: Option<(StorageFault, String)>,
    /// Who makes the changes, for the audit log; `None` for the server itself.
    pub(crate) origin: Option<Arc<AuditOrigin>>,
    /// What has to be done outside of the transaction before it can succeed.
    pub(crate) preparation: Option<Preparation>,
    /// The request whose work is to be accepted once, if its client gave it a key.
    pub(crate) keyed_request: Option<Arc<KeyedRequest>>,
}

/// Work that a transaction cannot do itself, because others would wait for it.
pub(crate) type Preparation = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The connection of a transaction.
pub(crate) enum Conn<'a> {
    /// The writer buffers its changes of the full-text index; readers have no buffer.
    Sqlite(&'a rusqlite::Connection, Option<&'a FtsBuffer>),
    Postgres(&'a Session),
}

impl<'a> Tx<'a> {
    pub(crate) fn new(conn: Conn<'a>, limits: Arc<TxLimits>) -> Self {
        Self {
            conn,
            wakes: Vec::new(),
            hooks: Vec::new(),
            vectors: Vec::new(),
            changes: Vec::new(),
            locked_objects: HashMap::new(),
            conflicted: false,
            failed: false,
            has_written: false,
            limits,
            collected_bytes: 0,
            read_bytes: 0,
            counts_values: false,
            fault: None,
            origin: None,
            preparation: None,
            keyed_request: None,
        }
    }

    /// The engine, for the few functions whose SQL differs.
    pub fn engine(&self) -> Engine {
        match self.conn {
            Conn::Sqlite(..) => Engine::Sqlite,
            Conn::Postgres(_) => Engine::Postgres,
        }
    }

    /// Runs a statement and returns how many rows it changed.
    pub fn execute(&mut self, sql: &str, params: &[Param<'_>]) -> Result<u64> {
        let result = self.limits.check().and_then(|()| match &self.conn {
            Conn::Sqlite(conn, _) => sqlite_execute(conn, sql, params),
            Conn::Postgres(session) => session.execute(sql, params),
        });
        self.has_written |= result.as_ref().is_ok_and(|changed| *changed > 0);
        self.track_failure(result)
    }

    /// Runs a statement of which only its failure matters. On PostgreSQL it is sent together with the next statement or
    /// with the commit, so that it needs no round trip of its own; its failure is the failure of that one. It must not
    /// be one that can find a duplicate: the transaction would be tried again.
    pub fn execute_later(&mut self, sql: &str, params: &[Param<'_>]) -> Result<()> {
        let result = self.limits.check().and_then(|()| match &self.conn {
            Conn::Sqlite(conn, _) => sqlite_execute(conn, sql, params).map(drop),
            Conn::Postgres(session) => session.defer(sql, params),
        });
        self.has_written |= result.is_ok();
        self.track_failure(result)
    }

    /// Runs a query and turns each row into a value.
    pub fn query<T>(
        &mut self,
        sql: &str,
        params: &[Param<'_>],
        mut read: impl FnMut(&Row<'_>) -> Result<T>,
    ) -> Result<Vec<T>> {
        let mut values = Vec::new();
        let (limits, mut collected_bytes) = (Arc::clone(&self.limits), self.collected_bytes);
        let (counts_values, mut value_bytes) = (self.counts_values, 0);
        self.for_each_row(sql, params, |row| {
            collected_bytes += row.bytes();
            value_bytes += if counts_values { row.value_bytes() } else { 0 };
            limits.check_bytes(collected_bytes)?;
            values.push(read(row)?);
            Ok(())
        })?;
        self.read_bytes += collected_bytes - self.collected_bytes + value_bytes;
        self.collected_bytes = collected_bytes;
        Ok(values)
    }

    /// Like [`Tx::query`], but ends before the row with which the result would be larger than `max_bytes`.
    /// The first row is always included. The flag says whether rows were left out. The database reads little
    /// more than what is returned.
    pub fn query_up_to<T>(
        &mut self,
        max_bytes: usize,
        sql: &str,
        params: &[Param<'_>],
        mut read: impl FnMut(&Row<'_>) -> Result<T>,
    ) -> Result<(Vec<T>, bool)> {
        let (mut values, mut bytes, mut is_cut) = (Vec::new(), 0, false);
        let counts_values = self.counts_values;
        let mut visit = |row: &Row<'_>| {
            bytes += row.bytes() + if counts_values { row.value_bytes() } else { 0 };
            is_cut = bytes > max_bytes && !values.is_empty();
            if !is_cut {
                values.push(read(row)?);
            }
            Ok(!is_cut)
        };
        let result = self.limits.check().and_then(|()| match &self.conn {
            Conn::Sqlite(conn, _) => sqlite_for_each_row(conn, sql, params, &mut visit),
            Conn::Postgres(session) => session.for_each_row_up_to(max_bytes, sql, params, &mut visit),
        });
        self.track_failure(result)?;
        self.read_bytes += bytes;
        Ok((values, is_cut))
    }

    /// The size of what this transaction has read so far.
    pub fn read_bytes(&self) -> usize {
        self.read_bytes
    }

    /// Runs a query and passes each row on, without collecting them.
    pub fn for_each_row(
        &mut self,
        sql: &str,
        params: &[Param<'_>],
        mut visit: impl FnMut(&Row<'_>) -> Result<()>,
    ) -> Result<()> {
        self.for_each_row_while(sql, params, |row| visit(row).map(|()| true))
    }

    /// Like [`Tx::for_each_row`], but stops when `visit` returns false.
    pub(crate) fn for_each_row_while(
        &mut self,
        sql: &str,
        params: &[Param<'_>],
        mut visit: impl FnMut(&Row<'_>) -> Result<bool>,
    ) -> Result<()> {
        let mut returned_rows = false;
        let mut visit = |row: &Row<'_>| {
            returned_rows = true;
            visit(row)
        };
        let result = self.limits.check().and_then(|()| match &self.conn {
            Conn::Sqlite(conn, _) => sqlite_for_each_row(conn, sql, params, &mut visit),
            Conn::Postgres(session) => session.for_each_row(sql, params, &mut visit),
        });
        self.has_written |= returned_rows && changes_rows(sql);
        self.track_failure(result)
    }

    /// Runs work to which the time limit does not apply: work that other callers wait for as well, and that
    /// would have to be started again if it was stopped.
    pub(crate) fn without_time_limit<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> T {
        let limits = Arc::clone(&self.limits);
        limits.suspend(|| work(self))
    }

    /// Fails when the time of the transaction is over, as a statement does. A long computation between statements calls
    /// this every some thousand steps: nothing else could stop it.
    pub fn check_deadline(&mut self) -> Result<()> {
        let result = self.limits.check();
        self.track_failure(result)
    }

    /// Has work done outside of the transaction, and the transaction run again after it. The caller returns an error,
    /// which is reported if the transaction still needs the work after several attempts.
    pub fn retry_after(&mut self, work: impl Future<Output = ()> + Send + 'static) {
        self.preparation = Some(Box::pin(work));
    }

    /// The first row, if there is one.
    pub fn query_opt<T>(
        &mut self,
        sql: &str,
        params: &[Param<'_>],
        read: impl FnMut(&Row<'_>) -> Result<T>,
    ) -> Result<Option<T>> {
        Ok(self.query(sql, params, read)?.into_iter().next())
    }

    /// The names of the types that PostgreSQL gives to the parameters of a statement; none on SQLite.
    pub(crate) fn param_types(&mut self, sql: &str) -> Result<Vec<String>> {
        let result = match &self.conn {
            Conn::Sqlite(..) => Ok(Vec::new()),
            Conn::Postgres(session) => session.param_types(sql),
        };
        self.track_failure(result)
    }

    /// Locks a name until the transaction ends, so that two servers do not make the same decision
    /// concurrently. SQLite has one writer and needs no lock. The seed of the hash, 4400, must be the same in
    /// all versions, or their servers would not exclude each other.
    pub fn advisory_lock(&mut self, name: &str) -> Result<()> {
        if self.engine() == Engine::Postgres {
            self.for_each_row(
                "SELECT pg_advisory_xact_lock(hashtextextended($1, 4400))",
                &[Param::from(name)],
                |_| Ok(()),
            )?;
        }
        Ok(())
    }

    /// As [`Tx::advisory_lock`], but several transactions can hold the lock if all of them share it. The next statement
    /// runs under it; the lock itself takes no round trip.
    pub fn advisory_lock_shared(&mut self, name: &str) -> Result<()> {
        if self.engine() == Engine::Postgres {
            let sql = "SELECT pg_advisory_xact_lock_shared(hashtextextended($1, 4400))";
            self.execute_later(sql, &[Param::from(name)])?;
        }
        Ok(())
    }

    /// The end of a `SELECT` whose rows this transaction will change.
    pub fn for_update(&self) -> &'static str {
        match self.engine() {
            Engine::Sqlite => "",
            Engine::Postgres => " FOR UPDATE",
        }
    }

    /// The end of a `SELECT` whose rows must be neither changed nor deleted before this transaction ends.
    pub fn for_share(&self) -> &'static str {
        match self.engine() {
            Engine::Sqlite => "",
            Engine::Postgres => " FOR SHARE",
        }
    }

    /// The end of a `SELECT` that claims rows: rows that another server has locked are left to it.
    pub fn skip_locked(&self) -> &'static str {
        match self.engine() {
            Engine::Sqlite => "",
            Engine::Postgres => " FOR UPDATE SKIP LOCKED",
        }
    }

    /// Wakes the waiters of a channel on every server after the commit.
    pub fn wake(&mut self, channel: &str) -> Result<()> {
        if !self.wakes.iter().any(|existing| existing == channel) {
            self.wakes.push(channel.to_owned());
        }
        Ok(())
    }

    /// Calls a hook in this process after the commit. A crash can lose it; work that must follow the commit
    /// is a job.
    pub fn after_commit(&mut self, hook: impl FnOnce() + Send + 'static) {
        self.hooks.push(Box::new(hook));
    }

    /// The connection to SQLite, for the few statements that need it.
    pub fn sqlite(&self) -> Option<&rusqlite::Connection> {
        match &self.conn {
            Conn::Sqlite(conn, _) => Some(conn),
            Conn::Postgres(_) => None,
        }
    }

    /// The row numbers that this server has taken from the sequences of PostgreSQL.
    pub(crate) fn number_pool(&self) -> Option<Arc<NumberPool>> {
        match self.conn {
            Conn::Sqlite(..) => None,
            Conn::Postgres(session) => Some(Arc::clone(session.numbers())),
        }
    }

    /// The buffer for changes of the full-text index, if this transaction has one.
    pub(crate) fn fts_buffer(&self) -> Option<&'a FtsBuffer> {
        match self.conn {
            Conn::Sqlite(_, buffer) => buffer,
            Conn::Postgres(_) => None,
        }
    }

    /// Writes the buffered changes of the full-text index, so that a search in this transaction sees them.
    pub(crate) fn flush_fts(&mut self) -> Result<()> {
        let result = match &self.conn {
            Conn::Sqlite(conn, Some(buffer)) => buffer.flush(conn),
            _ => Ok(()),
        };
        self.track_failure(result)
    }

    /// The error that makes [`crate::Db::write`] retry: another transaction changed what this one has read.
    /// Only on PostgreSQL; SQLite has one writer.
    pub fn retry_error(&mut self, reason: &str) -> Error {
        self.conflicted = true;
        Error::Conflict(reason.into())
    }

    /// Records a failed statement, so that the transaction is not committed.
    fn track_failure<T>(&mut self, result: Result<T>) -> Result<T> {
        let result = result.map_err(|error| self.limits.explain(error));
        match result {
            Err(Error::Conflict(_)) => (self.conflicted, self.failed) = (true, true),
            Err(
                Error::Duplicate { .. }
                | Error::Sqlite(_)
                | Error::Postgres(_)
                | Error::Pool(_)
                | Error::Unresponsive
                | Error::TooSlow { .. }
                | Error::Abandoned
                | Error::StorageFull(_)
                | Error::StorageCorrupt(_),
            ) => self.failed = true,
            _ => {}
        }
        if let Err(error) = &result
            && let Some(fault) = error.storage_fault()
        {
            self.fault = Some((fault, emergent_net::errors::error_chain(error)));
        }
        result
    }

    /// The result of the transaction, given the result of its closure. It fails if any statement failed, even
    /// if the closure ignored that error: PostgreSQL would accept the commit and write nothing.
    pub(crate) fn final_result<T, E: From<Error>>(&self, result: Result<T, E>) -> Result<T, E> {
        if self.failed && result.is_ok() { Err(Error::Broken.into()) } else { result }
    }

    /// The work that follows the commit.
    pub(crate) fn into_after_commit(self) -> AfterCommit {
        AfterCommit { wakes: self.wakes, hooks: self.hooks, vectors: self.vectors }
    }
}

/// Whether a statement that returns rows has changed them.
fn changes_rows(sql: &str) -> bool {
    let sql = sql.trim_start();
    ["INSERT", "UPDATE", "DELETE"].iter().any(|verb| sql.starts_with(verb))
        || (sql.starts_with("WITH") && sql.contains("RETURNING"))
}

/// Replaces `$2` by `?2`. To SQLite, `$2` is a named parameter, and looking up names takes longer the more
/// there are; `?2` is the second parameter. Only a `$` before a digit is replaced, so `'$.path'` in JSON
/// functions stays as it is.
fn numbered_params(sql: &str) -> String {
    let mut text = sql.to_owned();
    for (index, _) in sql.match_indices('$') {
        if sql.as_bytes().get(index + 1).is_some_and(u8::is_ascii_digit) {
            text.replace_range(index..=index, "?");
        }
    }
    text
}

/// Prepares a statement and binds the parameters that it uses. Surplus parameters are ignored.
fn prepare_bound<'c>(
    conn: &'c rusqlite::Connection,
    sql: &str,
    params: &[Param<'_>],
) -> Result<rusqlite::CachedStatement<'c>> {
    let mut statement = conn.prepare_cached(&numbered_params(sql))?;
    let expected = statement.parameter_count();
    if expected > params.len() {
        return Err(Error::Sqlite(rusqlite::Error::InvalidParameterCount(expected, params.len())));
    }
    for (index, param) in params.iter().take(expected).enumerate() {
        statement.raw_bind_parameter(index + 1, param)?;
    }
    Ok(statement)
}

fn sqlite_execute(conn: &rusqlite::Connection, sql: &str, params: &[Param<'_>]) -> Result<u64> {
    let mut statement = prepare_bound(conn, sql, params)?;
    Ok(statement.raw_execute()? as u64)
}

fn sqlite_for_each_row(
    conn: &rusqlite::Connection,
    sql: &str,
    params: &[Param<'_>],
    visit: &mut dyn FnMut(&Row<'_>) -> Result<bool>,
) -> Result<()> {
    let mut statement = prepare_bound(conn, sql, params)?;
    let mut rows = statement.raw_query();
    while let Some(row) = rows.next()? {
        if !visit(&Row::Sqlite(row))? {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::numbered_params;

    #[test]
    fn parameters_are_numbered_and_json_paths_are_left_alone() {
        assert_eq!(
            numbered_params("SELECT x ->> '$.a' FROM t WHERE a = $2 AND b IN ($10,$1)"),
            "SELECT x ->> '$.a' FROM t WHERE a = ?2 AND b IN (?10,?1)"
        );
    }
}
