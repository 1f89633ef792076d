//! Counts the unfinished runs of event triggers, for their limit `max_concurrent`. The runs are counted and not the
//! firings, because a project may keep its firings for a shorter time than a run waits for a person.

use std::collections::HashMap;

use emergent_domain::ids::AgentId;

use crate::{error::Result, page, tx::Tx, value::Param};

/// The runs that an event trigger started and that have not ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UnfinishedRuns {
    /// Those that are queued, running or waiting.
    pub count: i64,
    /// Those of them that wait for a person.
    pub waiting: i64,
}

/// The unfinished runs of the event triggers of these agents. An agent without such a run is left out. A run that
/// resumes a run of a trigger counts like that run.
pub fn count_unfinished(tx: &mut Tx<'_>, agents: &[AgentId]) -> Result<HashMap<AgentId, UnfinishedRuns>> {
    let mut counts = HashMap::new();
    for list in page::in_chunks(agents) {
        let sql = format!(
            "SELECT agent_id, count(*), count(CASE WHEN status = 'waiting' THEN 1 END) FROM agent_runs AS r
             WHERE agent_id IN ({})
                 AND origin IN ('event', 'resume') AND status IN ('queued', 'running', 'waiting')
                 AND (origin = 'event' OR EXISTS (
                     WITH RECURSIVE earlier (origin, resumed_from) AS (
                         SELECT e.origin, e.resumed_from FROM agent_runs AS e WHERE e.id = r.resumed_from
                         UNION ALL
                         SELECT e.origin, e.resumed_from FROM agent_runs AS e
                         JOIN earlier ON e.id = earlier.resumed_from)
                     SELECT 1 FROM earlier WHERE earlier.origin = 'event'))
             GROUP BY agent_id",
            page::placeholders(1, list.len())
        );
        let params: Vec<Param<'_>> = list.into_iter().map(Param::from).collect();
        let rows = tx.query(&sql, &params, |row| {
            Ok((row.get::<AgentId>(0)?, UnfinishedRuns { count: row.get(1)?, waiting: row.get(2)? }))
        })?;
        counts.extend(rows);
    }
    Ok(counts)
}
