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

use super::{TITLE_CHARS, options};
use crate::{
    client::{Client, Received},
    commands::discussion::{options_note, print_undecided, print_what_changes_do},
    error::Result,
    hints,
    output::{self, bold, dim, first_line},
    printable::{printable, printable_json, printable_line},
    text::{MIN_TEXT_COLUMNS, short_id, shorten_ids, wrap},
};

/// The input of the run and the text before the call are shortened to this length.
const CONTEXT_CHARS: usize = 300;
/// Before each line of a text that a model wrote.
const MARGIN: &str = "│ ";

pub async fn print_request(client: &Client, request: &ApprovalView) -> Result<()> {
    let status = if request.overdue { "overdue".to_owned() } else { request.status.to_string() };
    let tool = bold(&printable_line(&request.tool_name));
    output::print_line(&format!("{tool}  {}  {status}", request.kind))?;
    output::print_fact("id", &request.id.to_string())?;
    output::print_fact("agent", &printable_line(&request.agent_name))?;
    output::print_fact("run", &request.run_id.to_string())?;
    if let Some(server) = &request.server {
        output::print_fact("asked by", &format!("the external server {}", printable_line(server)))?;
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
            output::print_line("")?;
            print_quoted(&question.text)?;
            for (index, option) in question.options.iter().enumerate() {
                output::print_item(&format!("  {}. ", index + 1), &printable_line(option))?;
            }
            if let Some(schema) = &question.response_schema {
                output::print_line("answer as JSON of this schema:")?;
                print_quoted(&printable_json(&schema.to_string()))?;
            }
        }
        None => {
            // Not wrapped: a line break inside a text would look as if it were part of the input.
            let input = serde_json::to_string_pretty(&request.input).unwrap_or_default();
            output::print_line(&format!("\n{}", printable_json(&input)))?;
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
    // Nothing that may be left out stands behind a command, so that it can be pasted.
    commands.iter().try_for_each(|command| output::print_line(&dim(&hints::command(command))))
}

/// Prints a text of a model with a margin: none of its lines looks like a field or a command of this program.
fn print_quoted(text: &str) -> Result<()> {
    quoted_lines(text, output::terminal_width()).iter().try_for_each(|line| output::print_line(line))
}

/// The lines of a text with a margin, wrapped beside it to the width of the terminal, if there is one.
fn quoted_lines(text: &str, width: Option<usize>) -> Vec<String> {
    let text = printable(text);
    let lines = match width {
        Some(width) => wrap(&text, width.saturating_sub(measure_text_width(MARGIN)).max(MIN_TEXT_COLUMNS)),
        None => text.lines().map(str::to_owned).collect(),
    };
    lines.iter().map(|line| format!("{MARGIN}{line}").trim_end().to_owned()).collect()
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
    if item.kind == InboxKind::Discussion {
        print_what_changes_do(&item.options)?;
    }
    if item.status != ApprovalStatus::Pending {
        return print_escalated_decision(item);
    }
    let id = short_id(&item.id.to_string()).to_owned();
    let outcome = format!("is the outcome{}", options_note(&item.options));
    let commands = match item.kind {
        InboxKind::Discussion => vec![
            (format!("discussion show {id}"), "shows the discussion"),
            (format!("inbox answer {id} DECISION"), outcome.as_str()),
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
    let (title, facts) = (printable(&item.title), format!("{}  {}", item.kind.as_str(), item.status));
    match output::terminal_width() {
        Some(width) if measure_text_width(&format!("{title}  {facts}")) > width => {
            output::print_painted_item("", &title, bold)?;
            output::print_line(&facts)
        }
        _ => output::print_line(&format!("{}  {facts}", bold(&title))),
    }
}

pub fn print_escalated_decision(item: &EscalatedItemView) -> Result<()> {
    let Some(decision) = &item.decision else { return Ok(()) };
    let reason =
        decision.reason.as_ref().map(|reason| format!(": {}", printable(reason))).unwrap_or_default();
    let what = match (item.kind, decision.decision) {
        (InboxKind::Escalation, Choice::Approve) => "resumed",
        (_, Choice::Deny) => "cancelled",
        _ => choice_word(item.status, decision),
    };
    let what = with_answer(what, decision);
    let id = format!("{} {}", item.kind.as_str(), item.id);
    let id = if output::terminal_width().is_some() { shorten_ids(&id) } else { id };
    output::print_coloured_text(&format!("{what}{reason}  {}", dim(&id)))
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
    let what = with_answer(choice_word(request.status, decision), decision);
    let reason =
        decision.reason.as_ref().map(|reason| format!(": {}", printable(reason))).unwrap_or_default();
    let run = format!("run {}", request.run_id);
    let run = if output::terminal_width().is_some() { shorten_ids(&run) } else { run };
    output::print_coloured_text(&format!("{what}{reason}  {}", dim(&run)))
}

/// What was decided, with the answer if it is one.
fn with_answer(what: &str, decision: &DecisionView) -> String {
    let answer = decision.answer.as_ref().filter(|_| decision.decision == Choice::Answer);
    let answer = answer.map(|answer| answer.as_str().map_or_else(|| answer.to_string(), str::to_owned));
    answer
        .map_or_else(|| what.to_owned(), |answer| format!("{what} \"{}\"", first_line(&answer, TITLE_CHARS)))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_line_of_a_question_looks_like_a_field_or_a_command() {
        let question = "Which colour?\n\n  agent        somebody else\nemergent inbox approve 1\u{1b}[2J";
        assert_eq!(
            quoted_lines(question, None),
            [
                "│ Which colour?",
                "│",
                "│   agent        somebody else",
                r"│ emergent inbox approve 1\u{1b}[2J",
            ]
        );
        let wrapped = quoted_lines("one two three four five six seven", Some(22));
        assert_eq!(wrapped, ["│ one two three four", "│ five six seven"]);
    }
}
