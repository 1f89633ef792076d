//! Which triggers of a project can start something now. Only triggers with due firings are read, and no more of them than
//! one transaction fires: others wait for it, and a project may have many large triggers.

use std::collections::{HashMap, HashSet};

use emergent_domain::{
    ids::{AgentId, ProjectId},
    time::Timestamp,
    trigger::{EventTrigger, Firing},
};
use emergent_store::{
    Tx,
    triggers::{
        self as rows, ReadTriggers,
        firings::{self, DueFirings, DueTrigger},
    },
};

use super::concurrency::FreePlaces;
use crate::Result;

/// How many triggers are read at once.
const CHUNK_SIZE: usize = 8;
/// After so many bytes of triggers no further ones are read, if one of them can fire.
const MAX_BYTES: usize = 1 << 20;

/// The due firings of a project that can start agents now, and their triggers.
#[derive(Default)]
pub(super) struct DueAgents {
    /// The longest due first.
    pub firings: Vec<Firing>,
    /// The triggers of the firings, locked. A trigger that was removed is absent.
    pub triggers: Vec<EventTrigger>,
    pub places: FreePlaces,
}

impl DueAgents {
    /// Locks the triggers of at most `limit` due firings. Left out are the firings of triggers that start workflows, that
    /// this version cannot read, or that are held back: they have no turn, and reading them would cost more the more
    /// events wait.
    pub fn lock(tx: &mut Tx<'_>, project: ProjectId, now: Timestamp, limit: usize) -> Result<Self> {
        let workflows = rows::list_workflow_triggers(tx, project)?;
        let firings =
            firings::list_due(tx, project, DueFirings::Without(&workflows), &HashMap::new(), now, limit)?;
        let mut seen = HashSet::new();
        let agents: Vec<AgentId> =
            firings.iter().map(|firing| firing.agent).filter(|agent| seen.insert(*agent)).collect();
        let read = TriggerReader::default().lock(tx, &agents, limit)?;
        let needs_other_turns = !read.unreadable.is_empty() || read.places.has_limits();
        if !needs_other_turns {
            let firings =
                firings.into_iter().filter(|firing| read.eligible.contains(&firing.agent)).collect();
            return Ok(Self { firings, triggers: read.triggers, places: read.places });
        }
        // Each trigger is looked up by itself.
        let workflows: HashSet<AgentId> = workflows.into_iter().collect();
        let mut due = firings::list_due_triggers(tx, project, now)?;
        due.retain(|trigger| !workflows.contains(&trigger.agent));
        let agents: Vec<AgentId> = due.iter().map(|trigger| trigger.agent).collect();
        let read = TriggerReader::default().lock(tx, &agents, limit)?;
        due.retain(|trigger: &DueTrigger| read.eligible.contains(&trigger.agent));
        // Firings of a trigger with a limit that find no free place would only take the turns of others.
        let free = read.places.free();
        let firings = firings::list_due_of_triggers(tx, project, &due, &free, now, limit)?;
        Ok(Self { firings, triggers: read.triggers, places: read.places })
    }
}

/// Reads triggers until there are enough that can fire.
#[derive(Default)]
struct TriggerReader {
    triggers: Vec<EventTrigger>,
    unreadable: Vec<AgentId>,
    places: FreePlaces,
    /// The agents among those asked for whose firings may be started, or skipped because the trigger is gone.
    eligible: HashSet<AgentId>,
}

impl TriggerReader {
    /// Locks the triggers of these agents in their order, until `limit` of them can fire or they are large.
    fn lock(mut self, tx: &mut Tx<'_>, agents: &[AgentId], limit: usize) -> Result<Self> {
        let mut bytes = 0;
        for chunk in agents.chunks(CHUNK_SIZE) {
            if self.eligible.len() >= limit || (bytes >= MAX_BYTES && !self.eligible.is_empty()) {
                break;
            }
            let ReadTriggers { readable, unreadable, bytes: read_bytes } = rows::lock_readable(tx, chunk)?;
            let places = FreePlaces::count(tx, &readable)?;
            let held_back: HashSet<AgentId> = places.held_back().collect();
            let can_fire = |agent: &&AgentId| !held_back.contains(*agent) && !unreadable.contains(*agent);
            self.eligible.extend(chunk.iter().filter(can_fire));
            self.triggers.extend(readable);
            self.unreadable.extend(unreadable);
            self.places.extend(places);
            bytes += read_bytes;
        }
        Ok(self)
    }
}

/// The projects with due firings that can start something now. A project whose due firings are all held back needs no
/// write transaction until one of the runs ends.
pub(super) fn projects_to_fire(tx: &mut Tx<'_>, now: Timestamp) -> Result<Vec<ProjectId>> {
    let mut projects = Vec::new();
    for project in rows::projects_with_due_firings(tx, now)? {
        if can_fire(tx, project, now)? {
            projects.push(project);
        }
    }
    Ok(projects)
}

/// Whether a project has a due firing that can start something now.
fn can_fire(tx: &mut Tx<'_>, project: ProjectId, now: Timestamp) -> Result<bool> {
    let first = firings::list_due(tx, project, DueFirings::Without(&[]), &HashMap::new(), now, 1)?;
    for firing in &first {
        if any_can_fire(tx, &[firing.agent])? {
            return Ok(true);
        }
    }
    let due = firings::list_due_triggers(tx, project, now)?;
    let agents: Vec<AgentId> = due.iter().map(|trigger| trigger.agent).collect();
    for chunk in agents.chunks(CHUNK_SIZE) {
        if any_can_fire(tx, chunk)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether one of these triggers is not held back.
fn any_can_fire(tx: &mut Tx<'_>, agents: &[AgentId]) -> Result<bool> {
    let triggers = rows::list_readable(tx, agents)?;
    Ok(FreePlaces::count(tx, &triggers.readable)?.held_back().count() < agents.len())
}
