//! Fires triggers that start a workflow. Each firing is a transaction of its own: the workflow, the settled firing and
//! the next time of a schedule commit together. If a workflow is refused, everything that was written for it is rolled
//! back, and a second transaction records the reason. A server that dies between the two leaves the trigger due.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use emergent_domain::{
    ids::{AgentId, FiringId, ProjectId},
    time::Timestamp,
    trigger::{DueSchedule, EventTrigger, Firing, FiringCause, FiringStatus, Schedule, decide_schedule},
    workflow::{TriggerOrigin, WorkflowOrigin},
};
use emergent_store::{
    Tx, schedules,
    triggers::{self as rows, firings},
    workflows,
};

use super::{
    FiringOutcome, RefusedStart, SuspendedSchedule,
    fire::FiringPass,
    firing_counts::{FiringOutcomeKind, SCHEDULE},
    schedules::parse_rule,
    start_failure::{FiredTrigger, RefusedFiring, StartFailure},
};
use crate::{
    Error, Executor, Result,
    workflow_hooks::{TriggeredWorkflow, WorkflowHooks},
};

/// While a project has so many active workflows, its events start no more: they stay due.
const MAX_ACTIVE_WORKFLOWS: i64 = 1_000;

impl Executor {
    /// Starts the workflows of due schedules of all projects, at most `limit`, and returns how many schedules were
    /// handled.
    pub async fn fire_workflow_schedules(&self, limit: usize) -> Result<usize> {
        let Some(hooks) = self.workflow_hooks() else { return Ok(0) };
        let mut count = 0;
        while count < limit {
            let (hooks, now) = (Arc::clone(&hooks), self.clock().now());
            let fire = move |tx: &mut Tx<'_>| {
                let due = schedules::lock_due(tx, schedules::ScheduleTarget::Workflow, now, 1)?;
                match due.first() {
                    Some(schedule) => fire_schedule(tx, schedule, now, ScheduleStart::With(&hooks)),
                    None => Ok(FiringOutcome::default()),
                }
            };
            match self.report_outcome(self.fire_or_refuse(fire).await?)? {
                0 => break,
                handled => count += handled,
            }
        }
        Ok(count)
    }

    /// Starts the workflows of a project's due events, at most `limit`, and returns how many firings were settled.
    pub async fn fire_workflow_events(&self, project: ProjectId, limit: usize) -> Result<usize> {
        let Some(hooks) = self.workflow_hooks() else { return Ok(0) };
        let mut count = 0;
        while count < limit {
            let (executor, hooks, now) = (self.clone(), Arc::clone(&hooks), self.clock().now());
            let fire = move |tx: &mut Tx<'_>| {
                if rows::try_lock_cursor(tx, project)?.is_none() {
                    return Ok(FiringOutcome::default());
                }
                let own = rows::list_workflow_triggers(tx, project)?;
                if own.is_empty() || workflows::count_active_in(tx, project)? >= MAX_ACTIVE_WORKFLOWS {
                    return Ok(FiringOutcome::default());
                }
                let Some((first, trigger)) = lock_first_due(tx, project, &own, now)? else {
                    return Ok(FiringOutcome::default());
                };
                let mut pass = FiringPass::new(tx, &executor, project, vec![trigger], now)?;
                pass.start_workflow(tx, first, &hooks)?;
                Ok(pass.into_outcome())
            };
            match self.report_outcome(self.fire_or_refuse(fire).await?)? {
                0 => break,
                settled => count += settled,
            }
        }
        Ok(count)
    }

    /// Runs a transaction that fires a trigger. If its workflow is refused, another one records that.
    async fn fire_or_refuse<F>(&self, fire: F) -> Result<FiringOutcome>
    where
        F: Fn(&mut Tx<'_>) -> Result<FiringOutcome, StartFailure> + Send + Sync + 'static,
    {
        let refused = match self.db().write(fire).await {
            Ok(outcome) => return Ok(outcome),
            Err(StartFailure::Failed(error)) => return Err(error),
            Err(StartFailure::Refused(refused)) => refused,
        };
        let now = self.clock().now();
        let record = move |tx: &mut Tx<'_>| record_refusal(tx, &refused, now);
        match self.db().write(record).await {
            Ok(outcome) => Ok(outcome),
            Err(StartFailure::Failed(error)) => Err(error),
            Err(StartFailure::Refused(refused)) => Err(Error::Conflict(refused.reason)),
        }
    }
}

/// The longest due firing of these triggers that this version can read, with its locked trigger.
fn lock_first_due(
    tx: &mut Tx<'_>,
    project: ProjectId,
    triggers: &[AgentId],
    now: Timestamp,
) -> Result<Option<(Firing, EventTrigger)>> {
    let own: HashSet<AgentId> = triggers.iter().copied().collect();
    let mut due = firings::list_due_triggers(tx, project, now)?;
    due.retain(|trigger| own.contains(&trigger.agent));
    for trigger in due {
        let mut locked = rows::lock_readable(tx, &[trigger.agent])?.readable;
        let first = firings::list_due_of_triggers(tx, project, &[trigger], &HashMap::new(), now, 1)?.pop();
        if let Some(found) = first.zip(locked.pop()) {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

fn record_refusal(
    tx: &mut Tx<'_>,
    refused: &RefusedFiring,
    now: Timestamp,
) -> Result<FiringOutcome, StartFailure> {
    match &refused.what {
        FiredTrigger::Schedule(id) => match schedules::lock_if_due(tx, *id, now)? {
            Some(schedule) => fire_schedule(tx, &schedule, now, ScheduleStart::Refused(refused)),
            None => Ok(FiringOutcome::default()),
        },
        FiredTrigger::Events(ids) => {
            firings::settle(tx, ids, FiringStatus::Refused, Some(&refused.reason), None, now)?;
            let mut outcome = FiringOutcome { count: ids.len(), ..FiringOutcome::default() };
            outcome.refusals.push(refused_start(refused));
            Ok(outcome)
        }
    }
}

fn refused_start(refused: &RefusedFiring) -> RefusedStart {
    let name = format!("the workflow of {}", refused.name);
    RefusedStart { agent: refused.agent, name, reason: refused.reason.clone() }
}

/// What becomes of a due schedule that may fire.
enum ScheduleStart<'a> {
    With(&'a WorkflowHooks),
    /// Its workflow was refused.
    Refused(&'a RefusedFiring),
}

/// Inserts the firing of a due schedule, starts its workflow unless the firing is skipped, and sets the next time.
fn fire_schedule(
    tx: &mut Tx<'_>,
    schedule: &Schedule,
    now: Timestamp,
    start: ScheduleStart<'_>,
) -> Result<FiringOutcome, StartFailure> {
    let mut outcome = FiringOutcome { count: 1, ..FiringOutcome::default() };
    let rule = match parse_rule(schedule) {
        Ok(rule) => rule,
        Err(reason) => {
            schedules::suspend(tx, schedule.id, &reason)?;
            let (id, name) = (schedule.id, schedule.name.clone());
            outcome.suspended.push(SuspendedSchedule { id, name, reason });
            return Ok(outcome);
        }
    };
    let due = DueSchedule {
        cron: &rule.cron,
        zone: &rule.zone,
        missed: schedule.config.missed,
        // A due schedule always has a time.
        next_at: schedule.next_at.unwrap_or(now),
        waiting_since: schedule.waiting_since,
    };
    let step = decide_schedule(&due, workflows::has_active_for_schedule(tx, schedule.id)?, now);
    let firing = Firing {
        id: FiringId::new(),
        project: schedule.project,
        agent: schedule.agent,
        fired: FiringCause::Schedule { schedule: schedule.id, at: step.at },
        cause: None,
        cause_depth: 0,
        status: if step.skip.is_some() { FiringStatus::Skipped } else { FiringStatus::Pending },
        reason: step.skip.map(|reason| reason.as_str().to_owned()),
        run: None,
        workflow: None,
        trigger_name: Some(schedule.name.clone()),
        due_at: step.at,
        created_at: now,
        settled_at: step.skip.map(|_| now),
    };
    let is_new = firings::insert(tx, std::slice::from_ref(&firing))? == 1;
    let (true, None, Some(template)) = (is_new, step.skip, &schedule.dispatch) else {
        let kind = if is_new { FiringOutcomeKind::Dropped } else { FiringOutcomeKind::Deduplicated };
        outcome.tally.add(SCHEDULE, kind, 1);
        schedules::advance(tx, schedule.id, step.next_at, None)?;
        return Ok(outcome);
    };
    match start {
        ScheduleStart::With(hooks) => {
            let (id, name, at) = (schedule.id, schedule.name.clone(), step.at);
            let trigger = Some(TriggerOrigin::Schedule { schedule: id, name, at });
            let origin = WorkflowOrigin { trigger, ..WorkflowOrigin::default() };
            let new = TriggeredWorkflow { template: template.clone(), origin, event: None };
            let workflow = (hooks.start)(tx, schedule.project, &new).map_err(|error| {
                StartFailure::new(FiredTrigger::Schedule(id), schedule.agent, &schedule.name, error)
            })?;
            firings::settle_with_workflow(tx, &[firing.id], workflow, now)?;
            schedules::advance_with_workflow(tx, id, step.next_at, at, workflow)?;
            outcome.tally.add(SCHEDULE, FiringOutcomeKind::Fired, 1);
        }
        ScheduleStart::Refused(refused) => {
            let reason = Some(refused.reason.as_str());
            firings::settle(tx, &[firing.id], FiringStatus::Refused, reason, None, now)?;
            schedules::advance(tx, schedule.id, step.next_at, None)?;
            outcome.tally.add(SCHEDULE, FiringOutcomeKind::Refused, 1);
            outcome.refusals.push(refused_start(refused));
        }
    }
    Ok(outcome)
}
