//! `emergent discussion`: lists discussions, shows one, or decides an escalated one.

use emergent_domain::foreign_json;
use emergent_wire::{
    discussion::{DecideDiscussion, DiscussionSummaryView, DiscussionView, EntryView},
    task::TaskView,
};
use serde::Deserialize;
use serde_json::Value;

use super::{
    encode,
    resolve::{DISCUSSIONS, resolve_id},
    task::resolve_task,
    watch_workflow,
};
use crate::{
    client::{Client, Received},
    error::Result,
    hints,
    output::{self, bold, dim},
    printable::printable_line,
};

/// The type of the entries that can be accepted.
const PROPOSAL: &str = "proposal";

#[derive(Debug, clap::Subcommand)]
pub enum Discussion {
    /// List the discussions, newest first
    ///
    /// A task has a discussion if other agents review its result, or if its agent started one.
    List {
        /// Only with this status: active, resolved, escalated, abandoned
        #[arg(long)]
        status: Option<String>,
        /// Only of this task: an id, the end of an id, a unique key, or WORKFLOW/KEY, such as last/design
        #[arg(long)]
        task: Option<String>,
        /// At most this many
        #[arg(long, default_value_t = 20)]
        limit: u32,
    },
    /// Show what was said by whom, and what came of it
    Show {
        /// An id, the end of an id, or `last`
        discussion: String,
    },
    /// Decide a discussion that is escalated; its workflow goes on
    Decide {
        /// An id, the end of an id, or `last`
        discussion: String,
        /// In words, or as JSON
        decision: String,
        /// Why, for the agents and the record
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
}

impl Discussion {
    pub async fn run(self, client: &Client, as_json: bool) -> Result<()> {
        let discussion: Received<DiscussionView> = match self {
            Discussion::List { status, task, limit } => {
                return list(client, status, task, limit, as_json).await;
            }
            Discussion::Show { discussion } => {
                client.get(&path(client, &discussion).await?).await?.data().await?
            }
            Discussion::Decide { discussion, decision, reason } => {
                // Anything but a JSON object is text, also `42` and `true`.
                let decision = match foreign_json::from_str::<Value>(&decision) {
                    Ok(value) if value.is_object() => value,
                    _ => Value::String(decision),
                };
                let body = DecideDiscussion { decision, reason };
                let path = format!("{}/decide", path(client, &discussion).await?);
                let decided: Received<DiscussionView> = client.post(&path, &body).await?.data().await?;
                print(&decided, as_json)?;
                warn_if_not_driven(client, &decided.id.to_string()).await;
                return Ok(());
            }
        };
        print(&discussion, as_json)
    }
}

/// Tells the user on a data folder that no server drives the workflow of a decided discussion, if it can go on: it may wait
/// for a person elsewhere.
pub async fn warn_if_not_driven(client: &Client, discussion: &str) {
    if client.is_sole_driver()
        && let Ok(Some(workflow)) = active_workflow(client, discussion).await
    {
        watch_workflow::warn_if_not_driven(client, &workflow);
    }
}

/// The id of the workflow of a discussion, unless it waits or has ended; `None` if the discussion has none.
async fn active_workflow(client: &Client, discussion: &str) -> Result<Option<String>> {
    let path = format!("/api/coordination/discussions/{}", encode(discussion));
    let discussion: Received<DiscussionView> = client.get(&path).await?.data().await?;
    let Some(task) = &discussion.task_id else { return Ok(None) };
    let path = format!("/api/coordination/tasks/{}", encode(task));
    let task: Received<TaskView> = client.get(&path).await?.data().await?;
    let Some(workflow) = task.workflow_id.map(|id| id.to_string()) else { return Ok(None) };
    let is_active = watch_workflow::get(client, &workflow).await?.facts.status.is_active();
    Ok(is_active.then_some(workflow))
}

async fn list(
    client: &Client,
    status: Option<String>,
    task: Option<String>,
    limit: u32,
    as_json: bool,
) -> Result<()> {
    let task = match task {
        Some(task) => Some(resolve_task(client, &task).await?),
        None => None,
    };
    let mut path = "/api/coordination/discussions?".to_owned();
    for (name, value) in [("status", status), ("taskId", task)] {
        if let Some(value) = value {
            path.push_str(&format!("&{name}={}", encode(&value)));
        }
    }
    let discussions: Vec<Received<DiscussionSummaryView>> = client.get_limited(&path, limit).await?;
    if as_json {
        return output::print_json(&discussions);
    }
    let row = |discussion: &Received<DiscussionSummaryView>| {
        // Before it is resolved, it is the share of the option that leads, which may be the one for changes.
        let agreement = discussion.consensus_level.filter(|_| discussion.status == "resolved");
        let agreement = agreement.map_or("–".to_owned(), |level| format!("{:.0} %", level * 100.0));
        vec![
            discussion.id.to_string(),
            discussion.status.clone(),
            discussion.kind.clone(),
            agreement,
            discussion.participants.join(", "),
            discussion.topic.clone(),
        ]
    };
    let rows: Vec<_> = discussions.iter().map(row).collect();
    output::print_list(
        &["ID", "STATUS", "KIND", "AGREED", "PARTICIPANTS", "TOPIC"],
        &rows,
        ("workflow list", "lists the workflows, whose tasks are discussed"),
    )?;
    if discussions.iter().any(|discussion| discussion.status == "escalated") {
        let decide = hints::command("discussion decide ID DECISION");
        output::print_dim(&format!("Escalated ones wait for you: {decide}"))?;
    }
    Ok(())
}

/// The API path of the discussion that a person names.
async fn path(client: &Client, reference: &str) -> Result<String> {
    let id = resolve_id(client, &DISCUSSIONS, reference).await?;
    Ok(format!("/api/coordination/discussions/{}", encode(&id)))
}

/// The shown part of `escalation`, whose JSON has no fixed type in the API.
#[derive(Deserialize)]
struct Escalation {
    #[serde(default)]
    reason: String,
    #[serde(default)]
    options: Vec<String>,
}

/// The shown part of a decision. Agents and people write different fields.
#[derive(Default, Deserialize)]
struct Decision {
    text: Option<String>,
    decision: Option<String>,
}

/// Prints what a person decides about: why, the last proposal, and what was said before and after it.
pub fn print_undecided(discussion: &DiscussionView) -> Result<()> {
    let escalation = discussion.escalation.as_ref().and_then(|value| Escalation::deserialize(value).ok());
    if let Some(escalation) = escalation.filter(|escalation| !escalation.reason.is_empty()) {
        output::print_fact("why", &escalation.reason)?;
    }
    let entries = &discussion.entries;
    let last_proposal = entries.iter().rposition(|entry| entry.entry_type == PROPOSAL);
    for (index, entry) in entries.iter().enumerate().skip(first_to_decide_on(entries)) {
        let label = if Some(index) == last_proposal { "the last proposal" } else { &entry.entry_type };
        print_entry(entry, label)?;
    }
    output::print_line("")
}

/// Where what a person decides on begins: after the last proposal but one, since what was said about that led to the
/// last; with one proposal, there; without any, with the last round.
fn first_to_decide_on(entries: &[EntryView]) -> usize {
    let is_proposal = |entry: &EntryView| entry.entry_type == PROPOSAL;
    let mut proposals = entries.iter().enumerate().rev().filter(|(_, entry)| is_proposal(entry));
    match (proposals.next(), proposals.next()) {
        (_, Some((before, _))) => before + 1,
        (Some((only, _)), None) => only,
        (None, None) => {
            let last_round = entries.iter().filter_map(|entry| entry.round).max();
            entries.iter().position(|entry| entry.round == last_round).unwrap_or(0)
        }
    }
}

fn print_entry(entry: &EntryView, label: &str) -> Result<()> {
    let round = entry.round.filter(|round| *round > 1);
    let round = round.map(|round| format!(", round {round}")).unwrap_or_default();
    let entry_label = dim(&printable_line(&format!("{label}{round}")));
    output::print_line(&format!("\n{}  {entry_label}", bold(&printable_line(&entry.agent))))?;
    output::print_text(&entry.content)?;
    match &entry.option {
        Some(option) => output::print_item("for: ", option),
        None => Ok(()),
    }
}

fn print(discussion: &Received<DiscussionView>, as_json: bool) -> Result<()> {
    if as_json { output::print_json(discussion) } else { print_discussion(discussion) }
}

fn print_discussion(discussion: &DiscussionView) -> Result<()> {
    let (kind, status) = (printable_line(&discussion.kind), &*printable_line(&discussion.status));
    output::print_coloured_text(&format!("{}  {kind}  {status}", bold(&discussion.topic)))?;
    for entry in &discussion.entries {
        print_entry(entry, &entry.entry_type)?;
    }
    let escalation = discussion.escalation.as_ref().and_then(|value| Escalation::deserialize(value).ok());
    let is_open = status == "escalated" && discussion.decided_by_person.is_none();
    if let Some(escalation) = escalation.filter(|_| is_open) {
        output::print_text(&format!("\nA person has to decide: {}", escalation.reason))?;
        for option in escalation.options {
            output::print_item("  - ", &option)?;
        }
    }
    for (label, value) in
        [("decided by a person", &discussion.decided_by_person), ("decision", &discussion.final_decision)]
    {
        if let Some(value) = value.as_ref().filter(|value| value.is_object()) {
            let Decision { text, decision } = Decision::deserialize(value).unwrap_or_default();
            let text = text.or(decision).unwrap_or_else(|| value.to_string());
            output::print_text(&format!("\n{label}: {text}"))?;
        }
    }
    Ok(())
}
