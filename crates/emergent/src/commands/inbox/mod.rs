//! `emergent inbox`: lists what a person has to decide, and decides it.

mod options;
mod review;
mod review_escalated;
mod show;

use std::path::{Path, PathBuf};

use emergent_domain::{
    approval::{ApprovalKind, ApprovalStatus, Choice},
    foreign_json,
    text::on_one_line,
};
use emergent_wire::{
    approval::{ApprovalView, DecideApproval, EscalatedItemView, InboxDetailView, InboxItemView, InboxKind},
    token::TokenView,
};
use serde_json::Value;
use uuid::Uuid;

use super::{
    confirm, discussion, encode, read_json_file,
    resolve::{INBOX, LAST, resolve_id},
    watch_run, watch_workflow,
};
use crate::{
    cells::cell,
    client::{Client, Received},
    error::{Error, Result},
    hints,
    output::{self, first_line},
    printable::printable_line,
    text::short_id,
};
pub use review::{Reviewed, review_request};
use show::{choice_word, print_decided, print_escalated, print_escalated_decision, print_request};

const TITLE_CHARS: usize = 60;
/// How much of an edited input a question shows.
const MAX_INPUT_CHARS: usize = 1_000;
/// Where the time of a timestamp begins and ends, in minutes: `00:00`.
const TIME_START: usize = 11;
const TIME_END: usize = 16;

#[derive(Debug, clap::Subcommand)]
pub enum Inbox {
    /// List what waits for a person, newest first
    List {
        /// Also what is decided, expired or withdrawn
        #[arg(long, conflicts_with = "status")]
        all: bool,
        /// Only with this status: pending, decided, expired, withdrawn
        #[arg(long)]
        status: Option<String>,
        /// Only of this kind: approval, question, discussion, escalation, client_tool
        #[arg(long)]
        kind: Option<String>,
        /// At most this many
        #[arg(long, default_value_t = 50)]
        limit: u32,
    },
    /// Show what has to be decided, with all details
    Show {
        /// An id, the end of an id, or `last`
        request: String,
    },
    /// Go through what waits, one by one, and decide with keys
    Review,
    /// Approve a tool call as it is, resume a workflow, or accept the last proposal of a discussion
    Approve {
        /// An id, the end of an id, or `last`, the newest that waits
        request: String,
        /// Why, for the record
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
        /// With `last`, decide without asking; a script needs it for a workflow or a discussion
        #[arg(long, short)]
        yes: bool,
    },
    /// Approve a tool call with another input, which replaces the whole input
    Edit {
        /// An id, the end of an id, or `last`, the newest that waits
        request: String,
        /// The input as a JSON object
        #[arg(long, value_name = "JSON", required_unless_present = "input_file")]
        input: Option<String>,
        /// A file with the input; `-` is standard input
        #[arg(long, value_name = "FILE", conflicts_with = "input")]
        input_file: Option<PathBuf>,
        /// Why, for the record
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
        /// With `last`, decide without asking; a script needs it for a workflow or a discussion
        #[arg(long, short)]
        yes: bool,
    },
    /// Deny a tool call, leave a question unanswered, or cancel a workflow
    Deny {
        /// An id, the end of an id, or `last`, the newest that waits
        request: String,
        /// Why, for the agent and the record
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
        /// With `last`, decide without asking; a script needs it for a workflow or a discussion
        #[arg(long, short)]
        yes: bool,
    },
    /// Answer a question, give a discussion its outcome, or choose an option of a workflow
    Answer {
        /// An id, the end of an id, or `last`, the newest that waits
        request: String,
        /// In words, or the number of an option; as JSON if the question asks for more than a text
        answer: String,
        /// With `last`, decide without asking; a script needs it for a workflow or a discussion
        #[arg(long, short)]
        yes: bool,
    },
}

impl Inbox {
    pub async fn run(self, client: &Client, as_json: bool) -> Result<()> {
        match self {
            Inbox::List { all, status, kind, limit } => {
                let status = if all { None } else { Some(status.unwrap_or_else(|| "pending".to_owned())) };
                list(client, status.as_deref(), kind.as_deref(), limit, as_json).await
            }
            Inbox::Show { request } => {
                let item = load_item(client, &request).await?;
                match &*item {
                    _ if as_json => output::print_json(&item),
                    InboxDetailView::Request(request) => print_request(client, request).await,
                    InboxDetailView::Escalated(item) => print_escalated(client, item).await,
                }
            }
            Inbox::Review => review::review(client).await,
            Inbox::Approve { request, reason, yes } => {
                let item = load_to_decide(client, &request, Deciding::Approve, yes).await?;
                decide(client, &item, decision(Choice::Approve, reason), as_json).await
            }
            Inbox::Edit { request, input, input_file, reason, yes } => {
                let input = read_input(input.as_deref(), input_file.as_deref())?;
                let item = load_to_decide(client, &request, Deciding::Edit(&input), yes).await?;
                let body = DecideApproval { edited_input: Some(input), ..decision(Choice::Approve, reason) };
                decide(client, &item, body, as_json).await
            }
            Inbox::Deny { request, reason, yes } => {
                let item = load_to_decide(client, &request, Deciding::Deny, yes).await?;
                decide(client, &item, decision(Choice::Deny, reason), as_json).await
            }
            Inbox::Answer { request, answer, yes } => {
                let item = load_to_decide(client, &request, Deciding::Answer(&answer), yes).await?;
                let answer = match &*item {
                    InboxDetailView::Request(request) => parse_answer(request, answer)?,
                    InboxDetailView::Escalated(item) if item.kind == InboxKind::Escalation => {
                        return options::carry_out(client, item, &answer, as_json).await;
                    }
                    InboxDetailView::Escalated(item) => discussion::parse_decision(&item.options, &answer)?,
                };
                let body = DecideApproval { answer: Some(answer), ..decision(Choice::Answer, None) };
                decide(client, &item, body, as_json).await
            }
        }
    }
}

/// What a command is about to do with an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Deciding<'a> {
    Approve,
    /// With this input in place of the one that the agent wrote.
    Edit(&'a Value),
    Deny,
    /// With this answer.
    Answer(&'a str),
}

impl Deciding<'_> {
    /// What becomes of the item, in words.
    fn describe(self, item: &InboxDetailView) -> String {
        match (self, item) {
            (Self::Approve, InboxDetailView::Request(request)) => {
                format!(
                    "approve the call {} of {}",
                    one_line(&request.title),
                    printable_line(&request.agent_name)
                )
            }
            (Self::Edit(input), InboxDetailView::Request(request)) => {
                let (tool, agent) = (printable_line(&request.tool_name), printable_line(&request.agent_name));
                let input = one_line(&first_line(&input.to_string(), MAX_INPUT_CHARS));
                format!("approve the call {tool} of {agent} with the new input {input}")
            }
            (Self::Deny, InboxDetailView::Request(request)) => {
                format!("deny \"{}\" of {}", one_line(&request.title), printable_line(&request.agent_name))
            }
            (Self::Answer(answer), InboxDetailView::Request(request)) => {
                let options = request.question.as_ref().map_or(&[][..], |question| &question.options);
                let answer = first_line(&option_of(options, answer), TITLE_CHARS);
                let agent = printable_line(&request.agent_name);
                format!("answer \"{answer}\" to \"{}\" of {agent}", one_line(&request.title))
            }
            (deciding, InboxDetailView::Escalated(item)) => {
                let verb = match (deciding, item.kind) {
                    (Self::Approve | Self::Edit(_), InboxKind::Escalation) => {
                        "resume the workflow".to_owned()
                    }
                    (Self::Deny, InboxKind::Escalation) => "cancel the workflow".to_owned(),
                    (Self::Answer(answer), InboxKind::Escalation) => {
                        options::describe(&option_of(&item.options, answer.trim()))
                    }
                    (Self::Approve | Self::Edit(_), _) => {
                        "accept the last proposal of the discussion".to_owned()
                    }
                    (Self::Deny, _) => "cancel the workflow of the discussion".to_owned(),
                    (Self::Answer(answer), _) => {
                        return discussion::describe_decision(&option_of(&item.options, answer), &item.title);
                    }
                };
                format!("{verb} \"{}\"", first_line(&item.title, TITLE_CHARS))
            }
        }
    }
}

/// The title of a request on one line. A model wrote a part of it, and a line break or a colour in it could look like
/// what this program says.
fn one_line(title: &str) -> String {
    printable_line(&on_one_line(title)).into_owned()
}

/// Loads the item that a person names, checks that it waits, and says what is decided. What `last` is may have changed
/// since the person looked: at a terminal the person is asked, and in a script a workflow or a discussion needs its id
/// or `--yes`.
async fn load_to_decide(
    client: &Client,
    reference: &str,
    deciding: Deciding<'_>,
    yes: bool,
) -> Result<Received<InboxDetailView>> {
    let item = load_item(client, reference).await?;
    check_pending(client, &item).await?;
    check_choice(&item, deciding)?;
    // Nobody is asked about an answer that would be refused.
    if let Deciding::Answer(answer) = deciding {
        check_answer(client, &item, answer).await?;
    }
    let what = deciding.describe(&item);
    if reference != LAST || yes {
        output::print_notice(&what);
        return Ok(item);
    }
    match &*item {
        InboxDetailView::Escalated(escalated) => confirm::confirm_final_of_last(&what, escalated.id)?,
        InboxDetailView::Request(_) => confirm::ask_about_last(reference, yes, &what)?,
    }
    Ok(item)
}

fn decision(decision: Choice, reason: Option<String>) -> DecideApproval {
    DecideApproval { decision, edited_input: None, answer: None, reason, digest: None }
}

async fn list(
    client: &Client,
    status: Option<&str>,
    kind: Option<&str>,
    limit: u32,
    as_json: bool,
) -> Result<()> {
    let parameter = |name: &str, value: Option<&str>| {
        value.map(|value| format!("&{name}={}", encode(value))).unwrap_or_default()
    };
    let wanted = status;
    let (of_status, of_kind) = (parameter("status", status), parameter("kind", kind));
    let path = format!("/api/approvals?{of_status}{of_kind}");
    let items: Vec<Received<InboxItemView>> = client.get_limited(&path, limit).await?;
    if as_json {
        return output::print_json(&items);
    }
    if items.is_empty() {
        return output::print_text(&none_text(wanted, kind));
    }
    let rows: Vec<Vec<String>> = items.iter().map(|item| row(item)).collect();
    // With one status, its column says nothing.
    let optional: &[&str] = if wanted.is_some() { &["STATUS", "SINCE"] } else { &["SINCE"] };
    let headers = ["ID", "KIND", "STATUS", "AGENT", "SINCE", "WHAT"];
    output::print_table_with_optional(&headers, &rows, &["STATUS"], optional)
}

/// What a list without items says.
fn none_text(status: Option<&str>, kind: Option<&str>) -> String {
    let kind = kind.map(|kind| format!(" of the kind {kind}")).unwrap_or_default();
    match status {
        Some("pending") if kind.is_empty() => "Nothing waits for a person.".to_owned(),
        Some("pending") => format!("Nothing{kind} waits for a person."),
        Some(status) => format!("Nothing{kind} is {status}."),
        None => format!("Nothing{kind} has waited for a person."),
    }
}

fn row(item: &InboxItemView) -> Vec<String> {
    let status = if item.overdue { "overdue".to_owned() } else { item.status.to_string() };
    vec![
        item.id.to_string(),
        item.kind.as_str().to_owned(),
        status,
        item.agent_name.clone().unwrap_or_else(|| "–".to_owned()),
        item.created_at.to_string(),
        cell(&item.title, TITLE_CHARS),
    ]
}

/// Loads a call or a question by its id.
pub async fn load(client: &Client, id: &str) -> Result<Received<ApprovalView>> {
    client.get(&format!("/api/approvals/{}", encode(id))).await?.data().await
}

/// Loads the item that a person names.
async fn load_item(client: &Client, reference: &str) -> Result<Received<InboxDetailView>> {
    let id = match reference {
        LAST => newest_pending(client).await?,
        _ => resolve_id(client, &INBOX, reference).await?,
    };
    load_detail(client, &id).await
}

/// Loads an item by its id.
async fn load_detail(client: &Client, id: &str) -> Result<Received<InboxDetailView>> {
    client.get(&format!("/api/approvals/{}", encode(id))).await?.data().await
}

/// What [`LAST`] is here: the newest item that waits.
async fn newest_pending(client: &Client) -> Result<String> {
    let items: Vec<Received<InboxItemView>> = client.get_newest("/api/approvals?status=pending", 1).await?;
    items.first().map(|item| item.id.to_string()).ok_or_else(|| {
        let list = hints::command("inbox list --all");
        Error::Usage(format!("nothing waits for a person (`{list}` lists what was decided)"))
    })
}

/// Refuses an item about which nothing can be decided any more: says what was decided, by whom and when.
async fn check_pending(client: &Client, item: &InboxDetailView) -> Result<()> {
    let (id, kind, about, status, decision) = match item {
        InboxDetailView::Request(request) => {
            (request.id, "request", &request.tool_name, request.status, &request.decision)
        }
        InboxDetailView::Escalated(item) => {
            (item.id, item.kind.as_str(), &item.title, item.status, &item.decision)
        }
    };
    if status == ApprovalStatus::Pending {
        return Ok(());
    }
    let id = id.to_string();
    let (id, about) = (short_id(&id), first_line(about, TITLE_CHARS));
    let Some(decision) = decision else {
        return Err(Error::Usage(format!("the {kind} {id} about {about} was already {status}")));
    };
    let word = choice_word(status, decision);
    let at = decision.at.to_string();
    let time = at.get(TIME_START..TIME_END).unwrap_or(&at);
    let by = match decision.token_id {
        Some(token) => token_name(client, token).await.map(|name| format!("by {name}, ")).unwrap_or_default(),
        None => String::new(),
    };
    Err(Error::Usage(format!("the {kind} {id} about {about} was already {word} ({by}{time} UTC)")))
}

/// Refuses to approve a question and to answer a call, and says what to do instead.
fn check_choice(item: &InboxDetailView, deciding: Deciding<'_>) -> Result<()> {
    let InboxDetailView::Request(request) = item else { return Ok(()) };
    let id = request.id.to_string();
    let (is, instead) = match (deciding, request.kind) {
        (Deciding::Approve | Deciding::Edit(_), ApprovalKind::Question) => {
            ("a question, which is answered", format!("inbox answer {} ANSWER", short_id(&id)))
        }
        (Deciding::Answer(_), ApprovalKind::Approval) => {
            ("a tool call, which is approved or denied", format!("inbox approve {}", short_id(&id)))
        }
        _ => return Ok(()),
    };
    let (title, command) = (first_line(&request.title, TITLE_CHARS), hints::command(&instead));
    Err(Error::Usage(format!("\"{title}\" is {is}: `{command}`")))
}

/// Refuses an answer that is none of the options, where only these can be chosen, and an option that needs more than its
/// name.
async fn check_answer(client: &Client, item: &InboxDetailView, answer: &str) -> Result<()> {
    match item {
        InboxDetailView::Escalated(item) if item.kind == InboxKind::Escalation => {
            options::check(client, item, answer).await
        }
        InboxDetailView::Escalated(item) => discussion::parse_decision(&item.options, answer).map(drop),
        InboxDetailView::Request(request) => {
            let Some(question) = &request.question else { return Ok(()) };
            let is_free = question.options.is_empty() || question.response_schema.is_some();
            if is_free || question.options.contains(&option_of(&question.options, answer)) {
                return Ok(());
            }
            let options = question.options.join("`, `");
            Err(Error::Usage(format!("the answer must be one of `{options}`, or the number of one")))
        }
    }
}

/// The option that a text names by its number, or the text itself.
fn option_of(options: &[String], text: &str) -> String {
    option_by_number(options, text).unwrap_or_else(|| text.to_owned())
}

/// The name of a token; `None` if this caller may not read it.
async fn token_name(client: &Client, id: Uuid) -> Option<String> {
    let tokens: Vec<Received<TokenView>> = client.get_all_pages("/api/tokens").await.ok()?;
    tokens.iter().find(|token| token.id == id).map(|token| token.name.clone())
}

/// Sends a decision about exactly the item that was loaded. On a data folder without a server, says what goes on with the
/// work.
async fn decide(client: &Client, item: &InboxDetailView, body: DecideApproval, as_json: bool) -> Result<()> {
    let is_denied = body.decision == Choice::Deny;
    match item {
        InboxDetailView::Request(request) => {
            send(client, request, body, as_json).await?;
            watch_run::warn_if_not_driven(client, &request.run_id.to_string()).await;
        }
        InboxDetailView::Escalated(item) => {
            send_escalated(client, item, body, as_json).await?;
            let id = item.id.to_string();
            match item.kind {
                // The workflow of a denied item is cancelled.
                _ if is_denied => {}
                InboxKind::Escalation => watch_workflow::warn_if_not_driven(client, &id),
                _ => discussion::warn_if_not_driven(client, &id).await,
            }
        }
    }
    Ok(())
}

async fn send_escalated(
    client: &Client,
    item: &EscalatedItemView,
    body: DecideApproval,
    as_json: bool,
) -> Result<()> {
    let path = format!("/api/approvals/{}/decide", item.id);
    let decided: Received<EscalatedItemView> = client.post(&path, &body).await?.data().await?;
    if as_json { output::print_json(&decided) } else { print_escalated_decision(&decided) }
}

async fn send(client: &Client, request: &ApprovalView, body: DecideApproval, as_json: bool) -> Result<()> {
    let body = DecideApproval { digest: Some(request.digest.clone()), ..body };
    let path = format!("/api/approvals/{}/decide", request.id);
    let decided: Received<ApprovalView> = client.post(&path, &body).await?.data().await?;
    if as_json { output::print_json(&decided) } else { print_decided(&decided) }
}

fn read_input(input: Option<&str>, file: Option<&Path>) -> Result<Value> {
    let value: Value = match (input, file) {
        (Some(text), _) => foreign_json::from_str(text)
            .map_err(|error| Error::Usage(format!("--input is not JSON: {error}")))?,
        (None, Some(file)) => read_json_file(file)?,
        (None, None) => Value::Null,
    };
    if value.is_object() { Ok(value) } else { Err(Error::Usage("the input must be a JSON object".into())) }
}

/// A question with a schema is answered with JSON, one with options also with the number of an option, and every
/// other one with a text.
fn parse_answer(request: &ApprovalView, answer: String) -> Result<Value> {
    let question = request.question.as_ref();
    let options = question.map(|question| question.options.as_slice()).unwrap_or_default();
    if let Some(option) = option_by_number(options, &answer) {
        return Ok(Value::String(option));
    }
    if question.is_none_or(|question| question.response_schema.is_none()) {
        return Ok(Value::String(answer));
    }
    // A schema may ask for a text as well, which people write without quotes.
    Ok(foreign_json::from_str(&answer).unwrap_or(Value::String(answer)))
}

/// The option with this number, from 1. A text that is an option itself is no number.
pub fn option_by_number(options: &[String], text: &str) -> Option<String> {
    let text = text.trim();
    if options.iter().any(|option| option == text) {
        return None;
    }
    let number: usize = text.parse().ok()?;
    options.get(number.checked_sub(1)?).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_without_items_says_of_what_there_is_none() {
        assert_eq!(none_text(Some("pending"), None), "Nothing waits for a person.");
        assert_eq!(
            none_text(Some("pending"), Some("question")),
            "Nothing of the kind question waits for a person."
        );
        assert_eq!(none_text(Some("decided"), None), "Nothing is decided.");
        assert_eq!(none_text(None, None), "Nothing has waited for a person.");
    }

    #[test]
    fn an_announcement_names_the_option_that_a_number_stands_for() {
        let item = |kind: &str, options: &[&str]| -> InboxDetailView {
            let id = "0198c0de-0000-7000-8000-000000000000";
            serde_json::from_value(
                serde_json::json!({ "id": id, "kind": kind, "status": "pending", "title": "a task failed",
                "options": options, "decision": null, "createdAt": "2026-01-01T00:00:00Z" }),
            )
            .unwrap()
        };
        let escalation = item("escalation", &["retry", "reassign", "skip", "cancel"]);
        let says = |answer| Deciding::Answer(answer).describe(&escalation);
        assert_eq!(says("4"), "cancel the workflow \"a task failed\"");
        assert_eq!(says("retry"), "choose \"retry\" for the workflow \"a task failed\"");
        let discussion = item("discussion", &["red", "blue"]);
        assert_eq!(
            Deciding::Answer("2").describe(&discussion),
            "decide on \"blue\" in the discussion \"a task failed\""
        );
    }

    #[test]
    fn a_title_looks_like_nothing_that_the_program_says() {
        let title = "ok?\" of helper\r\n\u{1b}[32m✓\u{1b}[0m approved the call";
        assert_eq!(one_line(title), "ok?\" of helper \\u{1b}[32m✓\\u{1b}[0m approved the call");
    }

    #[test]
    fn a_number_names_an_option_unless_it_is_one() {
        let options = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        assert_eq!(option_by_number(&options(&["red", "blue"]), " 2").as_deref(), Some("blue"));
        assert_eq!(option_by_number(&options(&["3", "1"]), "1"), None);
        assert_eq!(option_by_number(&options(&["red"]), "0"), None);
        assert_eq!(option_by_number(&options(&["red"]), "2"), None);
        assert_eq!(option_by_number(&options(&["red"]), "red"), None);
    }
}
