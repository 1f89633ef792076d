//! What people see: tables that fit, colour on a terminal only, JSON when asked for.

use std::io::{IsTerminal, Write};

use serde::Serialize;

use crate::{
    config,
    error::{Error, Result},
};

#[derive(Debug, Clone, Copy, clap::Args)]
pub struct OutputFlags {
    /// Print machine-readable JSON
    #[arg(long, global = true)]
    pub json: bool,
}

/// Colour where a person looks, and not where `NO_COLOR` says otherwise.
pub fn use_colour() -> bool {
    std::io::stdout().is_terminal() && config::env_value("NO_COLOR").is_none()
}

pub fn bold(text: &str) -> String {
    if use_colour() { format!("\x1b[1m{text}\x1b[0m") } else { text.to_owned() }
}

pub fn dim(text: &str) -> String {
    if use_colour() { format!("\x1b[2m{text}\x1b[0m") } else { text.to_owned() }
}

pub fn green(text: &str) -> String {
    if use_colour() { format!("\x1b[32m{text}\x1b[0m") } else { text.to_owned() }
}

pub fn red(text: &str) -> String {
    if use_colour() { format!("\x1b[31m{text}\x1b[0m") } else { text.to_owned() }
}

/// How long something took, as people say it.
pub fn duration(millis: u64) -> String {
    match millis {
        0..1_000 => format!("{millis}ms"),
        1_000..60_000 => format!("{}.{}s", millis / 1_000, millis % 1_000 / 100),
        _ => format!("{}m {:02}s", millis / 60_000, millis % 60_000 / 1_000),
    }
}

/// Prints what may be a part of a line, at once.
pub fn print_part(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(Error::Io)
}

/// Prints a line; a reader that went away (`| head`) ends the program quietly.
pub fn print_line(text: &str) -> Result<()> {
    writeln!(std::io::stdout().lock(), "{text}").map_err(Error::Io)
}

pub fn print_json(value: &impl Serialize) -> Result<()> {
    let text = serde_json::to_string_pretty(value).map_err(|error| Error::Unexpected(error.to_string()))?;
    print_line(&text)
}

/// Columns as wide as their widest cell; the last one takes what is left of the line.
pub fn print_table(headers: &[&str], rows: &[Vec<String>]) -> Result<()> {
    let mut widths: Vec<usize> = headers.iter().map(|header| header.chars().count()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let print = |cells: Vec<String>| {
        let last = cells.len().saturating_sub(1);
        let mut text = String::new();
        for (at, cell) in cells.iter().enumerate() {
            text.push_str(cell);
            if at < last {
                let fill = widths[at].saturating_sub(cell.chars().count()) + 2;
                text.extend(std::iter::repeat_n(' ', fill));
            }
        }
        text
    };
    print_line(&bold(&print(headers.iter().map(|header| (*header).to_owned()).collect())))?;
    rows.iter().try_for_each(|row| print_line(&print(row.clone())))
}

/// The first line of a text, cut where a table would break.
pub fn first_line(text: &str, max: usize) -> String {
    let first = text.lines().next().unwrap_or_default();
    if first.chars().count() <= max {
        return first.to_owned();
    }
    let mut cut: String = first.chars().take(max.saturating_sub(1)).collect();
    cut.push('…');
    cut
}
