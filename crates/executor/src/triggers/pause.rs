//! Pauses and resumes schedules. A paused schedule has no next time, so no server finds it due. The times that pass
//! meanwhile are not fired later: when it is resumed, it gets the next time from then on.

use emergent_domain::{
    audit::{AuditAction, NewAuditEntry},
    ids::ProjectId,
    invalid::Invalid,
    pack::nearest_name,
    time::Timestamp,
    trigger::Schedule,
};
use emergent_graph::Actor;
use emergent_store::{Tx, agents, audit, projects, schedules, triggers as rows};

use super::{
    schedules::parse_rule,
    start_rights::{check_may_start, may_read_triggers},
};
use crate::{Error, Executor, Result};

impl Executor {
    /// Pauses a schedule, or resumes it, which needs the right to start agents. `reference` is its id, its name, or the
    /// name of the agent whose trigger it is.
    /// Returns the schedule with the name of its agent. Without effect on a schedule that already is what is asked for.
    pub async fn set_schedule_enabled(
        &self,
        actor: Actor,
        reference: String,
        enabled: bool,
    ) -> Result<(Schedule, String)> {
        let executor = self.clone();
        let work = move |tx: &mut Tx<'_>| {
            projects::lock(tx, actor.project)?.ok_or_else(|| Error::not_found("project", actor.project))?;
            if enabled {
                check_may_start(tx, actor.author, "resuming a schedule")?;
            }
            let now = executor.clock().now();
            let found = find_schedule(tx, actor, &reference)?;
            // A server that fires it at this moment has locked it, and may have changed its times.
            let schedule = schedules::lock_by_id(tx, actor.project, found.id)?
                .ok_or_else(|| Error::not_found("trigger", &reference))?;
            let schedule = set_enabled(tx, schedule, enabled, now)?;
            let agent = agents::get(tx, actor.project, schedule.agent)?;
            Ok::<_, Error>((schedule, agent.map(|agent| agent.definition.name).unwrap_or_default()))
        };
        self.db().write(work).await
    }
}

/// Changes a locked schedule, and records the change.
fn set_enabled(tx: &mut Tx<'_>, schedule: Schedule, enabled: bool, now: Timestamp) -> Result<Schedule> {
    if enabled == schedule.paused_at.is_none() {
        return Ok(schedule);
    }
    // A schedule that cannot be read stays suspended until it is saved again.
    let next_at = match enabled {
        true => parse_rule(&schedule).ok().and_then(|rule| rule.cron.next(now, &rule.zone)),
        false => None,
    };
    let paused_at = (!enabled).then_some(now);
    let changed = Schedule { paused_at, next_at, waiting_since: None, updated_at: now, ..schedule };
    schedules::set_paused(tx, &changed)?;
    let action = if enabled { AuditAction::TriggerResume } else { AuditAction::TriggerPause };
    let entry = NewAuditEntry::new(action, Some(changed.project), &changed.name).id(changed.id);
    audit::record(tx, &entry, now)?;
    tx.wake(schedules::CHANGED_CHANNEL)?;
    Ok(changed)
}

/// The schedule that a person names.
fn find_schedule(tx: &mut Tx<'_>, actor: Actor, reference: &str) -> Result<Schedule> {
    let listed = schedules::list(tx, actor.project)?;
    // An id names one schedule, whatever name somebody gives to another one.
    if let Some(by_id) = listed.iter().find(|schedule| schedule.id.to_string() == reference) {
        return Ok(by_id.clone());
    }
    let of_agent = format!("agent:{reference}");
    // A job may have the name of an agent. Nobody knows then which of the two is meant, and the wrong one must not be
    // paused.
    let is_meant = |schedule: &&Schedule| schedule.name == reference || schedule.name == of_agent;
    let found: Vec<&Schedule> = listed.iter().filter(is_meant).collect();
    match found.as_slice() {
        [only] => Ok((*only).clone()),
        [] if !may_read_triggers(tx, actor.author)? => Err(Error::not_found("trigger", reference)),
        [] => Err(no_schedule(tx, actor.project, reference, &listed)?),
        several => {
            let ids: Vec<String> = several.iter().map(|schedule| format!("`{}`", schedule.id)).collect();
            Err(Error::Conflict(format!(
                "{} schedules have the name `{reference}`: use the id of one of them, {}",
                ids.len(),
                ids.join(" or ")
            )))
        }
    }
}

/// The error for a name that no schedule has, for those who may read which there are. An event trigger cannot be paused.
fn no_schedule(tx: &mut Tx<'_>, project: ProjectId, reference: &str, listed: &[Schedule]) -> Result<Error> {
    for trigger in rows::list(tx, project)? {
        let agent = agents::get(tx, project, trigger.agent)?;
        let agent_name = agent.as_ref().map(|agent| agent.definition.name.as_str());
        if trigger.name.as_deref() == Some(reference) || agent_name == Some(reference) {
            let reason = format!(
                "is only for schedules, and `{reference}` waits for the event `{}`: remove the trigger instead",
                trigger.event
            );
            return Ok(Invalid::new("enabled", reason).into());
        }
    }
    let names = listed.iter().map(|schedule| schedule.name.strip_prefix("agent:").unwrap_or(&schedule.name));
    let similar = nearest_name(reference, names).map(str::to_owned);
    Ok(Error::NotFound { what: "trigger", id: reference.to_owned(), similar })
}
