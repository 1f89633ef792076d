//! The texts in the cells of tables.

use crate::output::{first_line, terminal_width};

/// A text as the cell of a row. On a terminal it is truncated to its first line and `max_chars`; elsewhere it is whole,
/// with its lines joined, so that each row stays one line.
pub fn cell(text: &str, max_chars: usize) -> String {
    match terminal_width() {
        Some(_) => first_line(text, max_chars),
        None => text.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" "),
    }
}
