//! Triggers: schedules that will not come again, and what waits.

use std::time::Duration;

use emergent_domain::time::Timestamp;
use serde_json::Value;

use super::{
    Finding,
    contents::{ProjectLabel, text},
    ok_finding, problem_finding,
};
use crate::{client::Client, error::Result};

const SECTION: &str = "triggers";
/// A server settles what is due within moments: what is later than this is stuck.
const OVERDUE_AFTER: Duration = Duration::from_secs(60);
/// As many are counted; what is more is called more.
const MAX_COUNTED: usize = 100;

pub async fn check_triggers(client: &Client, at: &ProjectLabel) -> Result<Vec<Finding>> {
    let triggers: Value = client.get("/api/admin/triggers").await?.data().await?;
    let (schedules, events) = (rows(&triggers["schedules"]), rows(&triggers["events"]));
    let mut findings: Vec<_> =
        schedules.iter().filter_map(|schedule| suspended_finding(schedule, at)).collect();
    findings.extend(schedules.iter().filter_map(|schedule| waiting_schedule_finding(schedule, at)));
    if schedules.len() + events.len() > 0 {
        let found =
            format!("{} schedules, {} agents wait for events{}", schedules.len(), events.len(), at.suffix());
        findings.push(ok_finding(SECTION, found));
    }
    let path = format!("/api/admin/triggers/firings?status=pending&limit={MAX_COUNTED}");
    let pending: Vec<Value> = client.get(&path).await?.data().await?;
    findings.extend(overdue_finding(client.is_sole_driver(), &pending, Timestamp::now(), at));
    Ok(findings)
}

/// A schedule that has no next time: whoever wrote its row wrote something that cannot be read.
fn suspended_finding(schedule: &Value, at: &ProjectLabel) -> Option<Finding> {
    let why = schedule["error"].as_str();
    if why.is_none() && !schedule["nextAt"].is_null() {
        return None;
    }
    let why = why.map_or("will not come again".to_owned(), |why| format!("is set aside: {why}"));
    let (name, cron) = (text(&schedule["name"]), text(&schedule["cron"]));
    let found = format!("the schedule `{name}` (`{cron}`) {why}{}", at.suffix());
    let fix = match schedule["product"].as_str() {
        Some(product) => format!(
            "`emergent product upgrade {product} SOURCE{}` with the same manifest puts it back",
            at.project_flag()
        ),
        None => format!("save the agent `{}` again with a right `trigger`", text(&schedule["agentName"])),
    };
    Some(problem_finding(SECTION, found, fix))
}

/// A schedule whose time has come, and for whose run there is no room.
fn waiting_schedule_finding(schedule: &Value, at: &ProjectLabel) -> Option<Finding> {
    let since = schedule["waitingSince"].as_str()?;
    let found = format!("the schedule `{}` waits since {since}{}", text(&schedule["name"]), at.suffix());
    Some(problem_finding(SECTION, found, queue_full_text(at)))
}

fn queue_full_text(at: &ProjectLabel) -> String {
    format!(
        "look whether too many runs wait already (`emergent run list --status queued{}`), or raise EMERGENT_MAX_RUNS",
        at.project_flag()
    )
}

/// Firings that are due and were not settled.
fn overdue_finding(alone: bool, pending: &[Value], now: Timestamp, at: &ProjectLabel) -> Option<Finding> {
    let due = |firing: &Value| text(&firing["dueAt"]).parse::<Timestamp>().ok().filter(|due| *due <= now);
    let due: Vec<Timestamp> = pending.iter().filter_map(due).collect();
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

fn rows(list: &Value) -> Vec<&Value> {
    list.as_array().into_iter().flatten().collect()
}
