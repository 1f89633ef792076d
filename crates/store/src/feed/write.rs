//! Writes the change feed: one row for each change, in the transaction of the change.

use emergent_domain::{author::Author, change::ChangeKind, ids::ProjectId, time::Timestamp};
use uuid::Uuid;

use crate::{author, engine::Engine, error::Result, tx::Tx, value::Param};

/// How many columns [`append`] writes for each change.
const COLUMN_COUNT: usize = 9;
const INSERT: &str = "INSERT INTO graph_events
        (project_id, kind, entity_id, entity_type, version, at, author_token, author_run, author_tool_call)
    VALUES";

/// A change to append. The database assigns its position in the feed.
#[derive(Debug, Clone, PartialEq)]
pub struct NewChange<'a> {
    pub kind: ChangeKind,
    pub entity: Uuid,
    pub entity_type: &'a str,
    /// The version of the entity after the change.
    pub version: i64,
    pub at: Timestamp,
    pub author: Author,
}

/// Appends changes to the feed in the given order, and wakes its followers. On PostgreSQL the changes of a transaction
/// are inserted together, before its commit: no reader sees them earlier, not even in this transaction.
pub fn append(tx: &mut Tx<'_>, project: ProjectId, changes: &[NewChange<'_>]) -> Result<()> {
    if changes.is_empty() {
        return Ok(());
    }
    let rows: Vec<Vec<Param<'_>>> = changes
        .iter()
        .map(|change| {
            let [token, run, tool_call] = author::params(change.author);
            vec![
                Param::from(project),
                Param::from(change.kind.as_str()),
                Param::from(change.entity),
                Param::from(change.entity_type),
                Param::from(change.version),
                Param::from(change.at),
                token,
                run,
                tool_call,
            ]
        })
        .collect();
    match tx.engine() {
        Engine::Sqlite => {
            tx.insert_many(INSERT, COLUMN_COUNT, &rows, "")?;
        }
        Engine::Postgres => {
            let to_static = |row: &Vec<Param<'_>>| row.iter().map(Param::to_static).collect();
            tx.changes.extend(rows.iter().map(to_static));
            tx.has_written = true;
        }
    }
    tx.wake(&feed_channel(project))
}

/// Inserts the changes that the transaction has appended.
pub(crate) fn flush(tx: &mut Tx<'_>) -> Result<()> {
    let rows: Vec<Vec<Param<'static>>> = std::mem::take(&mut tx.changes);
    tx.insert_many_later(INSERT, COLUMN_COUNT, &rows)
}

/// The channel that is woken when any feed changes.
pub const ANY_FEED_CHANNEL: &str = "events";

/// The channel that is woken when the feed of a project changes.
pub fn feed_channel(project: ProjectId) -> String {
    format!("{ANY_FEED_CHANNEL}:{project}")
}
