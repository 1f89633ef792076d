//! Triggers: schedules that will not come again, and what waits.

use std::time::Duration;

use emergent_domain::time::Timestamp;
use serde_json::Value;

use super::{
    Finding, bad,
    contents::{Place, text},
    good,
};
use crate::{client::Client, error::Result};

const WHAT: &str = "triggers";
/// A server settles what is due within moments: what is later than this is stuck.
const LATE: Duration = Duration::from_secs(60);
/// As many are counted; what is more is called more.
const COUNTED: usize = 100;

pub async fn look(client: &Client, at: &Place) -> Result<Vec<Finding>> {
    let triggers: Value = client.get("/api/admin/triggers").await?.data().await?;
    let (schedules, events) = (rows(&triggers["schedules"]), rows(&triggers["events"]));
    let mut findings: Vec<_> = schedules.iter().filter_map(|schedule| parked(schedule, at)).collect();
    findings.extend(schedules.iter().filter_map(|schedule| held_up(schedule, at)));
    if schedules.len() + events.len() > 0 {
        let found =
            format!("{} schedules, {} agents wait for events{}", schedules.len(), events.len(), at.told());
        findings.push(good(WHAT, found));
    }
    let path = format!("/api/admin/triggers/firings?status=pending&limit={COUNTED}");
    let pending: Vec<Value> = client.get(&path).await?.data().await?;
    findings.extend(waiting(client.is_alone(), &pending, Timestamp::now(), at));
    Ok(findings)
}

/// A schedule that has no next time: whoever wrote its row wrote something that cannot be read.
fn parked(schedule: &Value, at: &Place) -> Option<Finding> {
    let why = schedule["error"].as_str();
    if why.is_none() && !schedule["nextAt"].is_null() {
        return None;
    }
    let why = why.map_or("will not come again".to_owned(), |why| format!("is set aside: {why}"));
    let (name, cron) = (text(&schedule["name"]), text(&schedule["cron"]));
    let found = format!("the schedule `{name}` (`{cron}`) {why}{}", at.told());
    let fix = match schedule["product"].as_str() {
        Some(product) => format!(
            "`emergent product upgrade {product} SOURCE{}` with the same manifest puts it back",
            at.flag()
        ),
        None => format!("save the agent `{}` again with a right `trigger`", text(&schedule["agentName"])),
    };
    Some(bad(WHAT, found, fix))
}

/// A schedule whose time has come, and for whose run there is no room.
fn held_up(schedule: &Value, at: &Place) -> Option<Finding> {
    let since = schedule["waitingSince"].as_str()?;
    let found = format!("the schedule `{}` waits since {since}{}", text(&schedule["name"]), at.told());
    Some(bad(WHAT, found, too_many(at)))
}

fn too_many(at: &Place) -> String {
    format!(
        "look whether too many runs wait already (`emergent run list --status queued{}`), or raise EMERGENT_MAX_RUNS",
        at.flag()
    )
}

/// Firings that are due and were not settled.
fn waiting(alone: bool, pending: &[Value], now: Timestamp, at: &Place) -> Option<Finding> {
    let due = |firing: &Value| text(&firing["dueAt"]).parse::<Timestamp>().ok().filter(|due| *due <= now);
    let due: Vec<Timestamp> = pending.iter().filter_map(due).collect();
    let oldest = *due.iter().min()?;
    let many = if due.len() < COUNTED { due.len().to_string() } else { format!("{COUNTED} or more") };
    let found = format!("{many} firings wait since {oldest}{}", at.told());
    if alone {
        return Some(good(WHAT, format!("{found}; the next server takes them (`emergent serve`)")));
    }
    if now.since(oldest) < LATE {
        return Some(good(WHAT, found));
    }
    Some(bad(WHAT, found, too_many(at)))
}

fn rows(list: &Value) -> Vec<&Value> {
    list.as_array().into_iter().flatten().collect()
}
