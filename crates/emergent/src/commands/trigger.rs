//! `emergent trigger`: lists schedules, event triggers and their firings, pauses and resumes schedules, and saves
//! triggers that start workflows.

use std::{
    io::Read,
    path::{Path, PathBuf},
};

use emergent_domain::{foreign_json::ForeignValue, text::counted, time::Timestamp};
use emergent_wire::trigger::{
    EventTriggerView, FiringView, ScheduleView, TriggerName, TriggersView, UpdateTrigger,
};
use serde_json::Value;

use super::{
    agent::{self, to_camel_case},
    encode,
    paused_schedule::warn_if_paused,
};
use crate::{
    cells::cell,
    client::{Client, Received},
    error::{Error, Result},
    hints, messages, output,
};

#[derive(Debug, clap::Subcommand)]
pub enum Trigger {
    /// List the schedules, and the agents and workflows that wait for events
    List,
    /// Save a trigger that starts a workflow at times or events
    ///
    /// The file is YAML or JSON: `trigger` (a cron expression or an event), `dispatch` (with `description` or `tasks`,
    /// and settings as for `emergent dispatch`), and `config` (settings of the schedule or the event).
    Save {
        /// Its name in the project
        name: String,
        /// The file; `-` is standard input
        file: PathBuf,
    },
    /// Delete a trigger that starts a workflow
    Delete {
        /// Its name in the project
        name: String,
    },
    /// Pause a schedule; times that pass meanwhile are not fired later
    Pause {
        /// Its name or id, or the name of its agent
        name: String,
    },
    /// Resume a schedule that was paused
    Resume {
        /// Its name or id, or the name of its agent
        name: String,
    },
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
            Trigger::Save { name, file } => {
                let body = read_trigger(&file)?;
                let path = format!("/api/admin/triggers/{}", encode(&name));
                let saved: Received<TriggerName> = client.put(&path, &body).await?.data().await?;
                print_name(&saved, "saved", as_json)?;
                if !as_json {
                    warn_if_paused(client, &saved.name).await;
                }
                Ok(())
            }
            Trigger::Delete { name } => {
                let path = format!("/api/admin/triggers/{}", encode(&name));
                let response = match client.delete(&path).await {
                    Err(error) if error.is_not_found() => {
                        return Err(not_deleted(client, &name, error).await?);
                    }
                    response => response?,
                };
                let deleted: Received<TriggerName> = response.data().await?;
                print_name(&deleted, "deleted", as_json)
            }
            Trigger::Pause { name } => set_enabled(client, &name, false, as_json).await,
            Trigger::Resume { name } => set_enabled(client, &name, true, as_json).await,
            Trigger::Firings { agent, status, limit } => {
                let mut path = "/api/admin/triggers/firings?".to_owned();
                if let Some(agent) = agent {
                    let agent = agent::resolve_agent(client, &agent).await?;
                    path.push_str(&format!("&agentId={}", agent.id));
                }
                if let Some(status) = status {
                    path.push_str(&format!("&status={}", encode(&status)));
                }
                let firings: Vec<Received<FiringView>> = client.get_limited(&path, limit).await?;
                if as_json { output::print_json(&firings) } else { show_firings(&firings) }
            }
        }
    }
}

/// Pauses or resumes a schedule, and says when it fires next.
async fn set_enabled(client: &Client, name: &str, enabled: bool, as_json: bool) -> Result<()> {
    let path = format!("/api/admin/triggers/{}", encode(name));
    let response = client.patch(&path, &UpdateTrigger { enabled }).await;
    let response = match response {
        Err(error @ Error::Refused { .. }) => {
            // Who may not list the triggers reads the refusal itself.
            let of_event = not_paused(client, name).await.ok().flatten();
            if let Some(of_event) = of_event {
                return Err(of_event);
            }
            let names = trigger_names(client).await;
            return Err(error.with_nearest(name, names.iter().map(String::as_str), "trigger list"));
        }
        response => response?,
    };
    let schedule: Received<ScheduleView> = response.data().await?;
    if as_json {
        return output::print_json(&schedule);
    }
    let name = &schedule.name;
    output::print_text(&match enabled {
        true => format!("schedule {name} is active, its next time is {}", next_text(&schedule)),
        false => format!(
            "schedule {name} is paused; `{}` resumes it",
            hints::command(&format!("trigger resume {}", hints::quoted(name)))
        ),
    })
}

/// When a schedule fires next, or why it does not.
fn next_text(schedule: &ScheduleView) -> String {
    let without = match (&schedule.error, schedule.enabled) {
        _ if schedule.withheld => "shown with the scope `agents:read` only",
        (Some(_), _) => "set aside",
        (None, false) => "paused",
        (None, true) => "never",
    };
    time_text(schedule.next_at, without)
}

/// The names of all triggers, as a person may write them: the schedule of an agent also by the name of the agent. Empty
/// if they cannot be read.
async fn trigger_names(client: &Client) -> Vec<String> {
    let Ok(response) = client.get("/api/admin/triggers").await else { return Vec::new() };
    let triggers: Result<Received<TriggersView>> = response.data().await;
    let Ok(triggers) = triggers else { return Vec::new() };
    let of_schedules = triggers.schedules.iter().flat_map(|own| {
        let agent = own.name.strip_prefix("agent:").map(str::to_owned);
        [Some(own.name.clone()), agent]
    });
    let of_events = triggers.events.iter().map(|own| own.name.clone());
    of_schedules.chain(of_events).flatten().collect()
}

/// The error for a trigger that waits for an event, which cannot be paused; `None` for all others.
async fn not_paused(client: &Client, name: &str) -> Result<Option<Error>> {
    let triggers: Received<TriggersView> = client.get("/api/admin/triggers").await?.data().await?;
    let of_agent = format!("agent:{name}");
    if triggers.schedules.iter().any(|own| own.name == name || own.name == of_agent) {
        return Ok(None);
    }
    let is_named = |own: &&EventTriggerView| match &own.name {
        Some(own_name) => own_name == name,
        None => own.agent_name == name,
    };
    let Some(trigger) = triggers.events.iter().find(is_named) else { return Ok(None) };
    let removal = match (&trigger.name, &trigger.product) {
        (_, Some(product)) => {
            format!("it belongs to the product `{product}`, whose next version can leave it out")
        }
        (Some(_), None) => {
            let delete = hints::command(&format!("trigger delete {}", hints::quoted(name)));
            format!("`{delete}` deletes it")
        }
        (None, None) => removal_from_agent(name),
    };
    Ok(Some(Error::Usage(format!(
        "`{name}` waits for the event `{}`, and only schedules can be paused: {removal}",
        trigger.event
    ))))
}

/// How the trigger of an agent is removed: it is a part of its definition.
fn removal_from_agent(agent: &str) -> String {
    let edit = hints::command(&format!("agent edit {}", hints::quoted(agent)));
    format!("remove `trigger` from its definition, with `{edit}` or in its file, which you then apply again")
}

/// The error for a trigger that does not exist. The trigger of an agent is a part of its definition.
async fn not_deleted(client: &Client, name: &str, error: Error) -> Result<Error> {
    let agent = name.strip_prefix("agent:").unwrap_or(name);
    let triggers: Received<TriggersView> = client.get("/api/admin/triggers").await?.data().await?;
    let has_schedule = triggers.schedules.iter().any(|own| own.dispatch.is_none() && own.agent_name == agent);
    let has_event = triggers.events.iter().any(|own| own.name.is_none() && own.agent_name == agent);
    if !has_schedule && !has_event {
        let names = trigger_names(client).await;
        return Ok(error.with_nearest(name, names.iter().map(String::as_str), "trigger list"));
    }
    Ok(Error::Usage(format!("this trigger belongs to the agent `{agent}`: {}", removal_from_agent(agent))))
}

fn print_name(trigger: &Received<TriggerName>, what: &str, as_json: bool) -> Result<()> {
    match as_json {
        true => output::print_json(trigger),
        false => output::print_line(&format!("trigger {} is {what}", trigger.name)),
    }
}

/// Reads a trigger from a file. The fields of the workflow may be those of a manifest (`blocked_by`) or of the API
/// (`blockedBy`). The server names the errors of their values.
fn read_trigger(path: &Path) -> Result<Value> {
    let failed = |source| Error::input_file(path, source);
    let mut text = String::new();
    if path.as_os_str() == "-" {
        std::io::stdin().lock().read_to_string(&mut text).map_err(failed)?;
    } else {
        text = std::fs::read_to_string(path).map_err(failed)?;
    }
    messages::remember_file(path);
    let ForeignValue(mut body) = serde_saphyr::from_str(&text)
        .map_err(|error| Error::Usage(format!("`{}` cannot be read: {error}", path.display())))?;
    if let Some(dispatch) = body.get_mut("dispatch") {
        messages::remember_fields(dispatch);
        *dispatch = to_camel_case(dispatch.take());
        for task in dispatch.get_mut("tasks").and_then(Value::as_array_mut).into_iter().flatten() {
            *task = to_camel_case(task.take());
        }
    }
    Ok(body)
}

/// What a trigger starts: the name of an agent, or that it is a workflow.
fn target_text(agent_name: &str, starts_workflow: bool) -> String {
    if starts_workflow { "a workflow".to_owned() } else { agent_name.to_owned() }
}

fn show(triggers: &TriggersView) -> Result<()> {
    let TriggersView { schedules, events } = triggers;
    if schedules.is_empty() && events.is_empty() {
        return output::print_text(&format!(
            "Nothing is triggered. `trigger` in the definition of an agent starts it at times or events, and `{}` does \
             the same for a workflow (`{}` describes the file).",
            hints::command("trigger save NAME FILE"),
            hints::command("trigger save --help")
        ));
    }
    if !schedules.is_empty() {
        let cells = |schedule: &ScheduleView| {
            vec![
                schedule.name.clone(),
                target_text(&schedule.agent_name, schedule.dispatch.is_some()),
                schedule.cron.clone(),
                schedule.time_zone.clone(),
                next_text(schedule),
                time_text(schedule.last_at, "–"),
                schedule.product.clone().unwrap_or_default(),
            ]
        };
        let rows: Vec<_> = schedules.iter().map(cells).collect();
        let headers = ["SCHEDULE", "STARTS", "CRON", "ZONE", "NEXT", "LAST", "PRODUCT"];
        output::print_compact_table(&headers, &rows, &["CRON", "NEXT"])?;
        for schedule in schedules {
            if let Some(error) = &schedule.error {
                output::print_text(&format!(
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
            let starts = match &trigger.name {
                Some(name) => format!("a workflow ({name})"),
                None => trigger.agent_name.clone(),
            };
            let when = match trigger.max_concurrent {
                Some(max) => format!("{}; at most {} at once", filter_text(trigger), counted(max, "run")),
                None => filter_text(trigger),
            };
            vec![starts, trigger.event.to_string(), when]
        };
        let rows: Vec<_> = events.iter().map(cells).collect();
        output::print_compact_table(&["STARTS", "EVENT", "WHEN"], &rows, &["STARTS"])?;
        for text in events.iter().filter_map(held_back_text) {
            output::print_text(&text)?;
        }
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
    if parts.is_empty() { "always".to_owned() } else { cell(&parts.join("; "), 80) }
}

/// Why the events of a trigger wait; `None` if none waits for a run to end.
pub fn held_back_text(trigger: &EventTriggerView) -> Option<String> {
    let held_back = trigger.held_back?;
    let (events, runs) =
        (counted(held_back.events, "event"), counted(held_back.unfinished_runs, "unfinished run"));
    let waiting = match held_back.waiting_runs {
        0 => String::new(),
        count => {
            let inbox = hints::command("inbox list");
            format!(
                ", of which {count} {} for a person (`{inbox}`)",
                if count == 1 { "waits" } else { "wait" }
            )
        }
    };
    let name = &trigger.agent_name;
    Some(format!("{name} holds back {events} until a run ends: it has {runs}{waiting}"))
}

fn show_firings(firings: &[Received<FiringView>]) -> Result<()> {
    let is_terminal = output::terminal_width().is_some();
    let cells = |firing: &Received<FiringView>| {
        let cause = match firing.event {
            Some(event) => {
                let id = firing.entity_id.map(|id| id.to_string()).unwrap_or_default();
                let version = firing.entity_version.map_or("null".to_owned(), |version| version.to_string());
                format!("{event} {} {id} v{version}", firing.entity_type.as_deref().unwrap_or_default())
            }
            None if is_terminal => format!("schedule {}", to_minutes(&time_text(firing.scheduled_at, ""))),
            None => format!("schedule {}", time_text(firing.scheduled_at, "")),
        };
        let started = firing.run_id.or(firing.workflow_id).map(|id| id.to_string());
        // On a terminal, the reasons follow below the table, because a cell has no room for them.
        let reason = firing.reason.clone().filter(|_| !is_terminal);
        vec![
            time_text(Some(firing.created_at), ""),
            firing_name(firing).to_owned(),
            cause,
            firing.status.to_string(),
            started.or(reason).unwrap_or_default(),
        ]
    };
    let rows: Vec<_> = firings.iter().map(cells).collect();
    if rows.is_empty() {
        return output::print_list(&FIRING_HEADERS, &rows, ("trigger list", "lists what would fire"));
    }
    if !is_terminal {
        return output::print_table(&FIRING_HEADERS, &rows);
    }
    // Every cell is needed to tell a firing from others, so a narrow terminal shows them below each other.
    output::print_compact_table(&SHORT_FIRING_HEADERS, &rows, &SHORT_FIRING_HEADERS)?;
    for (reason, count) in firing_reasons(firings.iter().map(|firing| &**firing)) {
        let times = if count > 1 { format!(" ({count} times)") } else { String::new() };
        output::print_item(&format!("{} ", output::red("✗")), &format!("{reason}{times}"))?;
    }
    Ok(())
}

/// The length of a time up to its minutes: `2026-01-31T00:00`.
const MINUTES_LENGTH: usize = 16;

const FIRING_HEADERS: [&str; 5] = ["AT", "AGENT OR TRIGGER", "WHAT", "STATUS", "STARTED OR REASON"];
/// The headers on a terminal, where the reasons are not in the table.
const SHORT_FIRING_HEADERS: [&str; 5] = ["AT", "TRIGGER", "WHAT", "STATUS", "STARTED"];

/// The trigger that fired: its own name, or that of its agent.
fn firing_name(firing: &FiringView) -> &str {
    firing.trigger_name.as_deref().unwrap_or(&firing.agent_name)
}

/// Why firings started nothing, each reason once, with how many firings have it.
fn firing_reasons<'a>(firings: impl Iterator<Item = &'a FiringView>) -> Vec<(String, usize)> {
    let mut reasons: Vec<(String, usize)> = Vec::new();
    for firing in firings.filter(|firing| firing.run_id.is_none() && firing.workflow_id.is_none()) {
        let Some(reason) = &firing.reason else { continue };
        let text = format!("{} was {}: {reason}", firing_name(firing), firing.status);
        match reasons.iter_mut().find(|(known, _)| *known == text) {
            Some((_, count)) => *count += 1,
            None => reasons.push((text, 1)),
        }
    }
    reasons
}

/// A time without fractions of a second; `fallback` when there is none.
fn time_text(time: Option<Timestamp>, fallback: &str) -> String {
    let Some(time) = time.map(|time| time.to_string()) else { return fallback.to_owned() };
    match time.split_once('.') {
        Some((seconds, _)) => format!("{seconds}Z"),
        None => time,
    }
}

/// A time up to its minutes, as tables show it on a terminal.
fn to_minutes(time: &str) -> String {
    time.get(..MINUTES_LENGTH).unwrap_or(time).replace('T', " ")
}
