//! Schedules: those that are due are held, looked at, and started, all in one transaction. That
//! the row is held, that a firing is unique by (schedule, time) and that a live run is unique by
//! schedule would each be enough alone. One that nobody can go by is set aside, and says why; those
//! there is no room for stay due.

use emergent_domain::{
    cron::{Cron, CronError, Zone},
    ids::FiringId,
    run::{Origin, Run},
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
    admission::{Admission, StartOptions, admit},
    queue,
};

impl Executor {
    /// Fires the schedules of all projects whose time has come, `limit` at most; how many there
    /// were.
    pub async fn fire_schedules(&self, limit: usize) -> Result<usize> {
        let (executor, now) = (self.clone(), self.clock().now());
        let fired = self.db().write(move |tx| {
            let due = schedules::lock_due(tx, now, limit)?;
            let mut done = FiringOutcome::default();
            if due.is_empty() {
                return Ok(done);
            }
            let room = queue::free_queue_capacity(tx, executor.settings().max_queued)?;
            for schedule in &due {
                if done.admitted == room {
                    // Later than a minute is missed, unless somebody looked in time.
                    schedules::mark_waiting(tx, now)?;
                    done.full = true;
                    break;
                }
                match parse_rule(schedule) {
                    Ok(rule) => fire(tx, &executor, schedule, &rule, now, &mut done)?,
                    Err(why) => {
                        schedules::suspend(tx, schedule.id, &why)?;
                        done.suspended.push(SuspendedSchedule {
                            id: schedule.id,
                            name: schedule.name.clone(),
                            reason: why,
                        });
                    }
                }
                done.count += 1;
            }
            Ok::<_, Error>(done)
        });
        self.report_outcome(fired.await?)
    }
}

/// When a schedule comes due.
struct ScheduleRule {
    cron: Cron,
    zone: Zone,
}

/// What a schedule goes by, or what is wrong with it. Everything was checked when it was saved:
/// somebody else wrote such a row, or a newer program.
fn parse_rule(schedule: &Schedule) -> Result<ScheduleRule, String> {
    if let Some(error) = &schedule.error {
        return Err(error.clone());
    }
    let cron = schedule
        .cron
        .parse()
        .map_err(|error: CronError| format!("its cron expression cannot be read: {error}"))?;
    let zone = schedule.config.check().map_err(|invalid| format!("its settings are wrong: {invalid}"))?;
    Ok(ScheduleRule { cron, zone })
}

fn fire(
    tx: &mut Tx<'_>,
    executor: &Executor,
    schedule: &Schedule,
    rule: &ScheduleRule,
    now: Timestamp,
    done: &mut FiringOutcome,
) -> Result<()> {
    let live = schedules::active_run(tx, schedule.id)?.is_some();
    let step = decide_schedule(
        &DueSchedule {
            cron: &rule.cron,
            zone: &rule.zone,
            missed: schedule.config.missed,
            // It is due, so it has a time.
            next_at: schedule.next_at.unwrap_or(now),
            waiting_since: schedule.waiting_since,
        },
        live,
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
        reason: skip.map(|why| why.as_str().to_owned()),
        run: None,
        due_at: step.at,
        created_at: now,
        settled_at: skip.map(|_| now),
    };
    let new = firings::insert(tx, std::slice::from_ref(&firing))? == 1;
    let (Some(agent), true, None) = (agent, new, skip) else {
        let outcome = if new { FiringOutcomeKind::Dropped } else { FiringOutcomeKind::Deduplicated };
        done.tally.add(SCHEDULE, outcome, 1);
        return Ok(schedules::advance(tx, schedule.id, step.next_at, None)?);
    };
    let door = Admission { schedule: Some(schedule.id), ..Admission::new(Origin::Schedule) };
    let admitted = admit(tx, executor, &agent, &door, &start_options(schedule, step.at));
    match admitted {
        Ok(Run { id, .. }) => {
            firings::settle(tx, &[firing.id], FiringStatus::Admitted, None, Some(id), now)?;
            schedules::advance(tx, schedule.id, step.next_at, Some((step.at, id)))?;
            done.admitted += 1;
            done.tally.add(SCHEDULE, FiringOutcomeKind::Fired, 1);
        }
        Err(error @ (Error::Store(_) | Error::Graph(_))) => return Err(error),
        // An admission refuses before its first write: the rest of this transaction holds.
        Err(error) => {
            let why = error.to_string();
            firings::settle(tx, &[firing.id], FiringStatus::Refused, Some(&why), None, now)?;
            schedules::advance(tx, schedule.id, step.next_at, None)?;
            done.tally.add(SCHEDULE, FiringOutcomeKind::Refused, 1);
            done.refusals.push(RefusedStart { agent: agent.id, name: agent.definition.name, reason: why });
        }
    }
    Ok(())
}

/// What the agent is told.
fn start_options(schedule: &Schedule, at: Timestamp) -> StartOptions {
    let config = &schedule.config;
    let input = config.input.clone().unwrap_or_else(|| {
        format!("It is time: the schedule `{}` (`{}`) came due at {at}.", schedule.name, schedule.cron)
    });
    let about = json!({
        "name": schedule.name, "cron": schedule.cron, "timeZone": config.time_zone, "scheduledAt": at,
    });
    let context = match config.context.clone() {
        Some(Value::Object(mut context)) => {
            context.entry("schedule").or_insert(about);
            Value::Object(context)
        }
        Some(context) => json!({ "schedule": about, "context": context }),
        None => json!({ "schedule": about }),
    };
    StartOptions {
        input,
        context: Some(context),
        model: None,
        max_steps: config.max_steps,
        timeout_seconds: config.timeout_seconds,
    }
}
