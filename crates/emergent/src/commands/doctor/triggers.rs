//! Triggers: schedules that will not come again, and what waits.

use std::time::Duration;

use emergent_domain::time::{Clock, Timestamp};
use emergent_wire::trigger::{FiringView, ScheduleView, TriggersView};

use super::{Finding, contents::ProjectLabel, ok_finding, problem_finding};
use crate::{client::Client, error::Result};

const SECTION: &str = "triggers";
/// A server settles what is due within moments: what is later than this is stuck.
const OVERDUE_AFTER: Duration = Duration::from_secs(60);
/// As many are counted; what is more is called more.
const MAX_COUNTED: usize = 100;

pub async fn check_triggers(client: &Client, at: &ProjectLabel) -> Result<Vec<Finding>> {
    let TriggersView { schedules, events } = client.get("/api/admin/triggers").await?.data().await?;
    let mut findings: Vec<_> =
        schedules.iter().filter_map(|schedule| suspended_finding(schedule, at)).collect();
    findings.extend(schedules.iter().filter_map(|schedule| waiting_schedule_finding(schedule, at)));
    if schedules.len() + events.len() > 0 {
        let found =
            format!("{} schedules, {} agents wait for events{}", schedules.len(), events.len(), at.suffix());
        findings.push(ok_finding(SECTION, found));
    }
    let path = format!("/api/admin/triggers/firings?status=pending&limit={MAX_COUNTED}");
    let pending: Vec<FiringView> = client.get(&path).await?.data().await?;
    findings.extend(overdue_finding(client.is_sole_driver(), &pending, Clock::system().now(), at));
    Ok(findings)
}

/// A schedule that has no next time: whoever wrote its row wrote something that cannot be read.
fn suspended_finding(schedule: &ScheduleView, at: &ProjectLabel) -> Option<Finding> {
    if schedule.error.is_none() && schedule.next_at.is_some() {
        return None;
    }
    let why = schedule
        .error
        .as_ref()
        .map_or("will not come again".to_owned(), |why| format!("is set aside: {why}"));
    let (name, cron) = (&schedule.name, &schedule.cron);
    let found = format!("the schedule `{name}` (`{cron}`) {why}{}", at.suffix());
    let fix = match &schedule.product {
        Some(product) => format!(
            "`emergent product upgrade {product} SOURCE{}` with the same manifest puts it back",
            at.project_flag()
        ),
        None => format!("save the agent `{}` again with a right `trigger`", schedule.agent_name),
    };
    Some(problem_finding(SECTION, found, fix))
}

/// A schedule whose time has come, and for whose run there is no room.
fn waiting_schedule_finding(schedule: &ScheduleView, at: &ProjectLabel) -> Option<Finding> {
    let since = schedule.waiting_since?;
    let found = format!("the schedule `{}` waits since {since}{}", schedule.name, at.suffix());
    Some(problem_finding(SECTION, found, queue_full_text(at)))
}

fn queue_full_text(at: &ProjectLabel) -> String {
    format!(
        "look whether too many runs wait already (`emergent run list --status queued{}`), or raise EMERGENT_MAX_RUNS",
        at.project_flag()
    )
}

/// Firings that are due and were not settled.
fn overdue_finding(
    alone: bool,
    pending: &[FiringView],
    now: Timestamp,
    at: &ProjectLabel,
) -> Option<Finding> {
    let due: Vec<Timestamp> = pending.iter().map(|firing| firing.due_at).filter(|due| *due <= now).collect();
    let oldest = *due.iter().min()?;
    let many = if due.len() < MAX_COUNTED { due.len().to_string() } else { format!("{MAX_COUNTED} or more") };
    let found = format!("{many} firings wait since {oldest}{}", at.suffix());
    if alone {
        return Some(ok_finding(SECTION, format!("{found}; the next server takes them (`emergent serve`)")));
    }
    if now.since(oldest) < OVERDUE_AFTER {
        return Some(ok_finding(SECTION, found));
    }
    Some(problem_finding(SECTION, found, queue_full_text(at)))
}
