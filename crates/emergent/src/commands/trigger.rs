//! `emergent trigger`: lists schedules, event triggers and their firings.

use emergent_domain::time::Timestamp;
use emergent_wire::trigger::{EventTriggerView, FiringView, ScheduleView, TriggersView};
use serde_json::Value;

use super::{agent, encode};
use crate::{
    client::{Client, Received},
    error::Result,
    output::{self, first_line},
};

#[derive(Debug, clap::Subcommand)]
pub enum Trigger {
    /// List the schedules, and the agents that wait for events
    List,
    /// List what fired and what became of it, newest first
    Firings {
        /// Only of this agent, by name or id
        #[arg(long)]
        agent: Option<String>,
        /// Only with this status: pending, admitted, refused, skipped
        #[arg(long)]
        status: Option<String>,
        /// At most this many
        #[arg(long, default_value_t = 20)]
        limit: u32,
    },
}

impl Trigger {
    pub async fn run(self, client: &Client, as_json: bool) -> Result<()> {
        match self {
            Trigger::List => {
                let triggers: Received<TriggersView> =
                    client.get("/api/admin/triggers").await?.data().await?;
                if as_json { output::print_json(&triggers) } else { show(&triggers) }
            }
            Trigger::Firings { agent, status, limit } => {
                let mut path = format!("/api/admin/triggers/firings?limit={limit}");
                if let Some(agent) = agent {
                    let agent = agent::resolve_agent(client, &agent).await?;
                    path.push_str(&format!("&agentId={}", agent.id));
                }
                if let Some(status) = status {
                    path.push_str(&format!("&status={}", encode(&status)));
                }
                let firings: Vec<Received<FiringView>> = client.get(&path).await?.data().await?;
                if as_json { output::print_json(&firings) } else { show_firings(&firings) }
            }
        }
    }
}

fn show(triggers: &TriggersView) -> Result<()> {
    let TriggersView { schedules, events } = triggers;
    if schedules.is_empty() && events.is_empty() {
        return output::print_line(
            "No agent is triggered. `trigger` in its definition does it: see docs/triggers.md",
        );
    }
    if !schedules.is_empty() {
        let cells = |schedule: &ScheduleView| {
            vec![
                schedule.name.clone(),
                schedule.agent_name.clone(),
                schedule.cron.clone(),
                schedule.time_zone.clone(),
                time_text(schedule.next_at, if schedule.error.is_none() { "never" } else { "set aside" }),
                time_text(schedule.last_at, "–"),
                schedule.product.clone().unwrap_or_default(),
            ]
        };
        let rows: Vec<_> = schedules.iter().map(cells).collect();
        output::print_table(&["SCHEDULE", "AGENT", "CRON", "ZONE", "NEXT", "LAST", "PRODUCT"], &rows)?;
        for schedule in schedules {
            if let Some(error) = &schedule.error {
                output::print_line(&format!(
                    "{} was set aside until it is saved again: {error}",
                    schedule.name
                ))?;
            }
        }
    }
    if !events.is_empty() {
        if !schedules.is_empty() {
            output::print_line("")?;
        }
        let cells = |trigger: &EventTriggerView| {
            vec![trigger.agent_name.clone(), trigger.event.to_string(), filter_text(trigger)]
        };
        output::print_table(&["AGENT", "EVENT", "WHEN"], &events.iter().map(cells).collect::<Vec<_>>())?;
    }
    Ok(())
}

/// The filter of an event trigger as text; `always` without one.
fn filter_text(trigger: &EventTriggerView) -> String {
    let mut parts = Vec::new();
    for (word, values) in [("type", &trigger.types), ("label", &trigger.labels)] {
        if !values.is_empty() {
            parts.push(format!("{word} {}", values.join(", ")));
        }
    }
    for condition in &trigger.conditions {
        let value = condition.value.as_ref().unwrap_or(&Value::Null);
        parts.push(format!("{} {} {value}", condition.path, condition.op));
    }
    if parts.is_empty() { "always".to_owned() } else { first_line(&parts.join("; "), 80) }
}

fn show_firings(firings: &[Received<FiringView>]) -> Result<()> {
    let cells = |firing: &Received<FiringView>| {
        let cause = match firing.event {
            Some(event) => {
                let id = firing.entity_id.map(|id| id.to_string()).unwrap_or_default();
                let version = firing.entity_version.map_or("null".to_owned(), |version| version.to_string());
                format!("{event} {} {id} v{version}", firing.entity_type.as_deref().unwrap_or_default())
            }
            None => format!("schedule {}", time_text(firing.scheduled_at, "")),
        };
        let outcome =
            firing.run_id.map(|run| run.to_string()).or_else(|| firing.reason.clone()).unwrap_or_default();
        vec![
            time_text(Some(firing.created_at), ""),
            firing.agent_name.clone(),
            cause,
            firing.status.to_string(),
            first_line(&outcome, 80),
        ]
    };
    let rows: Vec<_> = firings.iter().map(cells).collect();
    output::print_table(&["AT", "AGENT", "WHAT", "STATUS", "RUN OR REASON"], &rows)
}

/// A time without fractions of a second; `fallback` when there is none.
fn time_text(time: Option<Timestamp>, fallback: &str) -> String {
    let Some(time) = time.map(|time| time.to_string()) else { return fallback.to_owned() };
    match time.split_once('.') {
        Some((seconds, _)) => format!("{seconds}Z"),
        None => time,
    }
}
