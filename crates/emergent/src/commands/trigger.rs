//! `emergent trigger`: what starts agents without anybody asking.

use serde_json::Value;

use super::{agent, encode};
use crate::{
    client::Client,
    error::Result,
    output::{self, first_line},
};

#[derive(Debug, clap::Subcommand)]
pub enum Trigger {
    /// The schedules, and the agents that wait for events
    List,
    /// What fired and what became of it, newest first
    Firings {
        /// Only of this agent, by name or id
        #[arg(long)]
        agent: Option<String>,
        /// Only with this status: pending, admitted, refused, skipped
        #[arg(long)]
        status: Option<String>,
        #[arg(long, default_value_t = 20)]
        limit: u32,
    },
}

impl Trigger {
    pub async fn run(self, client: &Client, as_json: bool) -> Result<()> {
        match self {
            Trigger::List => {
                let triggers: Value = client.get("/api/admin/triggers").await?.data().await?;
                if as_json { output::print_json(&triggers) } else { show(&triggers) }
            }
            Trigger::Firings { agent, status, limit } => {
                let mut path = format!("/api/admin/triggers/firings?limit={limit}");
                if let Some(agent) = agent {
                    let agent = agent::resolve_agent(client, &agent).await?;
                    path.push_str(&format!("&agentId={}", text(&agent["id"])));
                }
                if let Some(status) = status {
                    path.push_str(&format!("&status={}", encode(&status)));
                }
                let firings: Vec<Value> = client.get(&path).await?.data().await?;
                if as_json { output::print_json(&firings) } else { show_firings(&firings) }
            }
        }
    }
}

fn show(triggers: &Value) -> Result<()> {
    let (schedules, events) = (rows(&triggers["schedules"]), rows(&triggers["events"]));
    if schedules.is_empty() && events.is_empty() {
        return output::print_line(
            "No agent is triggered. `trigger` in its definition does it: see docs/triggers.md",
        );
    }
    if !schedules.is_empty() {
        let cells = |one: &&Value| {
            vec![
                text(&one["name"]).to_owned(),
                text(&one["agentName"]).to_owned(),
                text(&one["cron"]).to_owned(),
                text(&one["timeZone"]).to_owned(),
                time_text(&one["nextAt"], if one["error"].is_null() { "never" } else { "set aside" }),
                time_text(&one["lastAt"], "–"),
                text(&one["product"]).to_owned(),
            ]
        };
        let rows: Vec<_> = schedules.iter().map(cells).collect();
        output::print_table(&["SCHEDULE", "AGENT", "CRON", "ZONE", "NEXT", "LAST", "PRODUCT"], &rows)?;
        for one in schedules.iter().filter(|one| one["error"].is_string()) {
            let (name, why) = (text(&one["name"]), text(&one["error"]));
            output::print_line(&format!("{name} was set aside until it is saved again: {why}"))?;
        }
    }
    if !events.is_empty() {
        if !schedules.is_empty() {
            output::print_line("")?;
        }
        let cells = |one: &&Value| {
            vec![text(&one["agentName"]).to_owned(), text(&one["event"]).to_owned(), filter_text(one)]
        };
        output::print_table(&["AGENT", "EVENT", "WHEN"], &events.iter().map(cells).collect::<Vec<_>>())?;
    }
    Ok(())
}

/// What an event trigger asks for, in a few words.
fn filter_text(trigger: &Value) -> String {
    let mut parts = Vec::new();
    for (name, word) in [("types", "type"), ("labels", "label")] {
        let values: Vec<_> = rows(&trigger[name]).into_iter().map(text).collect();
        if !values.is_empty() {
            parts.push(format!("{word} {}", values.join(", ")));
        }
    }
    for one in rows(&trigger["conditions"]) {
        parts.push(format!("{} {} {}", text(&one["path"]), text(&one["op"]), one["value"]));
    }
    if parts.is_empty() { "always".to_owned() } else { first_line(&parts.join("; "), 80) }
}

fn show_firings(firings: &[Value]) -> Result<()> {
    let cells = |one: &Value| {
        let what = match one["event"].as_str() {
            Some(event) => format!(
                "{event} {} {} v{}",
                text(&one["entityType"]),
                text(&one["entityId"]),
                one["entityVersion"]
            ),
            None => format!("schedule {}", time_text(&one["scheduledAt"], "")),
        };
        let came = one["runId"].as_str().or(one["reason"].as_str()).unwrap_or_default();
        vec![
            time_text(&one["createdAt"], ""),
            text(&one["agentName"]).to_owned(),
            what,
            text(&one["status"]).to_owned(),
            first_line(came, 80),
        ]
    };
    let rows: Vec<_> = firings.iter().map(cells).collect();
    output::print_table(&["AT", "AGENT", "WHAT", "STATUS", "RUN OR REASON"], &rows)
}

fn rows(list: &Value) -> Vec<&Value> {
    list.as_array().into_iter().flatten().collect()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// To the second: fractions are for machines.
fn time_text(value: &Value, none: &str) -> String {
    match value.as_str().and_then(|text| text.split_once('.')) {
        Some((seconds, _)) => format!("{seconds}Z"),
        None => value.as_str().unwrap_or(none).to_owned(),
    }
}
