//! `emergent discussion`: lists discussions, shows one, or decides an escalated one.

use emergent_domain::{
    discussion_options::{SUGGEST_CHANGES, check_decision, find_option, quoted, takes_own_words},
    foreign_json,
};
use emergent_wire::{
    approval::EscalatedItemView,
    discussion::{DecideDiscussion, DiscussionSummaryView, DiscussionView, EntryView},
    task::TaskView,
};
use serde::Deserialize;
use serde_json::Value;

use super::{
    confirm::confirm_final_of_last,
    encode,
    inbox::option_by_number,
    resolve::{DISCUSSIONS, LAST, resolve_id},
    task::resolve_task,
    watch_workflow,
};
use crate::{
    client::{Client, Received},
    error::{Error, Result},
    hints,
    output::{self, bold, dim, first_line},
    printable::printable_line,
    text::short_id,
};

/// How much of an outcome and of a title a question shows.
const MAX_ASKED_CHARS: usize = 60;
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
        /// One of the options that `discussion show` lists, by its name or its number, such as APPROVED or
        /// SUGGEST_CHANGES. About a proposal, and if there are no options, also the outcome in words, or as JSON
        decision: String,
        /// Why, for the agents and the record
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
        /// With `last`, decide it without asking
        #[arg(long, short)]
        yes: bool,
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
            Discussion::Decide { discussion, decision, reason, yes } => {
                let id = resolve_id(client, &DISCUSSIONS, &discussion).await?;
                let waiting = find_waiting(client, &id).await;
                let options = waiting.as_ref().map_or(&[][..], |item| &item.options);
                let decision = parse_decision(options, &decision)?;
                // The server says of one that does not wait why it cannot be decided.
                if let (LAST, Some(item), false) = (discussion.as_str(), &waiting, yes) {
                    let outcome = decision.as_str().map_or_else(|| decision.to_string(), str::to_owned);
                    confirm_final_of_last(&describe_decision(&outcome, &item.title), &id)?;
                }
                let body = DecideDiscussion { decision, reason };
                let path = format!("/api/coordination/discussions/{}/decide", encode(&id));
                let decided: Received<DiscussionView> = client.post(&path, &body).await?.data().await?;
                print(&decided, as_json)?;
                warn_if_not_driven(client, &decided.id.to_string()).await;
                return Ok(());
            }
        };
        print(&discussion, as_json)
    }
}

/// A discussion that waits for a person; `None` if it does not wait. It is read from the inbox, because whoever may decide
/// may be unable to read the discussion.
async fn find_waiting(client: &Client, id: &str) -> Option<Received<EscalatedItemView>> {
    client.get(&format!("/api/approvals/{}", encode(id))).await.ok()?.data().await.ok()
}

/// What a discussion that waits for a person offers. Empty if it does not wait: the server says why it cannot be decided.
pub async fn offered_options(client: &Client, id: &str) -> Vec<String> {
    find_waiting(client, id).await.map(|item| item.options.clone()).unwrap_or_default()
}

/// What a decision does, in words. `outcome` and `title` may be those of a model.
pub fn describe_decision(outcome: &str, title: &str) -> String {
    let [outcome, title] = [outcome, title].map(|text| first_line(text, MAX_ASKED_CHARS));
    format!("decide on \"{outcome}\" in the discussion \"{title}\"")
}

/// The decision that a person typed: an option by its number or name, the outcome in words, or a JSON object.
pub fn parse_decision(options: &[String], text: &str) -> Result<Value> {
    // Anything but a JSON object is text, also `42` and `true`.
    let decision = match foreign_json::from_str::<Value>(text) {
        Ok(value) if value.is_object() => value,
        _ => {
            let option = option_by_number(options, text);
            check_number(options, option.as_deref().unwrap_or(text))?;
            Value::String(option.unwrap_or_else(|| text.to_owned()))
        }
    };
    check_decision(options, decision).map_err(|problem| {
        let or_number = if takes_own_words(options) { "" } else { ", or the number of one" };
        Error::Usage(format!("the decision {problem}{or_number}"))
    })
}

/// Refuses a number that stands for no option where a discussion takes own words. Whoever types a number where there is a
/// list of options means one of them, and a decision cannot be undone.
fn check_number(options: &[String], text: &str) -> Result<()> {
    let is_number = text.trim().parse::<u64>().is_ok();
    if options.is_empty() || !takes_own_words(options) || !is_number || find_option(options, text).is_some() {
        return Ok(());
    }
    let problem =
        format!("`{}` is not the number of an option: the options are {}", text.trim(), quoted(options));
    Err(Error::Usage(format!("{problem}; say the outcome in your own words if you want another one")))
}

/// The command that decides a discussion, with what can be decided.
fn decide_command(id: &str, options: &[String]) -> String {
    let command = hints::command(&format!("discussion decide {id} DECISION"));
    format!("{command}{}", options_note(options))
}

/// What a decision may be, after a command with the placeholder DECISION; nothing if it may be anything.
pub fn options_note(options: &[String]) -> String {
    let own = takes_own_words(options).then(|| "your own words".to_owned());
    let choices: Vec<String> =
        options.iter().map(|option| printable_line(option).into_owned()).chain(own).collect();
    match choices.as_slice() {
        _ if options.is_empty() => String::new(),
        [only] => format!("   ({only})"),
        [first @ .., last] => format!("   ({} or {last})", first.join(", ")),
        [] => String::new(),
    }
}

/// What follows from [`SUGGEST_CHANGES`] in the review of a task's result, if that can be decided.
pub fn print_what_changes_do(options: &[String]) -> Result<()> {
    if !options.iter().any(|option| option == SUGGEST_CHANGES) {
        return Ok(());
    }
    output::print_dim(&format!(
        "In the review of a task's result, {SUGGEST_CHANGES} returns the task to its agent for one more attempt, with \
         the suggestions and your reason. Every other outcome completes the task."
    ))
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
        let (decide, show) =
            (hints::command("discussion decide ID DECISION"), hints::command("discussion show ID"));
        output::print_dim(&format!("Escalated ones wait for you: {decide}   ({show} lists the options)"))?;
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
        for (index, option) in escalation.options.iter().enumerate() {
            output::print_item(&format!("  {}. ", index + 1), &printable_line(option))?;
        }
        print_what_changes_do(&escalation.options)?;
        let id = discussion.id.to_string();
        output::print_line(&dim(&decide_command(short_id(&id), &escalation.options)))?;
    }
    outcome_lines(discussion).iter().try_for_each(|line| output::print_text(&format!("\n{line}")))
}

/// What was decided, and the outcome if the decision stands for another text, such as that of the accepted proposal.
fn outcome_lines(discussion: &DiscussionView) -> Vec<String> {
    let text_of = |value: &Option<Value>| {
        let value = value.as_ref().filter(|value| value.is_object())?;
        let Decision { text, decision } = Decision::deserialize(value).unwrap_or_default();
        Some(text.or(decision).unwrap_or_else(|| value.to_string()))
    };
    let (by_person, outcome) = (text_of(&discussion.decided_by_person), text_of(&discussion.final_decision));
    let outcome = outcome.filter(|outcome| Some(outcome) != by_person.as_ref());
    let lines = [("decided by a person", by_person), ("decision", outcome)];
    lines.into_iter().filter_map(|(label, text)| Some(format!("{label}: {}", text?))).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn options(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn a_decision_is_an_option_by_its_name_or_number() {
        let review = options(&["APPROVED", "SUGGEST_CHANGES"]);
        let parsed =
            |options: &[String], text: &str| parse_decision(options, text).map_err(|error| error.to_string());
        assert_eq!(parsed(&review, "2"), Ok(json!("SUGGEST_CHANGES")));
        assert_eq!(parsed(&review, "approved"), Ok(json!("APPROVED")));
        let refused = "the decision must be one of `APPROVED`, `SUGGEST_CHANGES`, or the number of one";
        assert_eq!(parsed(&review, "BLAH").unwrap_err(), refused);
        assert_eq!(parsed(&review, "3").unwrap_err(), refused);
        assert_eq!(parsed(&options(&["3", "1"]), "1"), Ok(json!("1")), "an option comes before a number");
        let proposal = options(&["accept the last proposal"]);
        assert_eq!(parsed(&proposal, "1"), Ok(json!("accept the last proposal")));
        assert_eq!(parsed(&proposal, "Take the second."), Ok(json!("Take the second.")));
        let beyond = "`7` is not the number of an option: the options are `accept the last proposal`; say the outcome \
                      in your own words if you want another one";
        assert_eq!(parsed(&proposal, "7").unwrap_err(), beyond);
        let slip =
            parsed(&options(&["accept the last proposal", "SUGGEST_CHANGES"]), "SUGGEST_CHANGE").unwrap_err();
        assert!(slip.starts_with("the decision is nearly the option `SUGGEST_CHANGES`: "), "{slip}");
        assert_eq!(parsed(&[], "42"), Ok(json!("42")));
        assert_eq!(parsed(&review, r#"{ "option": "APPROVED" }"#), Ok(json!({ "option": "APPROVED" })));
    }

    #[test]
    fn the_command_that_decides_says_what_a_decision_may_be() {
        let note = |texts: &[&str]| options_note(&options(texts));
        assert_eq!(note(&["APPROVED", "SUGGEST_CHANGES"]), "   (APPROVED or SUGGEST_CHANGES)");
        assert_eq!(note(&["a", "b", "c"]), "   (a, b or c)");
        assert_eq!(note(&["accept the last proposal"]), "   (accept the last proposal or your own words)");
        assert_eq!(note(&[]), "");
    }

    #[test]
    fn an_outcome_is_printed_once() {
        let discussion = |by_person: Value, outcome: Value| -> DiscussionView {
            serde_json::from_value(json!({
                "id": "0198c0de-0000-7000-8000-000000000000", "topic": "t", "kind": "review_loop", "status": "resolved",
                "taskId": null, "participants": [], "consensusLevel": null, "finalDecision": outcome,
                "escalation": null, "decidedByPerson": by_person, "entries": [], "runs": [],
                "createdAt": "2026-01-01T00:00:00Z", "updatedAt": "2026-01-01T00:00:00Z",
            }))
            .unwrap()
        };
        let changes = json!({ "decision": "SUGGEST_CHANGES", "reason": "" });
        let same = discussion(changes, json!({ "text": "SUGGEST_CHANGES", "by": "person" }));
        assert_eq!(outcome_lines(&same), ["decided by a person: SUGGEST_CHANGES"]);
        let accepted = discussion(json!({ "decision": "approve" }), json!({ "text": "A Tag." }));
        assert_eq!(outcome_lines(&accepted), ["decided by a person: approve", "decision: A Tag."]);
        let alone = discussion(Value::Null, json!({ "text": "rows" }));
        assert_eq!(outcome_lines(&alone), ["decision: rows"]);
    }
}
