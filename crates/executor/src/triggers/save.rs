//! Triggers change with what says them, in its transaction: an agent's definition, a product's job.

use emergent_domain::{
    agent::{Agent, Visibility},
    cron::Cron,
    ids::{AgentId, ScheduleId},
    invalid::Invalid,
    trigger::{EventConfig, EventKind, EventTrigger, Schedule, ScheduleConfig, TriggerSpec},
};
use emergent_graph::WriteContext;
use emergent_store::{Tx, agents, feed, schedules, triggers as rows};

use crate::{Error, Result};

/// A job of a product: an agent started by a schedule.
#[derive(Debug, Clone, PartialEq)]
pub struct JobRow {
    pub name: String,
    pub cron: String,
    pub agent: AgentId,
    pub config: ScheduleConfig,
}

/// Adds a job of a product, or changes the one of that name. A job that stays as it was keeps when
/// it is due next.
pub fn save_job(tx: &mut Tx<'_>, writer: &WriteContext, product: &str, job: &JobRow) -> Result<()> {
    let cron: Cron = job.cron.parse().map_err(|error| Invalid::new("cron", format!("{error}")))?;
    let agent =
        agents::get(tx, writer.project.id, job.agent)?.ok_or_else(|| Error::not_found("agent", job.agent))?;
    if agent.definition.visibility == Visibility::Internal {
        let why = format!(
            "`{}` is internal, and internal agents are started by others only",
            agent.definition.name
        );
        return Err(Invalid::new("agent", why).into());
    }
    let before = schedules::lock_job(tx, writer.project.id, product, &job.name)?;
    let wanted = ScheduleSpec {
        agent: job.agent,
        product: Some(product),
        name: &job.name,
        cron: &cron,
        config: &job.config,
    };
    upsert_schedule(tx, writer, before, &wanted)
}

/// Takes one job of a product away.
pub fn delete_job(tx: &mut Tx<'_>, writer: &WriteContext, product: &str, name: &str) -> Result<()> {
    if let Some(job) = schedules::lock_job(tx, writer.project.id, product, name)? {
        schedules::delete(tx, job.id)?;
        tx.wake(schedules::CHANGED_CHANNEL)?;
    }
    Ok(())
}

/// Takes all jobs of a product away.
pub fn delete_jobs(tx: &mut Tx<'_>, writer: &WriteContext, product: &str) -> Result<()> {
    if schedules::delete_jobs(tx, writer.project.id, product)? > 0 {
        tx.wake(schedules::CHANGED_CHANNEL)?;
    }
    Ok(())
}

/// Whether a trigger may be there already.
#[derive(Clone, Copy, PartialEq)]
enum Existing {
    /// Of a new agent there can be nothing to look for.
    Absent,
    MayExist,
}

/// Makes an agent's own trigger what its definition says. The caller holds the project.
pub(crate) fn save(tx: &mut Tx<'_>, writer: &WriteContext, agent: &Agent) -> Result<()> {
    let before = if agent.version == 1 { Existing::Absent } else { Existing::MayExist };
    save_with(tx, writer, agent, before)
}

/// As [`save`], of a definition that says what it said before: a schedule that was set aside, or
/// has no time to come any more, is taken up again.
pub(crate) fn resave(tx: &mut Tx<'_>, writer: &WriteContext, agent: &Agent) -> Result<()> {
    save_with(tx, writer, agent, Existing::MayExist)
}

fn save_with(tx: &mut Tx<'_>, writer: &WriteContext, agent: &Agent, before: Existing) -> Result<()> {
    // What is saved was checked; a definition from before there was a check may fire nothing.
    let wanted = match agent.deleted_at {
        None => TriggerSpec::from_definition(&agent.definition).unwrap_or_default(),
        Some(_) => None,
    };
    let (cron, event) = match wanted {
        Some(TriggerSpec::Schedule { cron, config }) => (Some((cron, config)), None),
        Some(TriggerSpec::Event { event, config }) => (None, Some((event, config))),
        None => (None, None),
    };
    save_schedule(tx, writer, agent, before, cron)?;
    save_event(tx, writer, agent, before, event)
}

fn save_schedule(
    tx: &mut Tx<'_>,
    writer: &WriteContext,
    agent: &Agent,
    before: Existing,
    wanted: Option<(Cron, ScheduleConfig)>,
) -> Result<()> {
    if agent.deleted_at.is_some() {
        // Jobs are their product's: whoever deletes an agent has seen to it that none is left behind.
        if let Some(own) = schedules::lock_agent_schedule(tx, agent.id)? {
            schedules::delete(tx, own.id)?;
            tx.wake(schedules::CHANGED_CHANNEL)?;
        }
        return Ok(());
    }
    let before = match before {
        Existing::Absent => None,
        Existing::MayExist => schedules::lock_agent_schedule(tx, agent.id)?,
    };
    match (wanted, before) {
        (None, None) => Ok(()),
        (None, Some(before)) => {
            schedules::delete(tx, before.id)?;
            Ok(tx.wake(schedules::CHANGED_CHANNEL)?)
        }
        (Some((cron, config)), before) => {
            let name = format!("agent:{}", agent.definition.name);
            let wanted =
                ScheduleSpec { agent: agent.id, product: None, name: &name, cron: &cron, config: &config };
            upsert_schedule(tx, writer, before, &wanted)
        }
    }
}

struct ScheduleSpec<'a> {
    agent: AgentId,
    product: Option<&'a str>,
    name: &'a str,
    cron: &'a Cron,
    config: &'a ScheduleConfig,
}

fn upsert_schedule(
    tx: &mut Tx<'_>,
    writer: &WriteContext,
    before: Option<Schedule>,
    wanted: &ScheduleSpec<'_>,
) -> Result<()> {
    let zone = wanted.config.check()?;
    let next_at = wanted.cron.next(writer.now, &zone);
    let now = writer.now;
    let next = Schedule {
        id: before.as_ref().map_or_else(ScheduleId::new, |before| before.id),
        project: writer.project.id,
        agent: wanted.agent,
        product: wanted.product.map(str::to_owned),
        name: wanted.name.to_owned(),
        cron: wanted.cron.to_string(),
        config: wanted.config.clone(),
        next_at,
        waiting_since: None,
        error: None,
        last_at: None,
        last_run: None,
        created_at: now,
        updated_at: now,
    };
    let Some(before) = before else {
        schedules::insert(tx, &next)?;
        return Ok(tx.wake(schedules::CHANGED_CHANNEL)?);
    };
    // A time that has come and was not looked at yet is not lost to a change of something else. One
    // that was set aside has none, and gets the next.
    let readable = before.error.is_none();
    let same_times = readable && before.cron == next.cron && before.config.time_zone == next.config.time_zone;
    let next = match same_times {
        true => Schedule { next_at: before.next_at.or(next_at), waiting_since: before.waiting_since, ..next },
        false => next,
    };
    let same = same_times
        && (before.agent, &before.name, &before.config, before.next_at)
            == (next.agent, &next.name, &next.config, next.next_at);
    if !same {
        schedules::update(tx, &next)?;
        tx.wake(schedules::CHANGED_CHANNEL)?;
    }
    Ok(())
}

fn save_event(
    tx: &mut Tx<'_>,
    writer: &WriteContext,
    agent: &Agent,
    before: Existing,
    wanted: Option<(EventKind, EventConfig)>,
) -> Result<()> {
    let project = writer.project.id;
    let before = match before {
        Existing::Absent => None,
        Existing::MayExist => rows::get(tx, agent.id)?,
    };
    let Some((event, config)) = wanted else {
        if before.is_some() {
            rows::lock_cursor(tx, project)?;
            rows::delete(tx, agent.id)?;
        }
        return Ok(());
    };
    if before.as_ref().is_some_and(|before| before.event == event && before.config == config) {
        return Ok(());
    }
    rows::lock_cursor(tx, project)?;
    if !rows::has_any(tx, project)? {
        // Nobody has read on since the last trigger went, if there ever was one.
        let latest = feed::latest(tx, project)?;
        rows::set_cursor(tx, project, latest)?;
    }
    let since = match before {
        // What it waits for has not changed: what is written but not read yet is still its own.
        Some(before) if before.event == event => before.since,
        _ => feed::current_start(tx)?,
    };
    rows::upsert(tx, &EventTrigger { agent: agent.id, project, event, config, since })?;
    Ok(tx.wake(schedules::CHANGED_CHANNEL)?)
}
