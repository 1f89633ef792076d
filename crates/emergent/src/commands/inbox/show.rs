//! Prints a call that has to be approved, or a question, with what a person needs to decide about it.

use console::measure_text_width;
use emergent_domain::{
    approval::{ApprovalStatus, Choice},
    run::MessageRole,
};
use emergent_wire::{
    approval::{ApprovalView, DecisionView, EscalatedItemView, InboxKind},
    discussion::DiscussionView,
    run_detail::RunDetailView,
    run_message::{ContentView, RunMessageView},
};

use super::options;
use crate::{
    client::{Client, Received},
    commands::discussion::print_undecided,
    error::Result,
    hints,
    output::{self, bold, dim, first_line},
    text::{short_id, shorten_ids},
};

/// The input of the run and the text before the call are shortened to this length.
const CONTEXT_CHARS: usize = 300;

pub async fn print_request(client: &Client, request: &ApprovalView) -> Result<()> {
    let status = if request.overdue { "overdue".to_owned() } else { request.status.to_string() };
    output::print_line(&format!("{}  {}  {status}", bold(&request.tool_name), request.kind))?;
    output::print_fact("id", &request.id.to_string())?;
    output::print_fact("agent", &request.agent_name)?;
    output::print_fact("run", &request.run_id.to_string())?;
    if let Some(server) = &request.server {
        output::print_fact("asked by", &format!("the external server {server}"))?;
    }
    if let Some(expires_at) = &request.expires_at {
        output::print_fact("until", &format!("{expires_at}, then {}", request.on_expiry))?;
    }
    // Whoever may decide may be unable to read the run.
    if let Ok(Context { input, said }) = Context::load(client, request).await {
        if let Some(input) = input {
            output::print_fact("task", &first_line(&input, CONTEXT_CHARS))?;
        }
        if let Some(said) = said {
            output::print_fact("agent said", &first_line(&said, CONTEXT_CHARS))?;
        }
    }
    match &request.question {
        Some(question) => {
            output::print_text(&format!("\n{}", question.text))?;
            for (index, option) in question.options.iter().enumerate() {
                output::print_item(&format!("  {}. ", index + 1), option)?;
            }
            if let Some(schema) = &question.response_schema {
                output::print_text(&format!("answer as JSON of this schema: {schema}"))?;
            }
        }
        None => {
            // Not wrapped: a line break inside a text would look as if it were part of the input.
            let input = serde_json::to_string_pretty(&request.input).unwrap_or_default();
            output::print_line(&format!("\n{input}"))?;
        }
    }
    if request.decision.is_some() {
        return print_decided(request);
    }
    if request.status == ApprovalStatus::Pending {
        print_commands(request)?;
    }
    Ok(())
}

fn print_commands(request: &ApprovalView) -> Result<()> {
    let id = short_id(&request.id.to_string()).to_owned();
    let commands = match request.question {
        Some(_) => vec![format!("inbox answer {id} ANSWER"), format!("inbox deny {id}")],
        None => vec![
            format!("inbox approve {id}"),
            format!("inbox edit {id} --input JSON"),
            format!("inbox deny {id}"),
        ],
    };
    for command in commands {
        // Brackets: the reason may be left out.
        let reason = if command.starts_with("inbox deny") { " [--reason TEXT]" } else { "" };
        output::print_line(&dim(&format!("{}{reason}", hints::command(&command))))?;
    }
    Ok(())
}

/// Prints a discussion without a decision, or a workflow that does not go on.
pub async fn print_escalated(client: &Client, item: &EscalatedItemView) -> Result<()> {
    print_head(item)?;
    output::print_fact("id", &item.id.to_string())?;
    if item.kind == InboxKind::Discussion && item.status == ApprovalStatus::Pending {
        let path = format!("/api/coordination/discussions/{}", item.id);
        // Whoever may decide may be unable to read the discussion.
        if let Ok(response) = client.get(&path).await {
            let discussion: Received<DiscussionView> = response.data().await?;
            print_undecided(&discussion)?;
        }
    }
    let workflow = options::load_workflow(client, item).await;
    options::print_options(item, workflow.as_deref())?;
    if item.status != ApprovalStatus::Pending {
        return print_escalated_decision(item);
    }
    let id = short_id(&item.id.to_string()).to_owned();
    let commands = match item.kind {
        InboxKind::Discussion => vec![
            (format!("discussion show {id}"), "shows the discussion"),
            (format!("inbox answer {id} DECISION"), "is the outcome"),
            (format!("inbox approve {id}"), "accepts the last proposal"),
            (format!("inbox deny {id}"), "cancels the workflow that waits for it"),
        ],
        _ => vec![
            (format!("workflow show {id}"), "shows the workflow"),
            (format!("inbox approve {id}"), "resumes it: failed and skipped tasks are tried again"),
            (format!("inbox deny {id}"), "cancels it"),
        ],
    };
    for (command, meaning) in commands {
        let command = hints::command(&command);
        let one_line = format!("{command}  {meaning}");
        match output::terminal_width() {
            Some(width) if measure_text_width(&one_line) > width => {
                output::print_line(&dim(&command))?;
                output::print_dim(&format!("    {meaning}"))?;
            }
            _ => output::print_line(&dim(&one_line))?,
        }
    }
    Ok(())
}

/// Prints the title, the kind and the status: in one line if there is space.
fn print_head(item: &EscalatedItemView) -> Result<()> {
    let facts = format!("{}  {}", item.kind.as_str(), item.status);
    match output::terminal_width() {
        Some(width) if measure_text_width(&format!("{}  {facts}", item.title)) > width => {
            output::print_painted_item("", &item.title, bold)?;
            output::print_line(&facts)
        }
        _ => output::print_line(&format!("{}  {facts}", bold(&item.title))),
    }
}

pub fn print_escalated_decision(item: &EscalatedItemView) -> Result<()> {
    let Some(decision) = &item.decision else { return Ok(()) };
    let reason = decision.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
    let what = match (item.kind, decision.decision) {
        (InboxKind::Escalation, Choice::Approve) => "resumed",
        (_, Choice::Deny) => "cancelled",
        _ => choice_word(item.status, decision),
    };
    let id = format!("{} {}", item.kind.as_str(), item.id);
    let id = if output::terminal_width().is_some() { shorten_ids(&id) } else { id };
    output::print_text(&format!("{what}{reason}  {}", dim(&id)))
}

/// Why the call was made.
struct Context {
    /// What the run was started with.
    input: Option<String>,
    /// The last text of the agent before the call.
    said: Option<String>,
}

impl Context {
    async fn load(client: &Client, request: &ApprovalView) -> Result<Self> {
        let run: Received<RunDetailView> =
            client.get(&format!("/api/admin/runs/{}", request.run_id)).await?.data().await?;
        let path = format!("/api/admin/agents/{}/runs/{}/messages", run.facts.agent_id, run.facts.id);
        let messages: Vec<Received<RunMessageView>> = client.get_all_pages(&path).await?;
        let input = messages.iter().rev().find_map(|message| task(message));
        let said = messages.iter().rev().find_map(|message| match &message.content {
            ContentView::Answer(answer) => Some(answer.text.clone()).filter(|text| !text.trim().is_empty()),
            _ => None,
        });
        Ok(Self { input, said })
    }
}

/// What a person or a program wants from the agent; `None` for messages of the server.
fn task(message: &RunMessageView) -> Option<String> {
    match &message.content {
        ContentView::Text(text)
            if message.role == MessageRole::User && text.injected.is_none() && !text.summary =>
        {
            Some(text.text.clone()).filter(|text| !text.trim().is_empty())
        }
        _ => None,
    }
}

pub fn print_decided(request: &ApprovalView) -> Result<()> {
    let Some(decision) = &request.decision else { return Ok(()) };
    let what = choice_word(request.status, decision);
    let reason = decision.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
    let run = format!("run {}", request.run_id);
    let run = if output::terminal_width().is_some() { shorten_ids(&run) } else { run };
    output::print_text(&format!("{what}{reason}  {}", dim(&run)))
}

/// What was decided, in a word.
pub fn choice_word(status: ApprovalStatus, decision: &DecisionView) -> &'static str {
    match (status, decision.decision) {
        (ApprovalStatus::Expired, _) => "expired",
        (ApprovalStatus::Withdrawn, _) => "withdrawn",
        (_, Choice::Approve) if decision.edited_input.is_some() => "approved with another input",
        (_, Choice::Approve) => "approved",
        (_, Choice::Deny) => "denied",
        (_, Choice::Answer) => "answered",
    }
}
