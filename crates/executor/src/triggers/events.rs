//! Events: a project's feed is read up to its cursor's new place, which finds firings; firings
//! whose moment has come are started, those that share a run together. Whoever does either holds
//! the project's cursor, and other servers pass the project by.

use std::collections::{HashMap, HashSet};

use emergent_domain::{
    agent::Agent,
    author::Author,
    event::Change,
    ids::{AgentId, FiringId, ProjectId, RunId},
    run::Origin,
    time::Timestamp,
    trigger::{
        CoalesceBy, Decision, EventKind, EventTrigger, Fired, Firing, FiringStatus, Seen, Why, decide,
    },
};
use emergent_store::{
    Tx, agents, feed, runs,
    triggers::{self as rows, firings},
};

use super::{Refusal, content};
use crate::{
    Error, Executor, Result,
    admit::{Cause, Door, admit},
};

/// Changes read in one transaction.
const PAGE: usize = 500;
/// Firings that share one run.
const MOST_TOGETHER: usize = 1_000;

impl Executor {
    /// Reads what is new in a project's feed and notes what it sets off; how many changes it was.
    pub async fn read_events(&self, project: ProjectId) -> Result<usize> {
        let now = self.clock().now();
        let read = self.db().write(move |tx| {
            let Some(at) = rows::take_cursor(tx, project)? else { return Ok(0) };
            let changes = feed::read(tx, project, at, PAGE)?;
            if changes.reached == at {
                return Ok(0);
            }
            let triggers = rows::hold(tx, project)?;
            let found = look(tx, project, &changes.items, &triggers, now)?;
            firings::insert(tx, &found)?;
            rows::set_cursor(tx, project, changes.reached)?;
            Ok::<_, Error>(changes.items.len())
        });
        read.await
    }

    /// Starts what a project's events set off and whose moment has come, `limit` firings at most;
    /// how many were settled.
    pub async fn fire_events(&self, project: ProjectId, limit: usize) -> Result<usize> {
        self.refuse_when_full().await?;
        let (executor, now) = (self.clone(), self.clock().now());
        let fired = self.db().write(move |tx| {
            if rows::take_cursor(tx, project)?.is_none() {
                return Ok((0, Vec::new()));
            }
            let triggers = rows::hold(tx, project)?.into_iter().map(|one| (one.agent, one)).collect();
            let mut pass = Pass { executor: &executor, project, now, triggers, agents: HashMap::new() };
            let mut settled = HashSet::new();
            let mut refusals = Vec::new();
            for firing in firings::due(tx, project, now, limit)? {
                if !settled.contains(&firing.id) {
                    refusals.extend(pass.fire(tx, firing, &mut settled)?);
                }
            }
            Ok::<_, Error>((settled.len(), refusals))
        });
        let (count, refusals) = fired.await?;
        self.tell_of(refusals);
        Ok(count)
    }
}

/// The firings that changes make, skipped ones too.
fn look(
    tx: &mut Tx<'_>,
    project: ProjectId,
    changes: &[Change],
    triggers: &[EventTrigger],
    now: Timestamp,
) -> Result<Vec<Firing>> {
    let mut depths: HashMap<RunId, i64> = HashMap::new();
    let mut found = Vec::new();
    for change in changes {
        let Some(event) = EventKind::of(change.kind) else { continue };
        let concerned: Vec<&EventTrigger> = triggers
            .iter()
            .filter(|trigger| trigger.event == event && trigger.since < change.position)
            .collect();
        if concerned.is_empty() {
            continue;
        }
        let cause = match change.author {
            Author::Run { run_id, .. } => {
                let depth = match depths.get(&run_id) {
                    Some(depth) => *depth,
                    None => runs::cause_depth(tx, project, run_id)?.unwrap_or(0),
                };
                depths.insert(run_id, depth);
                Some((run_id, depth))
            }
            Author::Token { .. } | Author::System => None,
        };
        let content = if concerned.iter().any(|trigger| trigger.config.asks_for_content()) {
            content::of_version(tx, project, event, change.entity, change.version)?
        } else {
            None
        };
        let seen = Seen { change, content: content.as_ref(), cause };
        for trigger in concerned {
            found.extend(firing(&seen, trigger, event, now));
        }
    }
    Ok(found)
}

fn firing(seen: &Seen<'_>, trigger: &EventTrigger, event: EventKind, now: Timestamp) -> Option<Firing> {
    let (status, why, due_at, depth) = match decide(seen, trigger, now) {
        Decision::No => return None,
        Decision::Fire { due_at, depth } => (FiringStatus::Pending, None, due_at, depth),
        Decision::Skip { why, depth } => (FiringStatus::Skipped, Some(why), now, depth),
    };
    let change = seen.change;
    Some(Firing {
        id: FiringId::new(),
        project: trigger.project,
        agent: trigger.agent,
        fired: Fired::Event {
            event,
            entity: change.entity,
            entity_type: change.entity_type.clone(),
            version: change.version,
        },
        cause: seen.cause.map(|(run, _)| run),
        cause_depth: depth,
        status,
        reason: why.map(|why| why.as_str().to_owned()),
        run: None,
        due_at,
        created_at: now,
        settled_at: why.map(|_| now),
    })
}

/// One transaction of firing.
struct Pass<'a> {
    executor: &'a Executor,
    project: ProjectId,
    now: Timestamp,
    /// Held: none changes before this is committed.
    triggers: HashMap<AgentId, EventTrigger>,
    /// Those that were looked up already.
    agents: HashMap<AgentId, Option<Agent>>,
}

impl Pass<'_> {
    /// Starts one run for a firing and for those that share it.
    fn fire(
        &mut self,
        tx: &mut Tx<'_>,
        first: Firing,
        settled: &mut HashSet<FiringId>,
    ) -> Result<Option<Refusal>> {
        let Some(agent) = self.agent(tx, first.agent)? else {
            return self.skip(tx, &[first], Why::Gone, settled);
        };
        let trigger =
            self.triggers.get(&first.agent).filter(|trigger| Some(trigger.event) == event_of(&first));
        let Some(trigger) = trigger else {
            return self.skip(tx, &[first], Why::Changed, settled);
        };
        let group = self.group(tx, trigger, first)?;
        // The newest is what the run is about, unless it was deleted meanwhile.
        let mut told = None;
        for firing in group.iter().rev() {
            if let Some(start) = content::told(tx, trigger, firing, &group)? {
                told = Some((start, firing.cause));
                break;
            }
        }
        let Some((start, cause)) = told else {
            return self.skip(tx, &group, Why::Gone, settled);
        };
        let depth = group.iter().map(|firing| firing.cause_depth).max().unwrap_or(0);
        let door = Door { cause: Some(Cause { run: cause, depth }), ..Door::new(Origin::Event) };
        match admit(tx, self.executor, &agent, &door, &start) {
            Ok(run) => {
                self.settle(tx, &group, FiringStatus::Admitted, None, Some(run.id), settled)?;
                Ok(None)
            }
            Err(error @ (Error::Store(_) | Error::Graph(_))) => Err(error),
            // An admission refuses before its first write: the rest of this transaction holds.
            Err(error) => {
                let why = error.to_string();
                self.settle(tx, &group, FiringStatus::Refused, Some(&why), None, settled)?;
                Ok(Some(Refusal { agent: agent.id, name: agent.definition.name, why }))
            }
        }
    }

    fn agent(&mut self, tx: &mut Tx<'_>, id: AgentId) -> Result<Option<Agent>> {
        if let Some(known) = self.agents.get(&id) {
            return Ok(known.clone());
        }
        let found = agents::get(tx, self.project, id)?;
        self.agents.insert(id, found.clone());
        Ok(found)
    }

    /// Everything that waits and shares a run with a firing, oldest first.
    fn group(&self, tx: &mut Tx<'_>, trigger: &EventTrigger, first: Firing) -> Result<Vec<Firing>> {
        let Fired::Event { entity, .. } = first.fired else { return Ok(vec![first]) };
        if trigger.config.window(trigger.event).is_zero() {
            return Ok(vec![first]);
        }
        let entity = match trigger.config.coalesce_by() {
            CoalesceBy::Object => Some(entity),
            CoalesceBy::Agent => None,
        };
        let mut group = firings::pending_of(tx, self.project, trigger.agent, entity, MOST_TOGETHER)?;
        group.retain(|firing| firing.id != first.id && event_of(firing) == Some(trigger.event));
        group.push(first);
        // Of one object the version says which is newer, whatever the clocks of several servers say.
        group.sort_by_key(|firing| (entity.and(version_of(firing)), firing.created_at, firing.id));
        Ok(group)
    }

    fn skip(
        &self,
        tx: &mut Tx<'_>,
        group: &[Firing],
        why: Why,
        settled: &mut HashSet<FiringId>,
    ) -> Result<Option<Refusal>> {
        self.settle(tx, group, FiringStatus::Skipped, Some(why.as_str()), None, settled)?;
        Ok(None)
    }

    fn settle(
        &self,
        tx: &mut Tx<'_>,
        group: &[Firing],
        status: FiringStatus,
        reason: Option<&str>,
        run: Option<RunId>,
        settled: &mut HashSet<FiringId>,
    ) -> Result<()> {
        let ids: Vec<FiringId> = group.iter().map(|firing| firing.id).collect();
        firings::settle(tx, &ids, status, reason, run, self.now)?;
        settled.extend(ids);
        Ok(())
    }
}

fn version_of(firing: &Firing) -> Option<i64> {
    match firing.fired {
        Fired::Event { version, .. } => Some(version),
        Fired::Schedule { .. } => None,
    }
}

fn event_of(firing: &Firing) -> Option<EventKind> {
    match firing.fired {
        Fired::Event { event, .. } => Some(event),
        Fired::Schedule { .. } => None,
    }
}
