//! Draws lines on a terminal and replaces them by others. Only lines that changed are written, one by one: to
//! clear a whole screen would push each drawing into the history of the terminal.

use std::io::Write;

use console::measure_text_width;

use crate::error::{Error, Result};

/// The lines that are on the terminal now, above the cursor.
#[derive(Default)]
pub struct Frame {
    lines: Vec<String>,
    /// The columns of the terminal when they were drawn.
    columns: usize,
}

impl Frame {
    /// Replaces the lines with one write, so that nothing flickers. `size` is the lines and columns of the
    /// terminal.
    pub fn draw(&mut self, lines: Vec<String>, size: (usize, usize)) -> Result<()> {
        let text = self.change(lines, size);
        let mut out = std::io::stdout().lock();
        out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(Error::Io)
    }

    /// The text that turns the current lines into the new ones. The cursor is at the start of the line below
    /// them, before and after.
    fn change(&mut self, lines: Vec<String>, (rows, columns): (usize, usize)) -> String {
        let mut text = String::new();
        let was_resized = !self.lines.is_empty() && self.columns != columns;
        if was_resized {
            // The terminal has wrapped the lines anew, so they are drawn again as a whole.
            let wrapped = |line: &String| measure_text_width(line).div_ceil(columns.max(1)).max(1);
            let height = self.lines.iter().map(wrapped).sum::<usize>().min(rows.saturating_sub(1));
            text.push_str(&cursor_up(height));
            text.push_str("\x1b[J");
            self.lines.clear();
        }
        text.push_str(&cursor_up(self.lines.len()));
        for (index, line) in lines.iter().enumerate() {
            if self.lines.get(index) != Some(line) {
                // The rest of the line is cleared after it is written; before that, it would flicker.
                text.push_str(line);
                text.push_str("\x1b[K");
            }
            text.push('\n');
        }
        let left_over = self.lines.len().saturating_sub(lines.len());
        for _ in 0..left_over {
            text.push_str("\x1b[K\n");
        }
        text.push_str(&cursor_up(left_over));
        (self.lines, self.columns) = (lines, columns);
        text
    }
}

/// Moves the cursor to the start of the line so many lines above.
fn cursor_up(lines: usize) -> String {
    if lines == 0 { String::new() } else { format!("\r\x1b[{lines}A") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn only_changed_lines_are_written_and_the_screen_is_never_cleared() {
        let mut frame = Frame::default();
        let size = (24, 80);
        assert_eq!(frame.change(lines("a b c"), size), "a\x1b[K\nb\x1b[K\nc\x1b[K\n");
        assert_eq!(frame.change(lines("a x c"), size), "\r\x1b[3A\nx\x1b[K\n\n");
        assert_eq!(frame.change(lines("a"), size), "\r\x1b[3A\n\x1b[K\n\x1b[K\n\r\x1b[2A");
        assert_eq!(frame.change(lines("a b"), size), "\r\x1b[1A\nb\x1b[K\n");
    }

    #[test]
    fn a_narrower_terminal_is_drawn_anew() {
        let mut frame = Frame::default();
        frame.change(vec!["x".repeat(30), "y".to_owned()], (24, 40));
        assert_eq!(frame.change(lines("z"), (24, 20)), "\r\x1b[3A\x1b[Jz\x1b[K\n");
    }
}
