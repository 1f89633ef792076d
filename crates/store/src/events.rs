//! The change feed: a row for every change, written in the change's own transaction.

use emergent_domain::{author::Author, change::ChangeKind, ids::ProjectId, time::Timestamp};
use uuid::Uuid;

use crate::{author, error::Result, tx::Tx, value::Param};

/// A change about to be told. Its place in the feed is given by the database.
#[derive(Debug, Clone, PartialEq)]
pub struct NewChange<'a> {
    pub kind: ChangeKind,
    pub entity: Uuid,
    pub entity_type: &'a str,
    pub version: i64,
    pub at: Timestamp,
    pub author: Author,
}

/// Writes changes to the feed in this order, and wakes who follows it.
pub fn append(tx: &mut Tx<'_>, project: ProjectId, events: &[NewChange<'_>]) -> Result<()> {
    if events.is_empty() {
        return Ok(());
    }
    let rows: Vec<Vec<Param<'_>>> = events
        .iter()
        .map(|event| {
            let [token, run, tool_call] = author::params(event.author);
            vec![
                Param::from(project),
                Param::from(event.kind.as_str()),
                Param::from(event.entity),
                Param::from(event.entity_type),
                Param::from(event.version),
                Param::from(event.at),
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
        9,
        &rows,
        "",
    )?;
    tx.wake(&feed_channel(project))
}

/// The wake of every project's feed.
pub const ANY_FEED_CHANNEL: &str = "events";

/// The wake of a project's feed.
pub fn feed_channel(project: ProjectId) -> String {
    format!("{ANY_FEED_CHANNEL}:{project}")
}
