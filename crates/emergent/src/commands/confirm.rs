//! Asks a person yes or no.

use std::io::IsTerminal;

use super::resolve::LAST;
use crate::{
    error::{Error, Result},
    output::{self, MIN_COLUMNS},
    printable::printable,
    text::wrap,
};

/// Says what a command is about to do with what `last` names, and asks at a terminal: it may be another by now than when
/// the person looked. Fails if the answer is no.
pub fn ask_about_last(reference: &str, yes: bool, what: &str) -> Result<()> {
    if reference != LAST {
        return Ok(());
    }
    let answer = if yes { None } else { ask(&format!("{what}?"))? };
    match answer {
        Some(true) => Ok(()),
        Some(false) => Err(Error::Declined),
        None => {
            output::print_notice(what);
            Ok(())
        }
    }
}

/// Asks at a terminal whether to do what cannot be undone with what `last` names. Without a terminal, it needs the id or
/// `--yes`. Fails if the answer is no.
pub fn confirm_final_of_last(what: &str, id: impl std::fmt::Display) -> Result<()> {
    match ask(&format!("{what}?"))? {
        Some(true) => Ok(()),
        Some(false) => Err(Error::Declined),
        None => Err(Error::Usage(format!(
            "this would {what}: name it by its id, {id}, because `last` may be another by now, or add --yes"
        ))),
    }
}

/// Asks at a terminal; `None` without one. Only `y` and `yes` mean yes.
pub fn ask(question: &str) -> Result<Option<bool>> {
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        return Ok(None);
    }
    let terminal = console::Term::stderr();
    let columns = usize::from(terminal.size().1).max(MIN_COLUMNS);
    terminal.write_str(&format!(
        "{} ",
        wrap(&format!("{} [y/N]", printable(question)), columns - 1).join("\n")
    ))?;
    let answer = terminal.read_line()?;
    Ok(Some(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes")))
}
