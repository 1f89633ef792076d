//! The due and the pending firings of events of one project, and of one trigger.

use std::collections::HashMap;

use emergent_domain::{
    ids::{AgentId, ProjectId},
    time::Timestamp,
    trigger::Firing,
};
use uuid::Uuid;

use super::COLUMNS;
use crate::{engine::Engine, error::Result, page, row::TableRow, tx::Tx, value::Param};

/// Which firings [`list_due`] returns.
#[derive(Debug, Clone, Copy)]
pub enum DueFirings<'a> {
    /// Those of all triggers but these.
    Without(&'a [AgentId]),
    /// Those of these triggers.
    Only(&'a [AgentId]),
}

impl DueFirings<'_> {
    fn includes(self, agent: AgentId) -> bool {
        match self {
            Self::Without(agents) => !agents.contains(&agent),
            Self::Only(agents) => agents.contains(&agent),
        }
    }
}

/// The due pending firings of events of a project that this version can read, the longest due first: at most `limit`,
/// and of each trigger in `limits` at most so many. Those that are left out are not read, because many may wait: each
/// trigger is looked up by itself then.
pub fn list_due(
    tx: &mut Tx<'_>,
    project: ProjectId,
    which: DueFirings<'_>,
    limits: &HashMap<AgentId, usize>,
    now: Timestamp,
    limit: usize,
) -> Result<Vec<Firing>> {
    match which {
        DueFirings::Only([]) => return Ok(Vec::new()),
        DueFirings::Without([]) if limits.is_empty() => return list_due_of(tx, project, None, now, limit),
        _ => {}
    }
    let mut triggers = list_due_triggers(tx, project, now)?;
    triggers.retain(|trigger| which.includes(trigger.agent));
    list_due_of_triggers(tx, project, &triggers, limits, now, limit)
}

/// Like [`list_due`], of these triggers of [`list_due_triggers`], in its order.
pub fn list_due_of_triggers(
    tx: &mut Tx<'_>,
    project: ProjectId,
    triggers: &[DueTrigger],
    limits: &HashMap<AgentId, usize>,
    now: Timestamp,
    limit: usize,
) -> Result<Vec<Firing>> {
    let mut due: Vec<Firing> = Vec::new();
    for DueTrigger { agent, since } in triggers {
        // The firings of this trigger and of those after it are due later than all that fit.
        if due.len() == limit && due.last().is_some_and(|last| last.due_at <= *since) {
            break;
        }
        let limit_of_trigger = limits.get(agent).map_or(limit, |own| limit.min(*own));
        due.extend(list_due_of(tx, project, Some(*agent), now, limit_of_trigger)?);
        due.sort_by_key(|firing| (firing.due_at, firing.id));
        due.truncate(limit);
    }
    Ok(due)
}

/// The due pending firings of events of a project, or of one of its triggers, that this version can read, the longest
/// due first.
fn list_due_of(
    tx: &mut Tx<'_>,
    project: ProjectId,
    agent: Option<AgentId>,
    now: Timestamp,
    limit: usize,
) -> Result<Vec<Firing>> {
    let condition = if agent.is_some() { " AND agent_id = $3" } else { "" };
    let sql = |limit: &str, exclude: &str| {
        format!(
            "SELECT {COLUMNS} FROM trigger_firings
             WHERE project_id = $1 AND status = 'pending' AND entity_id IS NOT NULL
                 AND due_at <= $2{condition}{exclude}
             ORDER BY due_at, id LIMIT {limit}"
        )
    };
    let mut params = vec![Param::from(project), Param::from(now)];
    params.extend(agent.map(Param::from));
    tx.query_claimable::<Firing, _>(&params, limit, sql, Firing::from_row)
}

/// A trigger with due pending firings of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DueTrigger {
    pub agent: AgentId,
    /// When the first of them was due.
    pub since: Timestamp,
}

/// The triggers of a project with due pending firings of events, the longest due first. Each takes one lookup in an
/// index, however many of its firings wait.
pub fn list_due_triggers(tx: &mut Tx<'_>, project: ProjectId, now: Timestamp) -> Result<Vec<DueTrigger>> {
    let sql = match tx.engine() {
        // For a comparison of rows, SQLite would read all firings of the trigger before.
        Engine::Sqlite => {
            "SELECT project_id, agent_id, due_at FROM trigger_firings
             WHERE project_id = $1 AND agent_id > $2 AND status = 'pending' AND entity_id IS NOT NULL
             ORDER BY agent_id, due_at LIMIT 1"
        }
        // Only one index has this order, so PostgreSQL takes it whatever it knows of the table. The trigger that is
        // found may be of another project.
        Engine::Postgres => {
            "SELECT project_id, agent_id, due_at FROM trigger_firings
             WHERE (project_id, agent_id) > ($1, $2) AND status = 'pending' AND entity_id IS NOT NULL
             ORDER BY project_id, agent_id, due_at LIMIT 1"
        }
    };
    let (mut triggers, mut after) = (Vec::<DueTrigger>::new(), AgentId(Uuid::nil()));
    loop {
        let next: Option<(ProjectId, AgentId, Timestamp)> =
            tx.query_opt(sql, &[Param::from(project), Param::from(after)], |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?))
            })?;
        let Some((_, agent, since)) = next.filter(|(of, _, _)| *of == project) else { break };
        if since <= now {
            triggers.push(DueTrigger { agent, since });
        }
        after = agent;
    }
    triggers.sort_by_key(|trigger| trigger.since);
    Ok(triggers)
}

/// The due pending firings of an agent that this version can read, in the order of their events. The order is that of
/// the feed, because the servers that read it may have different clocks. The condition names no project: an agent is of
/// one only, and with it the database may choose to read and to sort all due firings.
pub fn list_first_due(tx: &mut Tx<'_>, agent: AgentId, now: Timestamp, limit: usize) -> Result<Vec<Firing>> {
    let sql = |limit: &str, exclude: &str| {
        format!(
            "SELECT {COLUMNS} FROM trigger_firings
             WHERE agent_id = $1 AND status = 'pending' AND entity_id IS NOT NULL AND due_at <= $2{exclude}
             ORDER BY event_txid, event_seq, id LIMIT {limit}"
        )
    };
    let params = [Param::from(agent), Param::from(now)];
    tx.query_claimable::<Firing, _>(&params, limit, sql, Firing::from_row)
}

/// How many pending firings of an agent's events are due.
pub fn count_due(tx: &mut Tx<'_>, project: ProjectId, agent: AgentId, now: Timestamp) -> Result<i64> {
    let sql = "SELECT count(*) FROM trigger_firings
               WHERE project_id = $1 AND status = 'pending' AND entity_id IS NOT NULL AND agent_id = $2
                   AND due_at <= $3";
    let params = [Param::from(project), Param::from(agent), Param::from(now)];
    Ok(tx.query_opt(sql, &params, |row| row.get(0))?.unwrap_or(0))
}

/// The pending firings of events for an agent that this version can read, oldest first. With `entity`, only
/// those about that object.
pub fn list_pending(
    tx: &mut Tx<'_>,
    project: ProjectId,
    agent: AgentId,
    entity: Option<Uuid>,
    limit: usize,
) -> Result<Vec<Firing>> {
    let sql = |limit: &str, exclude: &str| list_pending_sql(entity.is_some(), limit, exclude);
    let mut params = vec![Param::from(project), Param::from(agent)];
    params.extend(entity.map(Param::from));
    tx.query_claimable::<Firing, _>(&params, limit, sql, Firing::from_row)
}

/// The statement of [`list_pending`]. Many firings of an agent may wait, and an object may have many that are settled,
/// which are kept for ever by default. Each of the two orders is therefore that of an index of the pending ones.
pub(super) fn list_pending_sql(of_entity: bool, limit: &str, exclude: &str) -> String {
    let (condition, order) = match of_entity {
        true => (" AND entity_id = $3", "created_at, id"),
        false => ("", "event_txid, event_seq, id"),
    };
    let of_project = page::on_row("project_id = $1");
    format!(
        "SELECT {COLUMNS} FROM trigger_firings
         WHERE agent_id = $2 AND {of_project} AND status = 'pending' AND entity_id IS NOT NULL{condition}{exclude}
         ORDER BY {order} LIMIT {limit}"
    )
}
