//! Starts the runs of due event firings. Each firing is checked against the current settings of its trigger,
//! and firings that share a run are coalesced. The server that fires locks the project's cursor; other
//! servers skip the project. If the run queue is full, or as many runs of a trigger are unfinished as its limit
//! allows, firings stay due, in their order.

use std::{
    collections::{HashMap, HashSet, hash_map::Entry},
    vec::IntoIter,
};

use emergent_domain::{
    agent::Agent,
    ids::{AgentId, FiringId, ProjectId, RunId},
    run::Origin,
    time::Timestamp,
    trigger::{
        CoalesceBy, EventTrigger, Firing, FiringCause, FiringStatus, SkipReason, needs_content, skip_reason,
    },
    workflow::{TriggerOrigin, WorkflowOrigin},
};
use emergent_store::{
    Tx, agents,
    triggers::{self as rows, firings},
};

use super::{
    FiringOutcome, RefusedStart,
    concurrency::FreePlaces,
    due_triggers::DueAgents,
    event_context::{self, MAX_CONTENT_BYTES},
    firing_counts::{FiringOutcomeKind, firing_kind},
    start_failure::{FiredTrigger, StartFailure},
};
use crate::{
    Error, Executor, Result,
    admission::{Admission, TriggerCause, admit},
    queue,
    start_options::StartOptions,
    workflow_hooks::{TriggeredWorkflow, WorkflowHooks},
};

/// The maximum number of firings that share one run.
const MAX_COALESCED: usize = 1_000;

impl Executor {
    /// Starts the runs of a project's due firings, at most `limit` firings, and returns how many were
    /// settled.
    pub async fn fire_events(&self, project: ProjectId, limit: usize) -> Result<usize> {
        let (executor, now) = (self.clone(), self.clock().now());
        let fired = self.db().write(move |tx| {
            if rows::try_lock_cursor(tx, project)?.is_none() {
                return Ok(FiringOutcome::default());
            }
            let DueAgents { firings: due, triggers, places } = DueAgents::lock(tx, project, now, limit)?;
            if due.is_empty() {
                return Ok(FiringOutcome::default());
            }
            let mut pass = FiringPass { places, ..FiringPass::new(tx, &executor, project, triggers, now)? };
            // How many more firings may follow others that were skipped.
            let mut replacements = limit;
            for firing in due {
                let agent = firing.agent;
                let mut next = match pass.places.get(agent) {
                    Some(_) => pass.next_in_turn(tx, agent, limit)?,
                    None => Some(firing).filter(|firing| !pass.settled.contains(&firing.id)),
                };
                while let Some(firing) = next.take() {
                    if pass.capacity.free == 0 {
                        pass.outcome.full = Some(pass.capacity.limit);
                    }
                    if pass.capacity.free == 0 || pass.content_bytes >= MAX_CONTENT_BYTES {
                        return Ok::<_, Error>(pass.into_outcome());
                    }
                    let admitted = pass.outcome.admitted;
                    pass.fire(tx, firing)?;
                    // A trigger with a limit has no more due firings here than free places. One that is skipped leaves
                    // its place to the next.
                    if pass.outcome.admitted == admitted
                        && pass.places.get(agent).is_some()
                        && replacements > 0
                    {
                        replacements -= 1;
                        next = pass.next_in_turn(tx, agent, limit)?;
                    }
                }
            }
            Ok(pass.into_outcome())
        });
        self.report_outcome(fired.await?)
    }
}

/// The state of one transaction that fires events.
pub(super) struct FiringPass<'a> {
    executor: &'a Executor,
    project: ProjectId,
    now: Timestamp,
    /// The triggers by agent. They are locked, so none changes before the commit.
    triggers: HashMap<AgentId, EventTrigger>,
    /// Agents that were loaded already.
    agents: HashMap<AgentId, Option<Agent>>,
    /// How many more runs may be queued.
    capacity: queue::ProjectCapacity,
    /// How many more runs the triggers with a limit may start.
    places: FreePlaces,
    /// The next firings of the triggers with a limit, in the order of their events. Each list is read once, because
    /// many events may wait.
    turns: HashMap<AgentId, IntoIter<Firing>>,
    settled: HashSet<FiringId>,
    /// How many bytes of content were read for the conditions of triggers.
    content_bytes: usize,
    outcome: FiringOutcome,
}

impl<'a> FiringPass<'a> {
    pub(super) fn new(
        tx: &mut Tx<'_>,
        executor: &'a Executor,
        project: ProjectId,
        triggers: Vec<EventTrigger>,
        now: Timestamp,
    ) -> Result<Self> {
        Ok(Self {
            executor,
            project,
            now,
            triggers: triggers.into_iter().map(|trigger| (trigger.agent, trigger)).collect(),
            agents: HashMap::new(),
            capacity: queue::free_project_capacity(tx, executor.settings(), project)?,
            places: FreePlaces::default(),
            turns: HashMap::new(),
            settled: HashSet::new(),
            content_bytes: 0,
            outcome: FiringOutcome::default(),
        })
    }

    /// Returns the firing of a trigger with a limit whose event happened first. `None` if the trigger may start no more
    /// runs now.
    fn next_in_turn(&mut self, tx: &mut Tx<'_>, agent: AgentId, limit: usize) -> Result<Option<Firing>> {
        if self.places.get(agent).is_none_or(|free| free <= 0) {
            return Ok(None);
        }
        let turns = match self.turns.entry(agent) {
            Entry::Occupied(read) => read.into_mut(),
            Entry::Vacant(unread) => {
                unread.insert(firings::list_first_due(tx, agent, self.now, limit)?.into_iter())
            }
        };
        let settled = &self.settled;
        Ok(turns.find(|firing| !settled.contains(&firing.id)))
    }

    /// What the transaction did.
    pub(super) fn into_outcome(self) -> FiringOutcome {
        FiringOutcome { count: self.settled.len(), ..self.outcome }
    }

    /// Starts one workflow for a firing and for the firings that share it.
    pub(super) fn start_workflow(
        &mut self,
        tx: &mut Tx<'_>,
        first: Firing,
        hooks: &WorkflowHooks,
    ) -> Result<(), StartFailure> {
        let trigger = self.triggers.get(&first.agent).cloned();
        let Some((trigger, template)) =
            trigger.and_then(|trigger| trigger.dispatch.clone().map(|template| (trigger, template)))
        else {
            return Ok(self.skip(tx, &[first], SkipReason::Changed)?);
        };
        let bytes_before = self.content_bytes;
        if let Some(reason) = self.skip_reason(tx, &trigger, &first)? {
            return Ok(self.skip(tx, &[first], reason)?);
        }
        let group = self.group(tx, &trigger, first, bytes_before)?;
        let Some((start, firing)) = newest_start(tx, &trigger, &group)? else {
            return Ok(self.skip(tx, &group, SkipReason::Gone)?);
        };
        let FiringCause::Event { event, entity, entity_type, version, .. } = firing.fired.clone() else {
            return Ok(self.skip(tx, &group, SkipReason::Changed)?);
        };
        let name = trigger.name.clone().unwrap_or_default();
        let origin = WorkflowOrigin {
            trigger: Some(TriggerOrigin::Event { name: name.clone(), event, entity, entity_type, version }),
            cause: firing.cause,
            cause_depth: group.iter().map(|firing| firing.cause_depth).max().unwrap_or(0),
            traceparent: None,
        };
        let event = Some(format!("{} (id `{entity}`, version {version}, event `{event}`)", start.input));
        let ids: Vec<FiringId> = group.iter().map(|firing| firing.id).collect();
        let new = TriggeredWorkflow { template, origin, event };
        let workflow = (hooks.start)(tx, self.project, &new).map_err(|error| {
            StartFailure::new(FiredTrigger::Events(ids.clone()), trigger.agent, &name, error)
        })?;
        firings::settle_with_workflow(tx, &ids, workflow, self.now)?;
        let kind = trigger.event.as_str();
        self.outcome.tally.add(kind, FiringOutcomeKind::Fired, 1);
        self.outcome.tally.add(kind, FiringOutcomeKind::Coalesced, group.len() - 1);
        self.settled.extend(ids);
        Ok(())
    }

    /// Starts one run for a firing and for the firings that share it.
    fn fire(&mut self, tx: &mut Tx<'_>, first: Firing) -> Result<()> {
        let Some(agent) = self.agent(tx, first.agent)? else {
            return self.skip(tx, &[first], SkipReason::Gone);
        };
        let Some(trigger) = self.triggers.get(&first.agent).cloned() else {
            return self.skip(tx, &[first], SkipReason::Changed);
        };
        let bytes_before = self.content_bytes;
        if let Some(reason) = self.skip_reason(tx, &trigger, &first)? {
            return self.skip(tx, &[first], reason);
        }
        let group = self.group(tx, &trigger, first, bytes_before)?;
        let Some((start, cause)) =
            newest_start(tx, &trigger, &group)?.map(|(start, firing)| (start, firing.cause))
        else {
            return self.skip(tx, &group, SkipReason::Gone);
        };
        let depth = group.iter().map(|firing| firing.cause_depth).max().unwrap_or(0);
        let admission =
            Admission { cause: Some(TriggerCause { run: cause, depth }), ..Admission::new(Origin::Event) };
        match admit(tx, self.executor, &agent, &admission, &start) {
            Ok(run) => {
                self.capacity.free -= 1;
                self.places.take(agent.id);
                self.outcome.admitted += 1;
                let kind = trigger.event.as_str();
                self.outcome.tally.add(kind, FiringOutcomeKind::Fired, 1);
                self.outcome.tally.add(kind, FiringOutcomeKind::Coalesced, group.len() - 1);
                self.settle(tx, &group, FiringStatus::Admitted, None, Some(run.id))
            }
            Err(error @ (Error::Store(_) | Error::Graph(_))) => Err(error),
            // An admission refuses before its first write, so this transaction can still be committed.
            Err(error) => {
                let reason = error.to_string();
                self.outcome.tally.add(trigger.event.as_str(), FiringOutcomeKind::Refused, group.len());
                self.settle(tx, &group, FiringStatus::Refused, Some(&reason), None)?;
                self.outcome.refusals.push(RefusedStart {
                    agent: agent.id,
                    name: agent.definition.name,
                    reason,
                });
                Ok(())
            }
        }
    }

    /// Loads an agent once per transaction; `None` if it was deleted.
    fn agent(&mut self, tx: &mut Tx<'_>, id: AgentId) -> Result<Option<Agent>> {
        if let Some(cached) = self.agents.get(&id) {
            return Ok(cached.clone());
        }
        let agent = agents::get(tx, self.project, id)?;
        self.agents.insert(id, agent.clone());
        Ok(agent)
    }

    /// Returns the reason why the trigger, with its current settings, rejects a firing.
    fn skip_reason(
        &mut self,
        tx: &mut Tx<'_>,
        trigger: &EventTrigger,
        firing: &Firing,
    ) -> Result<Option<SkipReason>> {
        let content = match &firing.fired {
            FiringCause::Event { event, entity, entity_type, version, .. }
                if needs_content(trigger, *event, entity_type) =>
            {
                event_context::content_at_version(tx, self.project, *event, *entity, *version)?
            }
            _ => None,
        };
        self.content_bytes += content.as_ref().map_or(0, |content| content.bytes);
        Ok(skip_reason(firing, trigger, content.map(|content| content.content).as_ref()))
    }

    /// Returns the pending firings that share a run with `first`, oldest first. Firings that the trigger no
    /// longer accepts are skipped. If the content of the firings is large, the rest of them share a later run. What was
    /// read for `first` was counted after `bytes_before`; what was read for other groups says nothing about this one.
    fn group(
        &mut self,
        tx: &mut Tx<'_>,
        trigger: &EventTrigger,
        first: Firing,
        bytes_before: usize,
    ) -> Result<Vec<Firing>> {
        let FiringCause::Event { entity, .. } = first.fired else { return Ok(vec![first]) };
        if trigger.config.window(trigger.event).is_zero() {
            return Ok(vec![first]);
        }
        let entity = match trigger.config.coalesce_by() {
            CoalesceBy::Object => Some(entity),
            CoalesceBy::Agent => None,
        };
        let mut rejected: HashMap<SkipReason, Vec<Firing>> = HashMap::new();
        let mut group = vec![first];
        for other in firings::list_pending(tx, self.project, trigger.agent, entity, MAX_COALESCED)? {
            if other.id == group[0].id {
                continue;
            }
            if self.content_bytes - bytes_before >= MAX_CONTENT_BYTES {
                break;
            }
            match self.skip_reason(tx, trigger, &other)? {
                Some(reason) => rejected.entry(reason).or_default().push(other),
                None => group.push(other),
            }
        }
        for (reason, rejected) in rejected {
            self.skip(tx, &rejected, reason)?;
        }
        // For a single object the version says which change is newer, even if the clocks of several servers
        // differ.
        group.sort_by_key(|firing| (entity.and(entity_version(firing)), firing.created_at, firing.id));
        Ok(group)
    }

    fn skip(&mut self, tx: &mut Tx<'_>, group: &[Firing], reason: SkipReason) -> Result<()> {
        for firing in group {
            self.outcome.tally.add(firing_kind(&firing.fired), FiringOutcomeKind::Dropped, 1);
        }
        self.settle(tx, group, FiringStatus::Skipped, Some(reason.as_str()), None)
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

/// How a group of firings is started: about the newest change, unless its entity was deleted meanwhile.
fn newest_start<'g>(
    tx: &mut Tx<'_>,
    trigger: &EventTrigger,
    group: &'g [Firing],
) -> Result<Option<(StartOptions, &'g Firing)>> {
    for firing in group.iter().rev() {
        if let Some(start) = event_context::start_options(tx, trigger, firing, group)? {
            return Ok(Some((start, firing)));
        }
    }
    Ok(None)
}

fn entity_version(firing: &Firing) -> Option<i64> {
    match firing.fired {
        FiringCause::Event { version, .. } => Some(version),
        FiringCause::Schedule { .. } => None,
    }
}
