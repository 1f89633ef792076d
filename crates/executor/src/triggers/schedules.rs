//! Schedules: those that are due are held, looked at, and started, all in one transaction. That
//! the row is held, that a firing is unique by (schedule, time) and that a live run is unique by
//! schedule would each be enough alone.

use emergent_domain::{
    cron::Cron,
    ids::FiringId,
    run::{Origin, Run},
    time::Timestamp,
    trigger::{Due, Fired, Firing, FiringStatus, Schedule, Why, due},
};
use emergent_store::{Tx, agents, schedules, triggers::firings};
use serde_json::{Value, json};

use super::Refusal;
use crate::{
    Error, Executor, Result,
    admit::{Door, Start, admit},
};

impl Executor {
    /// Fires the schedules of all projects whose time has come, `limit` at most; how many there
    /// were.
    pub async fn fire_schedules(&self, limit: usize) -> Result<usize> {
        self.refuse_when_full().await?;
        let (executor, now) = (self.clone(), self.clock().now());
        let fired = self.db().write(move |tx| {
            let due = schedules::due(tx, now, limit)?;
            let mut refusals = Vec::new();
            for schedule in &due {
                refusals.extend(fire(tx, &executor, schedule, now)?);
            }
            Ok::<_, Error>((due.len(), refusals))
        });
        let (count, refusals) = fired.await?;
        self.tell_of(refusals);
        Ok(count)
    }
}

fn fire(
    tx: &mut Tx<'_>,
    executor: &Executor,
    schedule: &Schedule,
    now: Timestamp,
) -> Result<Option<Refusal>> {
    let (Ok(cron), Ok(zone), Some(next_at)) =
        (schedule.cron.parse::<Cron>(), schedule.config.check(), schedule.next_at)
    else {
        // Both were checked when they were saved: somebody else wrote this row.
        schedules::advance(tx, schedule.id, None, None)?;
        let why = format!("the schedule `{}` cannot be read: save it again", schedule.name);
        return Ok(Some(Refusal { agent: schedule.agent, name: schedule.name.clone(), why }));
    };
    let live = schedules::live_run(tx, schedule.id)?.is_some();
    let step = due(&Due { cron: &cron, zone: &zone, missed: schedule.config.missed, next_at }, live, now);
    let agent = agents::get(tx, schedule.project, schedule.agent)?;
    let skip = step.skip.or(if agent.is_none() { Some(Why::Gone) } else { None });
    let firing = Firing {
        id: FiringId::new(),
        project: schedule.project,
        agent: schedule.agent,
        fired: Fired::Schedule { schedule: schedule.id, at: step.at },
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
        schedules::advance(tx, schedule.id, step.next_at, None)?;
        return Ok(None);
    };
    let door = Door { schedule: Some(schedule.id), ..Door::new(Origin::Schedule) };
    let admitted = admit(tx, executor, &agent, &door, &start(schedule, step.at));
    match admitted {
        Ok(Run { id, .. }) => {
            firings::settle(tx, &[firing.id], FiringStatus::Admitted, None, Some(id), now)?;
            schedules::advance(tx, schedule.id, step.next_at, Some((step.at, id)))?;
            Ok(None)
        }
        Err(error @ (Error::Store(_) | Error::Graph(_))) => Err(error),
        // An admission refuses before its first write: the rest of this transaction holds.
        Err(error) => {
            let why = error.to_string();
            firings::settle(tx, &[firing.id], FiringStatus::Refused, Some(&why), None, now)?;
            schedules::advance(tx, schedule.id, step.next_at, None)?;
            Ok(Some(Refusal { agent: agent.id, name: agent.definition.name, why }))
        }
    }
}

/// What the agent is told.
fn start(schedule: &Schedule, at: Timestamp) -> Start {
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
    Start {
        input,
        context: Some(context),
        model: None,
        max_steps: config.max_steps,
        timeout_seconds: config.timeout_seconds,
    }
}
