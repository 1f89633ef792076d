//! Asks a person yes or no.

use std::io::IsTerminal;

use crate::error::Result;

/// Asks at a terminal; `None` without one. Only `y` and `yes` mean yes.
pub fn ask(question: &str) -> Result<Option<bool>> {
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        return Ok(None);
    }
    let terminal = console::Term::stderr();
    terminal.write_str(&format!("{question} [y/N] "))?;
    let answer = terminal.read_line()?;
    Ok(Some(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes")))
}
