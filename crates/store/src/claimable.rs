//! Reads rows that a server is about to claim, and skips those that this version cannot read. One unreadable
//! row must not keep the server from claiming the others. It is left as it is, because a newer server may
//! understand it, and is logged once.

use std::{collections::HashSet, sync::LazyLock};

use parking_lot::Mutex;
use tracing::warn;
use uuid::Uuid;

use crate::{
    error::{Error, Result},
    page,
    row::TableRow,
    tx::Tx,
    value::{Param, Row},
};

/// After an unreadable row, at least this many rows are read at once. Otherwise a server with one free
/// slot would need a statement for each unreadable row in front of the readable ones.
const MIN_REREAD: usize = 256;
/// With more unreadable rows than this, the query is not repeated, and rows that come after them are not
/// claimed. Each excluded row is a parameter, and PostgreSQL allows 65,535 of them.
const MAX_EXCLUDED: usize = 20_000;
/// The maximum size of [`LOGGED`]. It is cleared then, so that a row may be logged again.
const MAX_LOGGED: usize = 10_000;

/// The unreadable rows that this process has logged, by table and id.
static LOGGED: LazyLock<Mutex<HashSet<(&'static str, Uuid)>>> = LazyLock::new(Mutex::default);

impl Tx<'_> {
    /// Reads up to `limit` rows of the table of `R`, without unreadable ones.
    ///
    /// `sql` builds the query from the placeholder of the limit, which follows `params`, and from a
    /// condition that excludes unreadable rows: ` AND jobs.id NOT IN ($4)`, or nothing. The query
    /// selects the columns of `R` first, of which the first is the id.
    pub(crate) fn query_claimable<R: TableRow, T>(
        &mut self,
        params: &[Param<'_>],
        limit: usize,
        sql: impl Fn(&str, &str) -> String,
        read: impl Fn(&Row<'_>) -> Result<T>,
    ) -> Result<Vec<T>> {
        let limit_placeholder = format!("${}", params.len() + 1);
        let mut unreadable: Vec<Uuid> = Vec::new();
        loop {
            let (page_size, exclude) = if unreadable.is_empty() {
                (limit, String::new())
            } else {
                let placeholders = page::placeholders(params.len() + 2, unreadable.len());
                (limit.max(MIN_REREAD), format!(" AND {}.id NOT IN ({placeholders})", R::TABLE))
            };
            let mut values = params.to_vec();
            values.push(Param::from(page_size));
            values.extend(unreadable.iter().copied().map(Param::from));
            let excluded = unreadable.len();
            let rows = self.query(&sql(&limit_placeholder, &exclude), &values, |row| match read(row) {
                Err(error @ Error::Unreadable { .. }) => {
                    let id = row.get(0)?;
                    log_once(R::TABLE, id, &error);
                    unreadable.push(id);
                    Ok(None)
                }
                other => other.map(Some),
            })?;
            // If there were new unreadable rows, the query is repeated without them, because they counted
            // towards its limit.
            if unreadable.len() == excluded || unreadable.len() > MAX_EXCLUDED {
                return Ok(rows.into_iter().flatten().take(limit).collect());
            }
        }
    }
}

/// Logs an unreadable row, unless this process has logged it before.
pub(crate) fn log_once(table: &'static str, id: Uuid, error: &Error) {
    if let Error::Unreadable { column, value, .. } = error
        && is_new(&mut LOGGED.lock(), table, id)
    {
        warn!(table, column, value, row.id = %id, "row `{id}` is left to a newer server: {error}");
    }
}

/// Adds a row to the set of logged rows; false if it was there.
fn is_new(logged: &mut HashSet<(&'static str, Uuid)>, table: &'static str, id: Uuid) -> bool {
    if logged.len() >= MAX_LOGGED {
        logged.clear();
    }
    logged.insert((table, id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_logged_once() {
        let (mut logged, id) = (HashSet::new(), Uuid::now_v7());
        assert!(is_new(&mut logged, "jobs", id));
        assert!(!is_new(&mut logged, "jobs", id));
        assert!(is_new(&mut logged, "jobs", Uuid::now_v7()));
    }
}
