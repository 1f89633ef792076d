//! Fires schedules: due schedules are locked, checked and started in one transaction. The row lock, the
//! unique key of a firing (schedule, time) and the unique active run of a schedule would each suffice
//! to prevent a double start. A schedule that cannot be read is suspended with the reason. Schedules
//! stay due while the run queue is full.

use emergent_domain::{
    cron::{Cron, CronError, Zone},
    ids::FiringId,
    run::{MAX_STEPS, Origin, Run},
    time::Timestamp,
    trigger::{DueSchedule, Firing, FiringCause, FiringStatus, Schedule, SkipReason, decide_schedule},
};
use emergent_store::{Tx, agents, schedules, triggers::firings};
use serde_json::{Value, json};

use super::{
    FiringOutcome, RefusedStart, SuspendedSchedule,
    firing_counts::{FiringOutcomeKind, SCHEDULE},
};
use crate::{
    Error, Executor, Result,
    admission::{Admission, admit},
    queue,
    start_options::StartOptions,
};

impl Executor {
    /// Fires the due schedules of all projects, at most `limit`, and returns how many there were.
    pub async fn fire_schedules(&self, limit: usize) -> Result<usize> {
        let (executor, now) = (self.clone(), self.clock().now());
        let fired = self.db().write(move |tx| {
            let due = schedules::lock_due(tx, schedules::ScheduleTarget::Agent, now, limit)?;
            let mut outcome = FiringOutcome::default();
            if due.is_empty() {
                return Ok(outcome);
            }
            let capacity = queue::free_queue_capacity(tx, executor.settings())?;
            for schedule in &due {
                if outcome.admitted == capacity {
                    // A schedule that is more than a minute late counts as missed, unless it was marked as
                    // waiting in time.
                    schedules::mark_waiting(tx, now)?;
                    outcome.full = Some(queue::QUEUE_LIMIT);
                    break;
                }
                match parse_rule(schedule) {
                    Ok(rule) => fire(tx, &executor, schedule, &rule, now, &mut outcome)?,
                    Err(reason) => {
                        schedules::suspend(tx, schedule.id, &reason)?;
                        outcome.suspended.push(SuspendedSchedule {
                            id: schedule.id,
                            name: schedule.name.clone(),
                            reason,
                        });
                    }
                }
                outcome.count += 1;
            }
            Ok::<_, Error>(outcome)
        });
        self.report_outcome(fired.await?)
    }
}

/// The times at which a schedule is due.
pub(super) struct ScheduleRule {
    pub cron: Cron,
    pub zone: Zone,
}

/// Parses the times of a schedule, or returns what is wrong with them. They were validated when the
/// schedule was saved, so an invalid row was written by a newer version or by someone else.
pub(super) fn parse_rule(schedule: &Schedule) -> Result<ScheduleRule, String> {
    if let Some(error) = &schedule.error {
        return Err(error.clone());
    }
    let cron = schedule
        .cron
        .parse()
        .map_err(|error: CronError| format!("its cron expression cannot be read: {error}"))?;
    let zone = schedule.config.check().map_err(|invalid| format!("its settings are invalid: {invalid}"))?;
    Ok(ScheduleRule { cron, zone })
}

/// Inserts the firing of a due schedule, starts its run unless the firing is skipped, and sets the next time.
fn fire(
    tx: &mut Tx<'_>,
    executor: &Executor,
    schedule: &Schedule,
    rule: &ScheduleRule,
    now: Timestamp,
    outcome: &mut FiringOutcome,
) -> Result<()> {
    let active = schedules::active_run(tx, schedule.id)?.is_some();
    let step = decide_schedule(
        &DueSchedule {
            cron: &rule.cron,
            zone: &rule.zone,
            missed: schedule.config.missed,
            // A due schedule always has a time.
            next_at: schedule.next_at.unwrap_or(now),
            waiting_since: schedule.waiting_since,
        },
        active,
        now,
    );
    let agent = agents::get(tx, schedule.project, schedule.agent)?;
    let skip = step.skip.or(if agent.is_none() { Some(SkipReason::Gone) } else { None });
    let firing = Firing {
        id: FiringId::new(),
        project: schedule.project,
        agent: schedule.agent,
        fired: FiringCause::Schedule { schedule: schedule.id, at: step.at },
        cause: None,
        cause_depth: 0,
        status: if skip.is_some() { FiringStatus::Skipped } else { FiringStatus::Pending },
        reason: skip.map(|reason| reason.as_str().to_owned()),
        run: None,
        workflow: None,
        trigger_name: None,
        due_at: step.at,
        created_at: now,
        settled_at: skip.map(|_| now),
    };
    let is_new = firings::insert(tx, std::slice::from_ref(&firing))? == 1;
    let (Some(agent), true, None) = (agent, is_new, skip) else {
        let kind = if is_new { FiringOutcomeKind::Dropped } else { FiringOutcomeKind::Deduplicated };
        outcome.tally.add(SCHEDULE, kind, 1);
        return Ok(schedules::advance(tx, schedule.id, step.next_at, None)?);
    };
    let admission = Admission { schedule: Some(schedule.id), ..Admission::new(Origin::Schedule) };
    let admitted = admit(tx, executor, &agent, &admission, &start_options(schedule, step.at));
    match admitted {
        Ok(Run { id, .. }) => {
            firings::settle(tx, &[firing.id], FiringStatus::Admitted, None, Some(id), now)?;
            schedules::advance(tx, schedule.id, step.next_at, Some((step.at, id)))?;
            outcome.admitted += 1;
            outcome.tally.add(SCHEDULE, FiringOutcomeKind::Fired, 1);
        }
        Err(error @ (Error::Store(_) | Error::Graph(_))) => return Err(error),
        // An admission refuses before its first write, so this transaction can still be committed.
        Err(error) => {
            let reason = error.to_string();
            firings::settle(tx, &[firing.id], FiringStatus::Refused, Some(&reason), None, now)?;
            schedules::advance(tx, schedule.id, step.next_at, None)?;
            outcome.tally.add(SCHEDULE, FiringOutcomeKind::Refused, 1);
            outcome.refusals.push(RefusedStart { agent: agent.id, name: agent.definition.name, reason });
        }
    }
    Ok(())
}

/// Returns the input of the agent.
fn start_options(schedule: &Schedule, at: Timestamp) -> StartOptions {
    let config = &schedule.config;
    let input = config.input.clone().unwrap_or_else(|| {
        format!("It is time: the schedule `{}` (`{}`) came due at {at}.", schedule.name, schedule.cron)
    });
    let schedule_info = json!({
        "name": schedule.name, "cron": schedule.cron, "timeZone": config.time_zone, "scheduledAt": at,
    });
    let context = match config.context.clone() {
        Some(Value::Object(mut context)) => {
            context.entry("schedule").or_insert(schedule_info);
            Value::Object(context)
        }
        Some(context) => json!({ "schedule": schedule_info, "context": context }),
        None => json!({ "schedule": schedule_info }),
    };
    StartOptions {
        input,
        context: Some(context),
        // A limit that was stored before there was a maximum may exceed it.
        max_steps: config.max_steps.map(|steps| steps.min(MAX_STEPS)),
        timeout_seconds: config.timeout_seconds,
        ..StartOptions::default()
    }
}
