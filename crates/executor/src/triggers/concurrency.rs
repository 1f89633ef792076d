//! The limit `max_concurrent` of event triggers. While as many runs of a trigger are unfinished, its due firings stay
//! pending. The transaction that fires events counts the runs after it has locked the cursor of the project, so no
//! two servers fill the same place. The end of a run wakes the loop that fires triggers.

use std::collections::HashMap;

use emergent_domain::{
    ids::{AgentId, ProjectId},
    time::Timestamp,
    trigger::EventTrigger,
};
use emergent_store::{
    Tx,
    triggers::{
        firings,
        unfinished::{UnfinishedRuns, count_unfinished},
    },
};

use crate::Result;

/// How many more runs each event trigger with a limit may start.
#[derive(Debug, Default)]
pub(super) struct FreePlaces(HashMap<AgentId, i64>);

impl FreePlaces {
    /// Counts the places that are free now. Without a trigger that has a limit, nothing is read.
    pub fn count(tx: &mut Tx<'_>, triggers: &[EventTrigger]) -> Result<Self> {
        let unfinished = unfinished_runs(tx, triggers)?;
        let free = triggers.iter().filter_map(|trigger| {
            let runs = unfinished.get(&trigger.agent).copied().unwrap_or_default();
            Some((trigger.agent, trigger.config.free_places(runs.count)?))
        });
        Ok(Self(free.collect()))
    }

    /// How many more runs a trigger may start; `None` if it has no limit.
    pub fn get(&self, agent: AgentId) -> Option<i64> {
        self.0.get(&agent).copied()
    }

    /// How many more runs each trigger with a limit may start.
    pub fn free(&self) -> HashMap<AgentId, usize> {
        self.0.iter().map(|(agent, free)| (*agent, usize::try_from(*free).unwrap_or(0))).collect()
    }

    /// Records that a trigger has started a run.
    pub fn take(&mut self, agent: AgentId) {
        if let Some(free) = self.0.get_mut(&agent) {
            *free -= 1;
        }
    }

    /// Whether one of the triggers has a limit.
    pub fn has_limits(&self) -> bool {
        !self.0.is_empty()
    }

    /// Adds the places of other triggers.
    pub fn extend(&mut self, others: Self) {
        self.0.extend(others.0);
    }

    /// The triggers that may start no run now.
    pub fn held_back(&self) -> impl Iterator<Item = AgentId> + '_ {
        self.0.iter().filter(|(_, free)| **free <= 0).map(|(agent, _)| *agent)
    }
}

/// The unfinished runs of the triggers that have a limit.
fn unfinished_runs(tx: &mut Tx<'_>, triggers: &[EventTrigger]) -> Result<HashMap<AgentId, UnfinishedRuns>> {
    let limited = triggers.iter().filter(|trigger| trigger.config.max_concurrent.is_some());
    let agents: Vec<AgentId> = limited.map(|trigger| trigger.agent).collect();
    Ok(count_unfinished(tx, &agents)?)
}

/// Why the events of a trigger wait: as many of its runs are unfinished as it may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeldBack {
    /// How many events wait.
    pub events: i64,
    pub unfinished: UnfinishedRuns,
}

/// The triggers whose events wait because of their limit.
pub(super) fn list_held_back(
    tx: &mut Tx<'_>,
    project: ProjectId,
    triggers: &[EventTrigger],
    now: Timestamp,
) -> Result<HashMap<AgentId, HeldBack>> {
    let mut held_back = HashMap::new();
    for (agent, unfinished) in unfinished_runs(tx, triggers)? {
        let trigger = triggers.iter().find(|trigger| trigger.agent == agent);
        if trigger.and_then(|trigger| trigger.config.free_places(unfinished.count)) != Some(0) {
            continue;
        }
        let events = firings::count_due(tx, project, agent, now)?;
        if events > 0 {
            held_back.insert(agent, HeldBack { events, unfinished });
        }
    }
    Ok(held_back)
}
