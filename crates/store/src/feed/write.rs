//! Writes the change feed: one row for each change, in the transaction of the change.

use emergent_domain::{author::Author, change::ChangeKind, ids::ProjectId, time::Timestamp};
use uuid::Uuid;

use crate::{author, error::Result, tx::Tx, value::Param};

/// How many columns [`append`] writes for each change.
const COLUMN_COUNT: usize = 9;

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

/// Appends changes to the feed in the given order, and wakes its followers.
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
    tx.insert_many(
        "INSERT INTO graph_events
            (project_id, kind, entity_id, entity_type, version, at, author_token, author_run, author_tool_call)
         VALUES",
        COLUMN_COUNT,
        &rows,
        "",
    )?;
    tx.wake(&feed_channel(project))
}

/// The channel that is woken when any feed changes.
pub const ANY_FEED_CHANNEL: &str = "events";

/// The channel that is woken when the feed of a project changes.
pub fn feed_channel(project: ProjectId) -> String {
    format!("{ANY_FEED_CHANNEL}:{project}")
}
