//! Changes the status of a row as a compare-and-set: only if it still has the status that the caller read.

use uuid::Uuid;

use crate::{error::Result, params, tx::Tx};

/// Changes the status of a row of `table`; false when the row no longer has the status `from`.
///
/// The table has the columns `id` and `status`. Of any number of concurrent callers, on any number of
/// servers, exactly one gets `true`.
pub fn transition(tx: &mut Tx<'_>, table: &'static str, id: Uuid, from: &str, to: &str) -> Result<bool> {
    let sql = format!("UPDATE {table} SET status = $3 WHERE id = $1 AND status = $2");
    Ok(tx.execute(&sql, params![id, from, to])? == 1)
}
