//! Lines that a person types while an answer is written. They are read without waiting, so that nothing holds the
//! terminal when the answer ends and the line editor needs it.

use std::collections::VecDeque;

/// The longest line that a terminal passes on.
const MAX_LINE_BYTES: usize = 4096;

/// What a person typed.
#[derive(Debug, PartialEq, Eq)]
pub enum TypedInput {
    Line(String),
    /// Ctrl-D on an empty line, or the end of the input.
    End,
}

#[derive(Debug, Default)]
pub struct TypedAhead {
    /// Messages and commands for after the answer.
    lines: VecDeque<String>,
    /// The start of a line that was not complete when something else needed the terminal.
    begun: String,
}

impl TypedAhead {
    /// A whole line, if the person has typed one. Only for a standard input that is a terminal.
    #[cfg(unix)]
    pub fn poll(&mut self) -> Option<TypedInput> {
        if !is_line_waiting() {
            return None;
        }
        // Not through the buffer of `stdin`, which the line editor does not see.
        let stdin = std::io::stdin();
        let mut line = vec![0; MAX_LINE_BYTES];
        let bytes = match rustix::io::read(&stdin, &mut line[..]) {
            Ok(0) => return Some(TypedInput::End),
            Ok(bytes) => bytes,
            Err(_) => return None,
        };
        let text = String::from_utf8_lossy(&line[..bytes]);
        let text = format!("{}{}", std::mem::take(&mut self.begun), text.trim_end());
        Some(text.trim().to_owned()).filter(|text| !text.is_empty()).map(TypedInput::Line)
    }

    #[cfg(not(unix))]
    pub fn poll(&mut self) -> Option<TypedInput> {
        None
    }

    /// Keeps a text that was typed before a question was shown: whole lines for after the answer, and the rest as the
    /// start of the next line.
    pub fn keep_text(&mut self, text: &str) {
        let mut rest = std::mem::take(&mut self.begun) + text;
        while let Some((line, after)) = rest.split_once('\n') {
            if !line.trim().is_empty() {
                self.lines.push_back(line.trim().to_owned());
            }
            rest = after.to_owned();
        }
        self.begun = rest;
    }

    /// The start of a line that was typed and not completed.
    pub fn take_begun(&mut self) -> String {
        std::mem::take(&mut self.begun)
    }

    /// Keeps a line for after the answer.
    pub fn keep(&mut self, line: String) {
        self.lines.push_back(line);
    }

    /// The next line that was kept.
    pub fn next(&mut self) -> Option<String> {
        self.lines.pop_front()
    }
}

/// Whether a whole line can be read from the terminal that standard input is. Nothing is read.
#[cfg(unix)]
pub fn is_line_waiting() -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let stdin = std::io::stdin();
    let mut waiting = [PollFd::new(&stdin, PollFlags::IN)];
    // A terminal is readable when a line is complete.
    let ready = poll(&mut waiting, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap_or(0);
    ready > 0 && waiting[0].revents().contains(PollFlags::IN)
}

#[cfg(not(unix))]
pub fn is_line_waiting() -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_typed_before_a_question_is_kept_for_the_next_message() {
        let mut typed = TypedAhead::default();
        typed.keep_text("one\n\ntwo\nand an");
        typed.keep_text("other thing");
        assert_eq!((typed.next().as_deref(), typed.next().as_deref()), (Some("one"), Some("two")));
        assert_eq!((typed.next(), typed.take_begun().as_str()), (None, "and another thing"));
        assert_eq!(typed.take_begun(), "");
    }
}
