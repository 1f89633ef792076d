//! The line `Usage:` of the help on a narrow terminal. The parser of the command line wraps everything else.

use clap::Command;

use crate::text::wrap;

/// What a usage begins with, and as many columns before its following lines.
const USAGE: &str = "Usage: ";
/// The usage of every command fits a terminal of so many columns.
const ALWAYS_FITS: usize = 80;

/// The command line with usages that fit a terminal of so many columns.
pub fn fit(mut root: Command, columns: Option<usize>) -> Command {
    if let Some(columns) = columns.filter(|columns| *columns < ALWAYS_FITS) {
        // The names in the usage of a subcommand are known after this.
        root.build();
        fit_all(&mut root, columns);
    }
    root
}

fn fit_all(command: &mut Command, columns: usize) {
    let usage = command.render_usage().to_string();
    if usage.lines().any(|line| line.chars().count() > columns) {
        let parts = usage.strip_prefix(USAGE).unwrap_or(&usage);
        let lines = wrap(parts, columns.saturating_sub(USAGE.len()));
        let separator = format!("\n{:indent$}", "", indent = USAGE.len());
        *command = std::mem::take(command).override_usage(lines.join(&separator));
    }
    for subcommand in command.get_subcommands_mut() {
        fit_all(subcommand, columns);
    }
}
