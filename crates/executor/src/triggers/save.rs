//! Saves triggers together with the agent definition or the product job that declares them, in the same
//! transaction.

use emergent_domain::{
    agent::{Agent, Visibility},
    cron::Cron,
    ids::{AgentId, ScheduleId},
    invalid::Invalid,
    trigger::{EventConfig, EventKind, EventTrigger, FeedStart, Schedule, ScheduleConfig, TriggerSpec},
    workflow_template::WorkflowTemplate,
};
use emergent_graph::WriteContext;
use emergent_store::{Tx, agents, feed, schedules, triggers as rows};

use crate::{Error, Result};

/// A job of a product: a schedule that starts an agent.
#[derive(Debug, Clone, PartialEq)]
pub struct JobRow {
    pub name: String,
    pub cron: String,
    pub agent: AgentId,
    pub config: ScheduleConfig,
}

/// Adds a job of a product, or changes the existing job of that name. An unchanged job keeps its next
/// due time.
pub fn save_job(tx: &mut Tx<'_>, ctx: &WriteContext, product: &str, job: &JobRow) -> Result<()> {
    let cron: Cron = job.cron.parse().map_err(|error| Invalid::new("cron", format!("{error}")))?;
    let agent =
        agents::get(tx, ctx.project.id, job.agent)?.ok_or_else(|| Error::not_found("agent", job.agent))?;
    if agent.definition.visibility == Visibility::Internal {
        let reason = format!("`{}` is internal: only other agents can start it", agent.definition.name);
        return Err(Invalid::new("agent", reason).into());
    }
    let existing = schedules::lock_job(tx, ctx.project.id, product, &job.name)?;
    // The job may have started a workflow at an event before.
    delete_event_trigger(tx, ctx, product, &job.name)?;
    let spec = ScheduleSpec {
        agent: Some(job.agent),
        dispatch: None,
        product: Some(product),
        name: &job.name,
        cron: &cron,
        config: &job.config,
    };
    upsert_schedule(tx, ctx, existing, &spec)
}

/// Deletes one job of a product.
pub fn delete_job(tx: &mut Tx<'_>, ctx: &WriteContext, product: &str, name: &str) -> Result<()> {
    delete_event_trigger(tx, ctx, product, name)?;
    if let Some(job) = schedules::lock_job(tx, ctx.project.id, product, name)? {
        schedules::delete(tx, job.id)?;
        tx.wake(schedules::CHANGED_CHANNEL)?;
    }
    Ok(())
}

/// Deletes all jobs of a product.
pub fn delete_jobs(tx: &mut Tx<'_>, ctx: &WriteContext, product: &str) -> Result<()> {
    let events = rows::delete_for_product(tx, ctx.project.id, product)?;
    if schedules::delete_jobs(tx, ctx.project.id, product)? + events > 0 {
        tx.wake(schedules::CHANGED_CHANNEL)?;
    }
    Ok(())
}

/// Whether the agent may have a trigger already.
#[derive(Clone, Copy, PartialEq)]
enum Existing {
    /// A new agent cannot have a trigger, so no lookup is needed.
    Absent,
    MayExist,
}

/// Saves an agent's own trigger as its definition declares it. The caller has locked the project.
pub(crate) fn save(tx: &mut Tx<'_>, ctx: &WriteContext, agent: &Agent) -> Result<()> {
    let existing = if agent.version == 1 { Existing::Absent } else { Existing::MayExist };
    save_with(tx, ctx, agent, existing)
}

/// Like [`save`], for an unchanged definition: a schedule that was suspended, or that has no next time
/// any more, is activated again. The caller has checked that somebody asked for that.
pub(crate) fn resave(tx: &mut Tx<'_>, ctx: &WriteContext, agent: &Agent) -> Result<()> {
    save_with(tx, ctx, agent, Existing::MayExist)
}

fn save_with(tx: &mut Tx<'_>, ctx: &WriteContext, agent: &Agent, existing: Existing) -> Result<()> {
    // Definitions are validated when they are saved. An older one that was saved before this validation
    // existed may declare no valid trigger.
    let spec = match agent.deleted_at {
        None => TriggerSpec::from_definition(&agent.definition).unwrap_or_default(),
        Some(_) => None,
    };
    let (cron, event) = match spec {
        Some(TriggerSpec::Schedule { cron, config }) => (Some((cron, config)), None),
        Some(TriggerSpec::Event { event, config }) => (None, Some((event, config))),
        None => (None, None),
    };
    save_schedule(tx, ctx, agent, existing, cron)?;
    save_event(tx, ctx, agent, existing, event)
}

fn save_schedule(
    tx: &mut Tx<'_>,
    ctx: &WriteContext,
    agent: &Agent,
    existing: Existing,
    spec: Option<(Cron, ScheduleConfig)>,
) -> Result<()> {
    if agent.deleted_at.is_some() {
        // Jobs belong to their product, and the caller has checked that no job starts this agent.
        if let Some(schedule) = schedules::lock_agent_schedule(tx, agent.id)? {
            schedules::delete(tx, schedule.id)?;
            tx.wake(schedules::CHANGED_CHANNEL)?;
        }
        return Ok(());
    }
    let existing = match existing {
        Existing::Absent => None,
        Existing::MayExist => schedules::lock_agent_schedule(tx, agent.id)?,
    };
    match (spec, existing) {
        (None, None) => Ok(()),
        (None, Some(existing)) => {
            schedules::delete(tx, existing.id)?;
            Ok(tx.wake(schedules::CHANGED_CHANNEL)?)
        }
        (Some((cron, config)), existing) => {
            let name = format!("agent:{}", agent.definition.name);
            let spec = ScheduleSpec {
                agent: Some(agent.id),
                dispatch: None,
                product: None,
                name: &name,
                cron: &cron,
                config: &config,
            };
            upsert_schedule(tx, ctx, existing, &spec)
        }
    }
}

/// A schedule as an agent, a product job or a person declares it.
pub(super) struct ScheduleSpec<'a> {
    /// `None` if it starts a workflow.
    pub agent: Option<AgentId>,
    pub dispatch: Option<&'a WorkflowTemplate>,
    pub product: Option<&'a str>,
    pub name: &'a str,
    pub cron: &'a Cron,
    pub config: &'a ScheduleConfig,
}

/// Inserts or updates a schedule. `existing` is locked.
pub(super) fn upsert_schedule(
    tx: &mut Tx<'_>,
    ctx: &WriteContext,
    existing: Option<Schedule>,
    spec: &ScheduleSpec<'_>,
) -> Result<()> {
    let zone = spec.config.check()?;
    // A schedule that a person paused stays paused when it is saved again, and has no next time.
    let paused_at = existing.as_ref().and_then(|existing| existing.paused_at);
    let next_at = if paused_at.is_none() { spec.cron.next(ctx.now, &zone) } else { None };
    let now = ctx.now;
    let id = existing.as_ref().map_or_else(ScheduleId::new, |existing| existing.id);
    let next = Schedule {
        id,
        project: ctx.project.id,
        agent: spec.agent.unwrap_or(AgentId(id.0)),
        dispatch: spec.dispatch.cloned(),
        product: spec.product.map(str::to_owned),
        name: spec.name.to_owned(),
        cron: spec.cron.to_string(),
        config: spec.config.clone(),
        next_at,
        waiting_since: None,
        paused_at,
        error: None,
        last_at: None,
        last_run: None,
        last_workflow: None,
        created_at: now,
        updated_at: now,
    };
    let Some(existing) = existing else {
        schedules::insert(tx, &next)?;
        return Ok(tx.wake(schedules::CHANGED_CHANNEL)?);
    };
    // A due time that was not handled yet must survive a change of other settings. A suspended schedule has
    // no due time, and gets the next one.
    let was_active = existing.error.is_none();
    let same_times =
        was_active && existing.cron == next.cron && existing.config.time_zone == next.config.time_zone;
    let next = match same_times {
        true => {
            Schedule { next_at: existing.next_at.or(next_at), waiting_since: existing.waiting_since, ..next }
        }
        false => next,
    };
    let is_unchanged = same_times
        && (existing.agent, &existing.name, &existing.config, existing.next_at, &existing.dispatch)
            == (next.agent, &next.name, &next.config, next.next_at, &next.dispatch);
    if !is_unchanged {
        schedules::update(tx, &next)?;
        tx.wake(schedules::CHANGED_CHANNEL)?;
    }
    Ok(())
}

fn save_event(
    tx: &mut Tx<'_>,
    ctx: &WriteContext,
    agent: &Agent,
    existing: Existing,
    spec: Option<(EventKind, EventConfig)>,
) -> Result<()> {
    let project = ctx.project.id;
    let existing = match existing {
        Existing::Absent => None,
        Existing::MayExist => rows::get(tx, agent.id)?,
    };
    let Some((event, config)) = spec else {
        if existing.is_some() {
            rows::lock_cursor(tx, project)?;
            rows::delete(tx, agent.id)?;
        }
        return Ok(());
    };
    if existing.as_ref().is_some_and(|existing| existing.event == event && existing.config == config) {
        return Ok(());
    }
    let since = start_reading(tx, ctx, existing.as_ref(), event)?;
    let trigger = EventTrigger {
        agent: agent.id,
        dispatch: None,
        name: None,
        product: None,
        project,
        event,
        config,
        since,
    };
    rows::upsert(tx, &trigger)?;
    Ok(tx.wake(schedules::CHANGED_CHANNEL)?)
}

/// Locks the cursor of the project and returns from where on an event trigger receives changes.
pub(super) fn start_reading(
    tx: &mut Tx<'_>,
    ctx: &WriteContext,
    existing: Option<&EventTrigger>,
    event: EventKind,
) -> Result<FeedStart> {
    let project = ctx.project.id;
    rows::lock_cursor(tx, project)?;
    if !rows::has_any(tx, project)? {
        // The cursor of a project without triggers does not move, so it may be far behind.
        let latest = feed::latest(tx, project)?;
        rows::set_cursor(tx, project, latest)?;
    }
    Ok(match existing {
        // The event is the same, so changes that are not read yet still count for this trigger.
        Some(existing) if existing.event == event => existing.since.clone(),
        _ => feed::current_start(tx)?,
    })
}

/// Deletes the event trigger of this name that starts a workflow, if there is one.
pub(super) fn delete_event_trigger(
    tx: &mut Tx<'_>,
    ctx: &WriteContext,
    product: &str,
    name: &str,
) -> Result<bool> {
    let Some(trigger) = rows::get_by_name(tx, ctx.project.id, product, name)? else { return Ok(false) };
    rows::lock_cursor(tx, ctx.project.id)?;
    rows::delete(tx, trigger.agent)?;
    Ok(true)
}
