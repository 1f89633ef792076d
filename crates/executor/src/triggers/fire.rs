//! Events whose moment has come: each is held against what its trigger says by now, and those that
//! share a run start it together. Whoever does it holds the project's cursor, and other servers pass
//! the project by. When too many runs wait already, these wait as well, in their order.

use std::collections::{HashMap, HashSet};

use emergent_domain::{
    agent::Agent,
    ids::{AgentId, FiringId, ProjectId, RunId},
    run::Origin,
    time::Timestamp,
    trigger::{CoalesceBy, EventTrigger, Fired, Firing, FiringStatus, Why, objection},
};
use emergent_store::{
    Tx, agents,
    triggers::{self as rows, firings},
};

use super::{
    Done, Refusal, content,
    tally::{Outcome, kind_of},
};
use crate::{
    Error, Executor, Result,
    admit::{Cause, Door, admit},
    queue,
};

/// Firings that share one run.
const MOST_TOGETHER: usize = 1_000;

impl Executor {
    /// Starts what a project's events set off and whose moment has come, `limit` firings at most;
    /// how many were settled.
    pub async fn fire_events(&self, project: ProjectId, limit: usize) -> Result<usize> {
        let (executor, now) = (self.clone(), self.clock().now());
        let fired = self.db().write(move |tx| {
            if rows::take_cursor(tx, project)?.is_none() {
                return Ok(Done::default());
            }
            let due = firings::due(tx, project, now, limit)?;
            if due.is_empty() {
                return Ok(Done::default());
            }
            let mut pass = Pass::begin(tx, &executor, project, now)?;
            for firing in due {
                if pass.room == 0 {
                    pass.done.full = true;
                    break;
                }
                if !pass.settled.contains(&firing.id) {
                    pass.fire(tx, firing)?;
                }
            }
            pass.done.count = pass.settled.len();
            Ok::<_, Error>(pass.done)
        });
        self.finish(fired.await?)
    }
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
    /// How many more runs may be queued.
    room: usize,
    settled: HashSet<FiringId>,
    done: Done,
}

impl<'a> Pass<'a> {
    fn begin(tx: &mut Tx<'_>, executor: &'a Executor, project: ProjectId, now: Timestamp) -> Result<Self> {
        Ok(Self {
            executor,
            project,
            now,
            triggers: rows::hold(tx, project)?.into_iter().map(|one| (one.agent, one)).collect(),
            agents: HashMap::new(),
            room: queue::room(tx, executor.settings().max_queued)?,
            settled: HashSet::new(),
            done: Done::default(),
        })
    }

    /// Starts one run for a firing and for those that share it.
    fn fire(&mut self, tx: &mut Tx<'_>, first: Firing) -> Result<()> {
        let Some(agent) = self.agent(tx, first.agent)? else {
            return self.skip(tx, &[first], Why::Gone);
        };
        let Some(trigger) = self.triggers.get(&first.agent).cloned() else {
            return self.skip(tx, &[first], Why::Changed);
        };
        if let Some(why) = self.objection(tx, &trigger, &first)? {
            return self.skip(tx, &[first], why);
        }
        let group = self.group(tx, &trigger, first)?;
        // The newest is what the run is about, unless it was deleted meanwhile.
        let mut told = None;
        for firing in group.iter().rev() {
            if let Some(start) = content::told(tx, &trigger, firing, &group)? {
                told = Some((start, firing.cause));
                break;
            }
        }
        let Some((start, cause)) = told else {
            return self.skip(tx, &group, Why::Gone);
        };
        let depth = group.iter().map(|firing| firing.cause_depth).max().unwrap_or(0);
        let door = Door { cause: Some(Cause { run: cause, depth }), ..Door::new(Origin::Event) };
        match admit(tx, self.executor, &agent, &door, &start) {
            Ok(run) => {
                self.room -= 1;
                self.done.admitted += 1;
                let kind = trigger.event.as_str();
                self.done.tally.add(kind, Outcome::Fired, 1);
                self.done.tally.add(kind, Outcome::Coalesced, group.len() - 1);
                self.settle(tx, &group, FiringStatus::Admitted, None, Some(run.id))
            }
            Err(error @ (Error::Store(_) | Error::Graph(_))) => Err(error),
            // An admission refuses before its first write: the rest of this transaction holds.
            Err(error) => {
                let why = error.to_string();
                self.done.tally.add(trigger.event.as_str(), Outcome::Refused, group.len());
                self.settle(tx, &group, FiringStatus::Refused, Some(&why), None)?;
                self.done.refusals.push(Refusal { agent: agent.id, name: agent.definition.name, why });
                Ok(())
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

    /// What the trigger, as it is by now, has against a firing.
    fn objection(&self, tx: &mut Tx<'_>, trigger: &EventTrigger, firing: &Firing) -> Result<Option<Why>> {
        let content = match &firing.fired {
            Fired::Event { event, entity, version, .. } if trigger.config.asks_for_content() => {
                content::of_version(tx, self.project, *event, *entity, *version)?
            }
            _ => None,
        };
        Ok(objection(firing, trigger, content.as_ref()))
    }

    /// Everything that waits and shares a run with a firing, oldest first. What the trigger no longer
    /// asks for is skipped.
    fn group(&mut self, tx: &mut Tx<'_>, trigger: &EventTrigger, first: Firing) -> Result<Vec<Firing>> {
        let Fired::Event { entity, .. } = first.fired else { return Ok(vec![first]) };
        if trigger.config.window(trigger.event).is_zero() {
            return Ok(vec![first]);
        }
        let entity = match trigger.config.coalesce_by() {
            CoalesceBy::Object => Some(entity),
            CoalesceBy::Agent => None,
        };
        let mut misfits: HashMap<Why, Vec<Firing>> = HashMap::new();
        let mut group = vec![first];
        for other in firings::pending_of(tx, self.project, trigger.agent, entity, MOST_TOGETHER)? {
            if other.id == group[0].id {
                continue;
            }
            match self.objection(tx, trigger, &other)? {
                Some(why) => misfits.entry(why).or_default().push(other),
                None => group.push(other),
            }
        }
        for (why, misfits) in misfits {
            self.skip(tx, &misfits, why)?;
        }
        // Of one object the version says which is newer, whatever the clocks of several servers say.
        group.sort_by_key(|firing| (entity.and(version_of(firing)), firing.created_at, firing.id));
        Ok(group)
    }

    fn skip(&mut self, tx: &mut Tx<'_>, group: &[Firing], why: Why) -> Result<()> {
        for firing in group {
            self.done.tally.add(kind_of(&firing.fired), Outcome::Dropped, 1);
        }
        self.settle(tx, group, FiringStatus::Skipped, Some(why.as_str()), None)
    }

    fn settle(
        &mut self,
        tx: &mut Tx<'_>,
        group: &[Firing],
        status: FiringStatus,
        reason: Option<&str>,
        run: Option<RunId>,
    ) -> Result<()> {
        let ids: Vec<FiringId> = group.iter().map(|firing| firing.id).collect();
        firings::settle(tx, &ids, status, reason, run, self.now)?;
        self.settled.extend(ids);
        Ok(())
    }
}

fn version_of(firing: &Firing) -> Option<i64> {
    match firing.fired {
        Fired::Event { version, .. } => Some(version),
        Fired::Schedule { .. } => None,
    }
}
