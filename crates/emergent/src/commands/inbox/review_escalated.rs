//! The keys of `emergent inbox review` for discussions without a decision and workflows that do not go on.

use console::Term;
use emergent_domain::approval::Choice;
use emergent_wire::approval::{DecideApproval, EscalatedItemView, InboxKind};
use serde_json::Value;

use super::{
    decision, option_by_number,
    review::{Chosen, Reviewed, after_sending, command, confirm, decided, read_key, read_line},
    send_escalated,
    show::print_escalated,
};
use crate::{
    client::Client,
    error::Result,
    keys::{END, INTERRUPT},
};

/// Shows a discussion or a workflow and asks a person about it, again if the server refuses what was chosen.
pub async fn review_escalated(
    client: &Client,
    terminal: &Term,
    item: &EscalatedItemView,
) -> Result<Reviewed> {
    print_escalated(client, item).await?;
    loop {
        let body = match ask(terminal, item)? {
            Chosen::Decision(body) => *body,
            Chosen::Nothing(reviewed) => return Ok(reviewed),
        };
        if let Some(reviewed) = after_sending(send_escalated(client, item, body, false).await)? {
            return Ok(reviewed);
        }
    }
}

/// Asks until a key decides.
fn ask(terminal: &Term, item: &EscalatedItemView) -> Result<Chosen> {
    let names = key_names(item);
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
            digit if is_discussion && option_by_number(&item.options, &digit.to_string()).is_some() => {
                answer(terminal, item, Some(digit.to_string()))?
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
            return Ok(chosen);
        }
    }
}

fn key_names(item: &EscalatedItemView) -> &'static str {
    match item.kind {
        InboxKind::Discussion if item.options.is_empty() => {
            "[a]nswer [p] accept the proposal [c]ancel [l]ater [q]uit [?]"
        }
        InboxKind::Discussion => {
            "[1-9] an option [a]nswer [p] accept the proposal [c]ancel [l]ater [q]uit [?]"
        }
        _ => "[r]esume [c]ancel [l]ater [q]uit [?]",
    }
}

fn answer(terminal: &Term, item: &EscalatedItemView, text: Option<String>) -> Result<Option<Chosen>> {
    let Some(text) = text else { return Ok(None) };
    if text.is_empty() {
        terminal.write_line("Nothing was answered.")?;
        return Ok(None);
    }
    let answer = Some(Value::String(option_by_number(&item.options, &text).unwrap_or(text)));
    Ok(Some(decided(DecideApproval { answer, ..decision(Choice::Answer, None) })))
}

fn explain(terminal: &Term, item: &EscalatedItemView) -> Result<Option<Chosen>> {
    let first: &[&str] = match item.kind {
        InboxKind::Discussion => &[
            "a  give the discussion its outcome in words; a number stands for its option",
            "p  accept the last proposal; you are asked once more",
            "c  cancel the workflow that waits for the discussion; you are asked once more",
        ],
        _ => &[
            "r  resume the workflow; you are asked once more",
            "c  cancel the workflow with everything that is left of it; you are asked once more",
        ],
    };
    for line in first.iter().chain(&[
        "l  decide later: it goes on waiting in the inbox (Ctrl-C)",
        "q  leave: it goes on waiting in the inbox (Ctrl-D)",
    ]) {
        terminal.write_line(&format!("  {line}"))?;
    }
    Ok(None)
}
