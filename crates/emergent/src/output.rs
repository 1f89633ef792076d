//! Output on standard output: lines, tables and JSON, with colour on a terminal only.

use std::io::{IsTerminal, Write};

use serde::Serialize;

use crate::{
    config,
    error::{Error, Result},
};

/// Spaces between two columns of a table.
const COLUMN_GAP: usize = 2;

#[derive(Debug, Clone, Copy, clap::Args)]
pub struct OutputFlags {
    /// Print machine-readable JSON
    #[arg(long, global = true)]
    pub json: bool,
}

/// Whether to colour the output: on a terminal, unless `NO_COLOR` is set.
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

/// A duration for people: `120ms`, `1.5s`, `2m 05s`.
pub fn duration(millis: u64) -> String {
    match millis {
        0..1_000 => format!("{millis}ms"),
        1_000..60_000 => format!("{}.{}s", millis / 1_000, millis % 1_000 / 100),
        _ => format!("{}m {:02}s", millis / 60_000, millis % 60_000 / 1_000),
    }
}

/// Prints text without adding a line break, and flushes it.
pub fn print_part(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(Error::Io)
}

/// Prints a line. When the reader has ended (`| head`), `main` exits quietly on the error.
pub fn print_line(text: &str) -> Result<()> {
    writeln!(std::io::stdout().lock(), "{text}").map_err(Error::Io)
}

pub fn print_json(value: &impl Serialize) -> Result<()> {
    let text = serde_json::to_string_pretty(value).map_err(|error| Error::Unexpected(error.to_string()))?;
    print_line(&text)
}

/// Prints a table. Each column is as wide as its widest cell; the last one is not padded.
pub fn print_table(headers: &[&str], rows: &[Vec<String>]) -> Result<()> {
    let mut widths: Vec<usize> = headers.iter().map(|header| header.chars().count()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let table_line = |cells: Vec<String>| {
        let last = cells.len().saturating_sub(1);
        let mut text = String::new();
        for (column, cell) in cells.iter().enumerate() {
            text.push_str(cell);
            if column < last {
                let padding = widths[column].saturating_sub(cell.chars().count()) + COLUMN_GAP;
                text.extend(std::iter::repeat_n(' ', padding));
            }
        }
        text
    };
    print_line(&bold(&table_line(headers.iter().map(|header| (*header).to_owned()).collect())))?;
    rows.iter().try_for_each(|row| print_line(&table_line(row.clone())))
}

/// The first line of a text, shortened to `max_chars` with an ellipsis.
pub fn first_line(text: &str, max_chars: usize) -> String {
    let first = text.lines().next().unwrap_or_default();
    if first.chars().count() <= max_chars {
        return first.to_owned();
    }
    let mut shortened: String = first.chars().take(max_chars.saturating_sub(1)).collect();
    shortened.push('…');
    shortened
}
