//! The keys of `emergent inbox review` for discussions without a decision and workflows that do not go on.

use console::Term;
use emergent_domain::approval::Choice;
use emergent_wire::approval::{DecideApproval, EscalatedItemView, InboxKind};

use super::{
    decision, option_by_number, options,
    review::{
        Chosen, Reviewed, after_sending, command, confirm, decided, read_key, read_line, write_explanation,
    },
    send_escalated,
    show::print_escalated,
};
use crate::{
    client::Client,
    commands::discussion,
    error::{Error, Result},
    keys::{END, INTERRUPT},
    output,
};

/// The most options that have a key of their own.
const MAX_KEYS: usize = 9;

/// Shows a discussion or a workflow and asks a person about it, again if the server refuses what was chosen.
pub async fn review_escalated(
    client: &Client,
    terminal: &Term,
    item: &EscalatedItemView,
) -> Result<Reviewed> {
    print_escalated(client, item).await?;
    loop {
        let sent = match ask(terminal, item)? {
            EscalatedChoice::Common(Chosen::Decision(body)) => {
                send_escalated(client, item, *body, false).await
            }
            EscalatedChoice::Common(Chosen::Nothing(reviewed)) => return Ok(reviewed),
            EscalatedChoice::Reassign(agent) => options::reassign(client, item, &agent).await,
            EscalatedChoice::CarryOut(option) => {
                match options::carry_out(client, item, &option, false).await {
                    // It needs more than a key: the message has the command.
                    Err(Error::Usage(message)) => {
                        output::print_notice(&message);
                        continue;
                    }
                    sent => sent,
                }
            }
        };
        if let Some(reviewed) = after_sending(sent)? {
            return Ok(reviewed);
        }
    }
}

/// What a person chose about a discussion or a workflow.
enum EscalatedChoice {
    /// What can be chosen about every item.
    Common(Chosen),
    /// An option of a workflow.
    CarryOut(String),
    /// The option that gives the task to this agent.
    Reassign(String),
}

/// Asks until a key decides.
fn ask(terminal: &Term, item: &EscalatedItemView) -> Result<EscalatedChoice> {
    let names = &key_names(item);
    let is_discussion = item.kind == InboxKind::Discussion;
    // What was typed before the keys were shown decides nothing.
    let ignored = &mut String::new();
    loop {
        let chosen = match read_key(terminal, &format!("{names} "), ignored)? {
            'l' | 's' => Some(Chosen::Nothing(Reviewed::Later)),
            'q' | END => Some(Chosen::Nothing(Reviewed::Ended)),
            INTERRUPT => Some(Chosen::Nothing(Reviewed::Interrupted)),
            'a' if is_discussion => answer(terminal, item, read_line("outcome: ", "")?)?,
            'p' if is_discussion => {
                let body = decision(Choice::Approve, None);
                confirm(terminal, "Really accept the last proposal?", body, ignored)?
            }
            'r' if !is_discussion => {
                confirm(terminal, "Really resume this workflow?", decision(Choice::Approve, None), ignored)?
            }
            'c' => match read_line("reason (may be empty): ", "")? {
                Some(reason) => {
                    let body = decision(Choice::Deny, Some(reason).filter(|reason| !reason.is_empty()));
                    confirm(terminal, "Really cancel this workflow?", body, ignored)?
                }
                None => None,
            },
            digit if option_by_number(&item.options, &digit.to_string()).is_some() => {
                if is_discussion {
                    answer(terminal, item, Some(digit.to_string()))?
                } else {
                    match choose_option(terminal, item, digit, ignored)? {
                        Some(choice) => return Ok(choice),
                        None => None,
                    }
                }
            }
            '/' => command(terminal, names)?,
            '?' => explain(terminal, item)?,
            '\n' | '\r' => None,
            other => {
                terminal.write_line(&format!("`{}` is none of the keys: {names}", other.escape_debug()))?;
                None
            }
        };
        if let Some(chosen) = chosen {
            return Ok(EscalatedChoice::Common(chosen));
        }
    }
}

fn key_names(item: &EscalatedItemView) -> String {
    let options = match (item.options.len(), item.kind) {
        (0, _) => String::new(),
        (_, InboxKind::Discussion) => "[1-9] an option ".to_owned(),
        (1, _) => "[1] the option ".to_owned(),
        (count, _) => format!("[1-{}] an option ", count.min(MAX_KEYS)),
    };
    let keys = match item.kind {
        InboxKind::Discussion => "[a]nswer [p] accept the proposal [c]ancel [l]ater [q]uit [?]",
        _ => "[r]esume [c]ancel [l]ater [q]uit [?]",
    };
    format!("{options}{keys}")
}

/// An option of a workflow by its number. The agent of another attempt is asked for; everything else has to be
/// confirmed. `None` if the person does not want it after all.
fn choose_option(
    terminal: &Term,
    item: &EscalatedItemView,
    digit: char,
    ignored: &mut String,
) -> Result<Option<EscalatedChoice>> {
    let Some(option) = option_by_number(&item.options, &digit.to_string()) else { return Ok(None) };
    if options::needs_agent(&option) {
        let agent = read_line("agent: ", "")?.filter(|agent| !agent.is_empty());
        return Ok(agent.map(EscalatedChoice::Reassign));
    }
    let is_confirmed = read_key(terminal, &format!("Really {option}? [y/N] "), ignored)? == 'y';
    Ok(is_confirmed.then_some(EscalatedChoice::CarryOut(option)))
}

fn answer(terminal: &Term, item: &EscalatedItemView, text: Option<String>) -> Result<Option<Chosen>> {
    let Some(text) = text else { return Ok(None) };
    if text.is_empty() {
        terminal.write_line("Nothing was answered.")?;
        return Ok(None);
    }
    let answer = match discussion::parse_decision(&item.options, &text) {
        Ok(answer) => Some(answer),
        Err(error) => {
            terminal.write_line(&error.to_string())?;
            return Ok(None);
        }
    };
    Ok(Some(decided(DecideApproval { answer, ..decision(Choice::Answer, None) })))
}

fn explain(terminal: &Term, item: &EscalatedItemView) -> Result<Option<Chosen>> {
    let first: &[&str] = match item.kind {
        InboxKind::Discussion => &[
            "a  give the discussion its outcome: an option by its name or number, or words about a proposal",
            "p  accept the last proposal; you are asked once more",
            "c  cancel the workflow that waits for the discussion; you are asked once more",
        ],
        _ => &[
            "1  choose the option with this number, and so on; you are asked once more",
            "r  resume the workflow: all failed and skipped tasks are tried again; you are asked once more",
            "c  cancel the workflow with everything that is left of it; you are asked once more",
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
