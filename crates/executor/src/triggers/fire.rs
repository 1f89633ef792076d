//! Events whose moment has come: each is held against what its trigger says by now, and those that
//! share a run start it together. Whoever does it holds the project's cursor, and other servers pass
//! the project by. When too many runs wait already, these wait as well, in their order.

use std::collections::{HashMap, HashSet};

use emergent_domain::{
    agent::Agent,
    ids::{AgentId, FiringId, ProjectId, RunId},
    run::Origin,
    time::Timestamp,
    trigger::{CoalesceBy, EventTrigger, Firing, FiringCause, FiringStatus, SkipReason, skip_reason},
};
use emergent_store::{
    Tx, agents,
    triggers::{self as rows, firings},
};

use super::{
    FiringOutcome, RefusedStart, event_context,
    firing_counts::{FiringOutcomeKind, firing_kind},
};
use crate::{
    Error, Executor, Result,
    admission::{Admission, TriggerCause, admit},
    queue,
};

/// Firings that share one run.
const MAX_COALESCED: usize = 1_000;

impl Executor {
    /// Starts what a project's events set off and whose moment has come, `limit` firings at most;
    /// how many were settled.
    pub async fn fire_events(&self, project: ProjectId, limit: usize) -> Result<usize> {
        let (executor, now) = (self.clone(), self.clock().now());
        let fired = self.db().write(move |tx| {
            if rows::try_lock_cursor(tx, project)?.is_none() {
                return Ok(FiringOutcome::default());
            }
            let due = firings::list_due(tx, project, now, limit)?;
            if due.is_empty() {
                return Ok(FiringOutcome::default());
            }
            let mut pass = FiringPass::load(tx, &executor, project, now)?;
            for firing in due {
                if pass.capacity == 0 {
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
        self.report_outcome(fired.await?)
    }
}

/// One transaction of firing.
struct FiringPass<'a> {
    executor: &'a Executor,
    project: ProjectId,
    now: Timestamp,
    /// Held: none changes before this is committed.
    triggers: HashMap<AgentId, EventTrigger>,
    /// Those that were looked up already.
    agents: HashMap<AgentId, Option<Agent>>,
    /// How many more runs may be queued.
    capacity: usize,
    settled: HashSet<FiringId>,
    done: FiringOutcome,
}

impl<'a> FiringPass<'a> {
    fn load(tx: &mut Tx<'_>, executor: &'a Executor, project: ProjectId, now: Timestamp) -> Result<Self> {
        Ok(Self {
            executor,
            project,
            now,
            triggers: rows::lock_all(tx, project)?.into_iter().map(|one| (one.agent, one)).collect(),
            agents: HashMap::new(),
            capacity: queue::free_queue_capacity(tx, executor.settings().max_queued)?,
            settled: HashSet::new(),
            done: FiringOutcome::default(),
        })
    }

    /// Starts one run for a firing and for those that share it.
    fn fire(&mut self, tx: &mut Tx<'_>, first: Firing) -> Result<()> {
        let Some(agent) = self.agent(tx, first.agent)? else {
            return self.skip(tx, &[first], SkipReason::Gone);
        };
        let Some(trigger) = self.triggers.get(&first.agent).cloned() else {
            return self.skip(tx, &[first], SkipReason::Changed);
        };
        if let Some(why) = self.skip_reason(tx, &trigger, &first)? {
            return self.skip(tx, &[first], why);
        }
        let group = self.group(tx, &trigger, first)?;
        // The newest is what the run is about, unless it was deleted meanwhile.
        let mut told = None;
        for firing in group.iter().rev() {
            if let Some(start) = event_context::start_options(tx, &trigger, firing, &group)? {
                told = Some((start, firing.cause));
                break;
            }
        }
        let Some((start, cause)) = told else {
            return self.skip(tx, &group, SkipReason::Gone);
        };
        let depth = group.iter().map(|firing| firing.cause_depth).max().unwrap_or(0);
        let door =
            Admission { cause: Some(TriggerCause { run: cause, depth }), ..Admission::new(Origin::Event) };
        match admit(tx, self.executor, &agent, &door, &start) {
            Ok(run) => {
                self.capacity -= 1;
                self.done.admitted += 1;
                let kind = trigger.event.as_str();
                self.done.tally.add(kind, FiringOutcomeKind::Fired, 1);
                self.done.tally.add(kind, FiringOutcomeKind::Coalesced, group.len() - 1);
                self.settle(tx, &group, FiringStatus::Admitted, None, Some(run.id))
            }
            Err(error @ (Error::Store(_) | Error::Graph(_))) => Err(error),
            // An admission refuses before its first write: the rest of this transaction holds.
            Err(error) => {
                let why = error.to_string();
                self.done.tally.add(trigger.event.as_str(), FiringOutcomeKind::Refused, group.len());
                self.settle(tx, &group, FiringStatus::Refused, Some(&why), None)?;
                self.done.refusals.push(RefusedStart {
                    agent: agent.id,
                    name: agent.definition.name,
                    reason: why,
                });
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
    fn skip_reason(
        &self,
        tx: &mut Tx<'_>,
        trigger: &EventTrigger,
        firing: &Firing,
    ) -> Result<Option<SkipReason>> {
        let content = match &firing.fired {
            FiringCause::Event { event, entity, version, .. } if trigger.config.needs_content() => {
                event_context::content_at_version(tx, self.project, *event, *entity, *version)?
            }
            _ => None,
        };
        Ok(skip_reason(firing, trigger, content.as_ref()))
    }

    /// Everything that waits and shares a run with a firing, oldest first. What the trigger no longer
    /// asks for is skipped.
    fn group(&mut self, tx: &mut Tx<'_>, trigger: &EventTrigger, first: Firing) -> Result<Vec<Firing>> {
        let FiringCause::Event { entity, .. } = first.fired else { return Ok(vec![first]) };
        if trigger.config.window(trigger.event).is_zero() {
            return Ok(vec![first]);
        }
        let entity = match trigger.config.coalesce_by() {
            CoalesceBy::Object => Some(entity),
            CoalesceBy::Agent => None,
        };
        let mut misfits: HashMap<SkipReason, Vec<Firing>> = HashMap::new();
        let mut group = vec![first];
        for other in firings::list_pending(tx, self.project, trigger.agent, entity, MAX_COALESCED)? {
            if other.id == group[0].id {
                continue;
            }
            match self.skip_reason(tx, trigger, &other)? {
                Some(why) => misfits.entry(why).or_default().push(other),
                None => group.push(other),
            }
        }
        for (why, misfits) in misfits {
            self.skip(tx, &misfits, why)?;
        }
        // Of one object the version says which is newer, whatever the clocks of several servers say.
        group.sort_by_key(|firing| (entity.and(entity_version(firing)), firing.created_at, firing.id));
        Ok(group)
    }

    fn skip(&mut self, tx: &mut Tx<'_>, group: &[Firing], why: SkipReason) -> Result<()> {
        for firing in group {
            self.done.tally.add(firing_kind(&firing.fired), FiringOutcomeKind::Dropped, 1);
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

fn entity_version(firing: &Firing) -> Option<i64> {
    match firing.fired {
        FiringCause::Event { version, .. } => Some(version),
        FiringCause::Schedule { .. } => None,
    }
}
