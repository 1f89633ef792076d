//! Finds an object by its id or by its key as it was at an earlier time, and says whether it was live then.

use emergent_domain::{
    ids::{ObjectId, ProjectId},
    time::Timestamp,
};

use super::has_key_sql;
use crate::{error::Result, params, tx::Tx};

/// What an object was at a time, without its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateAt {
    pub id: ObjectId,
    pub type_: String,
    pub key: Option<String>,
    /// When it was deleted; `None` if it was live at the time.
    pub deleted_at: Option<Timestamp>,
}

/// The object that had a key last in a version that was replaced since. An index has these versions in this order.
pub const LAST_WITH_KEY_SQL: &str = "SELECT object_id FROM graph_object_versions
     WHERE project_id = $1 AND type = $2 AND key = $3 AND deleted_at IS NULL AND updated_at <= $4
     ORDER BY updated_at DESC LIMIT 1";

/// The version that was the newest one at a time. Only one row matches: a version is valid until the next one.
const STATE_SQL: &str = "SELECT type, key, deleted_at FROM graph_objects
     WHERE id = $1 AND project_id = $2 AND updated_at <= $3
     UNION ALL
     SELECT type, key, deleted_at FROM graph_object_versions
     WHERE object_id = $1 AND project_id = $2 AND updated_at <= $3 AND valid_to > $3";

/// The state of an object at a time; `None` if it did not exist yet. It needs a snapshot, because a concurrent update
/// moves a version to the history.
pub fn state_at(
    tx: &mut Tx<'_>,
    project: ProjectId,
    id: ObjectId,
    as_of: Timestamp,
) -> Result<Option<StateAt>> {
    tx.query_opt(STATE_SQL, params![id, project, as_of], |row| {
        Ok(StateAt { id, type_: row.get(0)?, key: row.get(1)?, deleted_at: row.get(2)? })
    })
}

/// The state at a time of the object that had this key then. If none had it, that of the last one that had had it: it may
/// be deleted, or have another type or key. `None` if no object had had the key yet. It needs a snapshot.
pub fn state_by_key_at(
    tx: &mut Tx<'_>,
    project: ProjectId,
    type_: &str,
    key: &str,
    as_of: Timestamp,
) -> Result<Option<StateAt>> {
    let sql = format!("SELECT id, updated_at FROM graph_objects WHERE {}", has_key_sql(tx));
    let holder: Option<(ObjectId, Timestamp)> =
        tx.query_opt(&sql, params![project, type_, key], |row| Ok((row.get(0)?, row.get(1)?)))?;
    if let Some((id, updated_at)) = holder
        && updated_at <= as_of
    {
        let (type_, key) = (type_.to_owned(), Some(key.to_owned()));
        return Ok(Some(StateAt { id, type_, key, deleted_at: None }));
    }
    let earlier: Option<ObjectId> =
        tx.query_opt(LAST_WITH_KEY_SQL, params![project, type_, key, as_of], |row| row.get(0))?;
    match earlier {
        Some(id) => state_at(tx, project, id, as_of),
        None => Ok(None),
    }
}
