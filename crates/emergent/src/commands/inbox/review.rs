//! `emergent inbox review`: goes through what waits for a person, the oldest first, with keys.

use std::io::IsTerminal;

use console::Term;
use emergent_domain::approval::{ApprovalStatus, Choice};
use emergent_wire::approval::{ApprovalView, DecideApproval, InboxDetailView, InboxItemView};
use rustyline::{Config, DefaultEditor, error::ReadlineError};

use super::{
    decision, load_detail, option_by_number, parse_answer, print_request, read_input,
    review_escalated::review_escalated, send,
};
use crate::{
    client::{Client, Received},
    commands::editor,
    error::{Error, Result},
    keys::{self, Keys},
    output,
    printable::{printable, printable_json},
    text::{wrap, wrap_item},
};

/// The most items that one review goes through.
const MAX_REVIEWED: usize = 1_000;

/// What came of asking a person about an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reviewed {
    /// By this person, or by somebody else meanwhile.
    Decided,
    /// It goes on waiting.
    Later,
    /// The person pressed Ctrl-C; it goes on waiting.
    Interrupted,
    /// The person wants to be asked nothing more.
    Ended,
}

/// What a person chose.
pub(super) enum Chosen {
    Decision(Box<DecideApproval>),
    Nothing(Reviewed),
}

pub async fn review(client: &Client) -> Result<()> {
    let terminal = Term::stderr();
    if !terminal.is_term() || !std::io::stdin().is_terminal() {
        let message =
            "`inbox review` needs a terminal; scripts use `inbox approve`, `edit`, `deny` and `answer`";
        return Err(Error::Usage(message.to_owned()));
    }
    let items: Vec<Received<InboxItemView>> =
        client.get_newest("/api/approvals?status=pending", MAX_REVIEWED).await?;
    if items.is_empty() {
        return output::print_line("Nothing waits for a person.");
    }
    for item in items.iter().rev() {
        // Somebody else may have decided meanwhile, and a decision about a discussion continues its workflow.
        let reviewed = match &*load_detail(client, &item.id.to_string()).await? {
            InboxDetailView::Request(request) if request.status == ApprovalStatus::Pending => {
                review_request(client, &terminal, request, &mut String::new()).await?
            }
            InboxDetailView::Escalated(item) if item.status == ApprovalStatus::Pending => {
                review_escalated(client, &terminal, item).await?
            }
            InboxDetailView::Request(_) | InboxDetailView::Escalated(_) => continue,
        };
        match reviewed {
            Reviewed::Ended => return Ok(()),
            Reviewed::Interrupted => return Err(Error::Interrupted),
            Reviewed::Decided | Reviewed::Later => output::print_line("")?,
        }
    }
    Ok(())
}

/// Shows a request and asks a person about it, again if the server refuses what was chosen. What was typed before the
/// keys were shown decides nothing; it is added to `typed`.
pub async fn review_request(
    client: &Client,
    terminal: &Term,
    request: &ApprovalView,
    typed: &mut String,
) -> Result<Reviewed> {
    print_request(client, request).await?;
    loop {
        let body = match ask(terminal, request, typed)? {
            Chosen::Decision(body) => *body,
            Chosen::Nothing(reviewed) => return Ok(reviewed),
        };
        if let Some(reviewed) = after_sending(send(client, request, body, false).await)? {
            return Ok(reviewed);
        }
    }
}

/// What came of a decision that was sent; `None` if the server refuses it, and the person is asked again.
pub(super) fn after_sending(sent: Result<()>) -> Result<Option<Reviewed>> {
    let Err(error) = sent else { return Ok(Some(Reviewed::Decided)) };
    output::print_notice(&error.to_string());
    match error {
        // Somebody else was faster.
        Error::Refused { code, .. } if code == "already_decided" => Ok(Some(Reviewed::Decided)),
        Error::Refused { .. } => Ok(None),
        other => Err(other),
    }
}

/// Asks until a key decides.
fn ask(terminal: &Term, request: &ApprovalView, typed: &mut String) -> Result<Chosen> {
    let options = request.question.as_ref().map(|question| question.options.as_slice());
    let names = key_names(options);
    loop {
        let key = read_key(terminal, &format!("{names} "), typed)?;
        let chosen = match (key, options) {
            ('l' | 's', _) => Some(Chosen::Nothing(Reviewed::Later)),
            ('q' | keys::END, _) => Some(Chosen::Nothing(Reviewed::Ended)),
            (keys::INTERRUPT, _) => Some(Chosen::Nothing(Reviewed::Interrupted)),
            ('d', _) => read_line("reason (may be empty): ", "")?.map(|reason| {
                decided(decision(Choice::Deny, Some(reason).filter(|reason| !reason.is_empty())))
            }),
            ('a', None) => approve(terminal, request, decision(Choice::Approve, None), typed)?,
            ('e', None) => edit(terminal, request, typed)?,
            ('a', Some(_)) => answer(terminal, request, read_line("answer: ", "")?)?,
            (digit, Some(options)) if option_by_number(options, &digit.to_string()).is_some() => {
                answer(terminal, request, Some(digit.to_string()))?
            }
            ('/', _) => command(terminal, names)?,
            ('?', _) => explain(terminal, options)?,
            ('\n' | '\r', _) => None,
            (other, _) => {
                terminal.write_line(&format!("`{}` is none of the keys: {names}", other.escape_debug()))?;
                None
            }
        };
        if let Some(chosen) = chosen {
            return Ok(chosen);
        }
    }
}

fn key_names(options: Option<&[String]>) -> &'static str {
    match options {
        None => "[a]pprove [e]dit [d]eny [l]ater [q]uit [?]",
        Some([]) => "[a]nswer [d]eny [l]ater [q]uit [?]",
        Some(_) => "[1-9] an option [a]nswer [d]eny [l]ater [q]uit [?]",
    }
}

fn explain(terminal: &Term, options: Option<&[String]>) -> Result<Option<Chosen>> {
    let first: &[&str] = match options {
        None => &[
            "a  approve the call as it is; you are asked once more",
            "e  change its input in $VISUAL or $EDITOR, then approve it",
            "d  deny it; the agent reads the reason",
        ],
        Some(_) => &[
            "a  answer in words; a number stands for its option",
            "d  leave the question unanswered; the agent reads the reason",
        ],
    };
    for line in first.iter().chain(&[
        "l  decide later: it goes on waiting in the inbox (Ctrl-C)",
        "q  leave: it goes on waiting in the inbox (Ctrl-D)",
    ]) {
        write_explanation(terminal, line)?;
    }
    Ok(None)
}

/// Writes what a key does: the key, two spaces and a text, which is wrapped beside the key.
pub(super) fn write_explanation(terminal: &Term, line: &str) -> Result<()> {
    let (key, text) = line.split_once("  ").unwrap_or(("", line));
    let width = usize::from(terminal.size().1);
    wrap_item(&format!("  {key}  "), text, width)
        .iter()
        .try_for_each(|line| terminal.write_line(line).map_err(Error::Io))
}

pub(super) fn decided(body: DecideApproval) -> Chosen {
    Chosen::Decision(Box::new(body))
}

/// Approves when the person confirms it: one key is easily hit by accident.
fn approve(
    terminal: &Term,
    request: &ApprovalView,
    body: DecideApproval,
    typed: &mut String,
) -> Result<Option<Chosen>> {
    let question = format!("Really approve {}?", request.tool_name);
    confirm(terminal, &question, body, typed)
}

/// Chooses a decision when the person confirms it.
pub(super) fn confirm(
    terminal: &Term,
    question: &str,
    body: DecideApproval,
    typed: &mut String,
) -> Result<Option<Chosen>> {
    let is_confirmed = read_key(terminal, &format!("{question} [y/N] "), typed)? == 'y';
    Ok(is_confirmed.then(|| decided(body)))
}

/// Lets the person change the input of the call. `None` if it was not changed, or is no input.
fn edit(terminal: &Term, request: &ApprovalView, typed: &mut String) -> Result<Option<Chosen>> {
    let before = serde_json::to_string_pretty(&request.input).unwrap_or_default() + "\n";
    let edited = match editor::edit_text("input.json", &before) {
        Ok(Some(text)) => read_input(Some(&text), None),
        Ok(None) => {
            terminal.write_line("The input was not changed.")?;
            return Ok(None);
        }
        Err(error) => Err(error),
    };
    match edited {
        Ok(input) => {
            let shown = serde_json::to_string_pretty(&input).unwrap_or_default();
            terminal.write_line(&printable_json(&shown))?;
            let body = DecideApproval { edited_input: Some(input), ..decision(Choice::Approve, None) };
            approve(terminal, request, body, typed)
        }
        Err(error) => {
            terminal.write_line(&printable(&error.describe().replace("--input is", "the text is")))?;
            Ok(None)
        }
    }
}

fn answer(terminal: &Term, request: &ApprovalView, text: Option<String>) -> Result<Option<Chosen>> {
    let Some(text) = text else { return Ok(None) };
    if text.is_empty() {
        terminal.write_line("Nothing was answered.")?;
        return Ok(None);
    }
    let answer = Some(parse_answer(request, text)?);
    Ok(Some(decided(DecideApproval { answer, ..decision(Choice::Answer, None) })))
}

/// A command that begins with a slash, as in a chat: only leaving is one here.
pub(super) fn command(terminal: &Term, names: &str) -> Result<Option<Chosen>> {
    match read_line("", "/")?.as_deref() {
        Some("/quit" | "/exit" | "/q") => Ok(Some(Chosen::Nothing(Reviewed::Ended))),
        Some(_) => {
            terminal.write_line(&format!("Only /quit is a command here; the keys are {names}"))?;
            Ok(None)
        }
        None => Ok(None),
    }
}

/// Shows a question and waits for a key. What was typed before is no answer, and is added to `typed`.
pub(super) fn read_key(terminal: &Term, question: &str, typed: &mut String) -> Result<char> {
    let (mut keys, before) = Keys::open()?;
    typed.push_str(&before);
    // The key is shown after the last line.
    let width = usize::from(terminal.size().1).saturating_sub(1);
    let space = if question.ends_with(' ') { " " } else { "" };
    terminal.write_str(&format!("{}{space}", wrap(&printable(question.trim_end()), width).join("\n")))?;
    let key = keys.read()?;
    let shown = if key.is_control() { String::new() } else { key.to_string() };
    terminal.write_line(&shown)?;
    Ok(key)
}

/// Reads a line; `None` if the person pressed Ctrl-C or Ctrl-D.
pub(super) fn read_line(prompt: &str, initial: &str) -> Result<Option<String>> {
    let failed = |error: ReadlineError| {
        Error::Io(std::io::Error::other(format!("the terminal cannot be read: {error}")))
    };
    let mut line_editor = DefaultEditor::with_config(Config::default()).map_err(failed)?;
    match line_editor.readline_with_initial(prompt, (initial, "")) {
        Ok(line) => Ok(Some(line.trim().to_owned())),
        Err(ReadlineError::Eof | ReadlineError::Interrupted) => Ok(None),
        Err(error) => Err(failed(error)),
    }
}
