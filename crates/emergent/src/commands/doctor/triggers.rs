//! Checks the triggers of a project: schedules that will not fire again, agents that have no usable model, events
//! that are held back, and firings that are overdue.

use std::{collections::HashSet, time::Duration};

use emergent_domain::{
    text::counted,
    time::{Clock, Timestamp},
};
use emergent_wire::{
    agent::AgentView,
    trigger::{EventTriggerView, FiringView, ScheduleView, TriggersView},
};
use uuid::Uuid;

use super::{
    Finding, contents::ProjectLabel, ok_finding, problem_finding, usable_models::UsableModels,
    warning_finding,
};
use crate::{client::Client, commands::trigger::held_back_text, error::Result};

const SECTION: &str = "triggers";
/// A server settles a due firing within moments; after this time it is reported as stuck.
const OVERDUE_AFTER: Duration = Duration::from_secs(60);
/// How many pending firings are loaded and counted.
const MAX_COUNTED: usize = 100;

pub async fn check_triggers(
    client: &Client,
    label: &ProjectLabel,
    models: Option<&UsableModels>,
) -> Result<Vec<Finding>> {
    let TriggersView { schedules, events } = client.get("/api/admin/triggers").await?.data().await?;
    let mut findings: Vec<_> =
        schedules.iter().filter_map(|schedule| suspended_finding(schedule, label)).collect();
    findings.extend(schedules.iter().filter_map(|schedule| waiting_schedule_finding(schedule, label)));
    let of_schedules = schedules.iter().map(|schedule| (schedule.agent_id, schedule.cron.clone()));
    let of_events = events.iter().map(|trigger| (trigger.agent_id, trigger.event.to_string()));
    let starts: Vec<_> = of_schedules.chain(of_events).collect();
    if !starts.is_empty() {
        let (schedules, events) =
            (counted(schedules.len(), "schedule"), counted(events.len(), "event trigger"));
        let found = format!("{schedules}, {events}{}", label.suffix());
        findings.push(ok_finding(SECTION, found));
        if let Some(models) = models {
            let agents: Vec<AgentView> =
                client.get_all_pages("/api/admin/agents?include_internal=true").await?;
            for (id, when) in &starts {
                let agent = agents.iter().find(|agent| Some(agent.id) == *id);
                findings.extend(agent.and_then(|agent| no_model_finding(agent, when, models, label)));
            }
        }
    }
    findings.extend(events.iter().filter_map(|trigger| held_back_finding(trigger, label)));
    let pending = list_pending(client, &events).await?;
    findings.extend(overdue_finding(client.is_sole_driver(), &pending, Clock::system().now(), label));
    Ok(findings)
}

/// The pending firings, newest first and at most [`MAX_COUNTED`] of each request. Those that wait for a run of their
/// trigger to end are left out, because they are reported by themselves. They may be newer than all others, so the
/// other agents are then asked for one by one.
async fn list_pending(client: &Client, events: &[EventTriggerView]) -> Result<Vec<FiringView>> {
    let path = format!("/api/admin/triggers/firings?status=pending&limit={MAX_COUNTED}");
    let mut pending: Vec<FiringView> = client.get(&path).await?.data().await?;
    let held_back: HashSet<Uuid> =
        events.iter().filter(|own| own.held_back.is_some()).filter_map(|own| own.agent_id).collect();
    if held_back.is_empty() {
        return Ok(pending);
    }
    pending.retain(|firing| firing.agent_id.is_none_or(|agent| !held_back.contains(&agent)));
    let mut known: HashSet<Uuid> = pending.iter().map(|firing| firing.id).collect();
    let others: HashSet<Uuid> =
        events.iter().filter_map(|own| own.agent_id).filter(|agent| !held_back.contains(agent)).collect();
    for agent in others {
        let of_agent: Vec<FiringView> = client.get(&format!("{path}&agentId={agent}")).await?.data().await?;
        pending.extend(of_agent.into_iter().filter(|firing| known.insert(firing.id)));
    }
    Ok(pending)
}

/// Why the events of a trigger wait for a run to end; `None` if none does. A run that waits for a person may wait for
/// ever, so it is a warning.
fn held_back_finding(trigger: &EventTriggerView, label: &ProjectLabel) -> Option<Finding> {
    let found = format!("{}{}", held_back_text(trigger)?, label.suffix());
    if trigger.held_back.is_none_or(|held_back| held_back.waiting_runs == 0) {
        return Some(ok_finding(SECTION, found));
    }
    let fix =
        format!("decide what its runs ask for in the inbox: `emergent inbox list{}`", label.project_flag());
    Some(Finding { fix: Some(fix), ..warning_finding(SECTION, found) })
}

/// A warning for an agent that a trigger starts and that has no usable model: each firing is refused, and nobody waits
/// for an answer that says so.
fn no_model_finding(
    agent: &AgentView,
    when: &str,
    models: &UsableModels,
    label: &ProjectLabel,
) -> Option<Finding> {
    let problem = models.problem(agent)?;
    let found = format!("`{}` ({when}) cannot start: {}{}", agent.name, problem.reason, label.suffix());
    Some(Finding { fix: Some(problem.fix), ..warning_finding(SECTION, found) })
}

/// A problem for a schedule that has no next time or cannot be read; `None` for one that will fire.
fn suspended_finding(schedule: &ScheduleView, label: &ProjectLabel) -> Option<Finding> {
    // A schedule that a person paused does what it should.
    if schedule.error.is_none() && (schedule.next_at.is_some() || !schedule.enabled) {
        return None;
    }
    let state = schedule
        .error
        .as_ref()
        .map_or("will not come again".to_owned(), |error| format!("is set aside: {error}"));
    let (name, cron) = (&schedule.name, &schedule.cron);
    let found = format!("the schedule `{name}` (`{cron}`) {state}{}", label.suffix());
    let fix = match &schedule.product {
        Some(product) => format!(
            "`emergent product upgrade {product} SOURCE{}` with the same manifest puts it back",
            label.project_flag()
        ),
        None if schedule.dispatch.is_some() => {
            format!("save it again: `emergent trigger save {name} FILE{}`", label.project_flag())
        }
        None => format!("save the agent `{}` again with a right `trigger`", schedule.agent_name),
    };
    Some(problem_finding(SECTION, found, fix))
}

/// A problem for a schedule that is due but whose run was not admitted; `None` for one that does not wait.
fn waiting_schedule_finding(schedule: &ScheduleView, label: &ProjectLabel) -> Option<Finding> {
    let since = schedule.waiting_since?;
    let found = format!("the schedule `{}` waits since {since}{}", schedule.name, label.suffix());
    Some(problem_finding(SECTION, found, queue_full_text(label)))
}

/// The fix for firings that wait because the run queue is full.
fn queue_full_text(label: &ProjectLabel) -> String {
    format!(
        "look whether too many runs wait already (`emergent run list --status queued{}`), or raise EMERGENT_MAX_RUNS",
        label.project_flag()
    )
}

/// A finding about firings that are due and not settled; `None` when there are none. With `sole_driver`, no
/// server is running, so they are expected to wait.
fn overdue_finding(
    sole_driver: bool,
    pending: &[FiringView],
    now: Timestamp,
    label: &ProjectLabel,
) -> Option<Finding> {
    let due: Vec<Timestamp> = pending.iter().map(|firing| firing.due_at).filter(|due| *due <= now).collect();
    let oldest = *due.iter().min()?;
    let wait = match due.len() {
        1 => "1 firing waits".to_owned(),
        count if count < MAX_COUNTED => format!("{count} firings wait"),
        _ => format!("{MAX_COUNTED} or more firings wait"),
    };
    let found = format!("{wait} since {oldest}{}", label.suffix());
    if sole_driver {
        return Some(ok_finding(SECTION, format!("{found}; the next server takes them (`emergent serve`)")));
    }
    if now.since(oldest) < OVERDUE_AFTER {
        return Some(ok_finding(SECTION, found));
    }
    Some(problem_finding(SECTION, found, queue_full_text(label)))
}
