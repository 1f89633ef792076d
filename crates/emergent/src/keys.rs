//! Single keys of the terminal, for questions that one key answers. What was typed before a question was shown is
//! taken from the terminal first, because it was not meant as an answer.

#[cfg(unix)]
pub use unix::Keys;

#[cfg(not(unix))]
pub use other::Keys;

/// Ctrl-C, which is a key here and no signal.
pub const INTERRUPT: char = '\u{3}';
/// Ctrl-D.
pub const END: char = '\u{4}';
/// Ctrl-U, which erases the line.
const ERASE_LINE: char = '\u{15}';
#[cfg(unix)]
const ESCAPE: u8 = 0x1b;

/// Asks for a line that is not shown; `None` after Ctrl-C, or Ctrl-D before anything was typed. Ctrl-C is a key here: as
/// a signal, it would end the process before the terminal shows again what is typed.
pub fn read_hidden_line(prompt: &str) -> std::io::Result<Option<String>> {
    let terminal = console::Term::stderr();
    // The mode is set before the prompt is shown, so that nothing that is typed after it appears.
    let (mut keys, typed) = Keys::open()?;
    terminal.write_str(prompt)?;
    let (mut typed, mut line) =
        (typed.chars().collect::<std::collections::VecDeque<_>>(), HiddenLine::default());
    loop {
        let key = match typed.pop_front() {
            Some(key) => key,
            None => keys.read()?,
        };
        if let Some(end) = line.push(key) {
            terminal.write_line("")?;
            return Ok(end);
        }
    }
}

/// The line that was typed so far.
#[derive(Default)]
struct HiddenLine(String);

impl HiddenLine {
    /// Adds a key. Returns the line when it is complete, with `None` inside when it was given up.
    fn push(&mut self, key: char) -> Option<Option<String>> {
        match key {
            '\n' | '\r' => return Some(Some(std::mem::take(&mut self.0))),
            INTERRUPT => return Some(None),
            END if self.0.is_empty() => return Some(None),
            // Backspace, as terminals send it.
            '\u{8}' | '\u{7f}' => {
                self.0.pop();
            }
            ERASE_LINE => self.0.clear(),
            other if other.is_control() => {}
            other => self.0.push(other),
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(keys: &str) -> Option<Option<String>> {
        let mut line = HiddenLine::default();
        keys.chars().find_map(|key| line.push(key))
    }

    #[test]
    fn a_hidden_line_can_be_corrected_and_given_up() {
        assert_eq!(typed("sekret\n"), Some(Some("sekret".to_owned())));
        assert_eq!(typed("ab\u{7f}c\r"), Some(Some("ac".to_owned())));
        assert_eq!(typed("wrong\u{15}right\n"), Some(Some("right".to_owned())));
        assert_eq!(typed("ab\u{3}"), Some(None));
        assert_eq!(typed("\u{4}"), Some(None));
        assert_eq!(typed("ab"), None);
    }
}

#[cfg(unix)]
mod unix {
    use std::io::{Error, ErrorKind, Result};

    use rustix::{
        event::{PollFd, PollFlags, Timespec, poll},
        termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr},
    };

    use super::ESCAPE;

    /// The longest character in bytes.
    const MAX_CHAR_BYTES: usize = 4;

    /// The terminal passes on each key at once and shows none. The mode before comes back when this is dropped.
    pub struct Keys {
        before: Termios,
    }

    impl Keys {
        /// Also returns what was typed before, with whole lines ended by line breaks.
        pub fn open() -> Result<(Self, String)> {
            let stdin = std::io::stdin();
            let before = tcgetattr(&stdin)?;
            let mut mode = before.clone();
            mode.local_modes
                .remove(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG | LocalModes::IEXTEN);
            mode.special_codes[SpecialCodeIndex::VMIN] = 1;
            mode.special_codes[SpecialCodeIndex::VTIME] = 0;
            // From now on, a line that is not complete can be read as well.
            tcsetattr(&stdin, OptionalActions::Now, &mode)?;
            let mut keys = Self { before };
            let typed = keys.take_typed()?;
            Ok((keys, typed))
        }

        /// Takes what was typed and not read.
        pub fn take_typed(&mut self) -> Result<String> {
            let mut typed = Vec::new();
            while is_readable()? {
                match read_byte() {
                    Ok(byte) => typed.push(byte),
                    Err(error) if error.kind() == ErrorKind::UnexpectedEof => break,
                    Err(error) => return Err(error),
                }
            }
            let text = String::from_utf8_lossy(&typed).into_owned();
            Ok(text.chars().filter(|char| *char == '\n' || !char.is_control()).collect())
        }

        /// Waits for a key. One that sends several characters, such as an arrow, is `ESC`.
        pub fn read(&mut self) -> Result<char> {
            let first = read_byte()?;
            if first == ESCAPE {
                self.take_typed()?;
                return Ok(char::from(ESCAPE));
            }
            let mut bytes = vec![first];
            while bytes.len() < MAX_CHAR_BYTES && is_incomplete(&bytes) {
                bytes.push(read_byte()?);
            }
            let text = String::from_utf8_lossy(&bytes);
            Ok(text.chars().next().unwrap_or(char::REPLACEMENT_CHARACTER))
        }
    }

    impl Drop for Keys {
        fn drop(&mut self) {
            let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, &self.before);
        }
    }

    /// Whether the bytes are the start of a character.
    fn is_incomplete(bytes: &[u8]) -> bool {
        matches!(std::str::from_utf8(bytes), Err(error) if error.error_len().is_none())
    }

    fn is_readable() -> Result<bool> {
        let stdin = std::io::stdin();
        let mut waiting = [PollFd::new(&stdin, PollFlags::IN)];
        let ready = poll(&mut waiting, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))?;
        Ok(ready > 0 && waiting[0].revents().contains(PollFlags::IN))
    }

    /// Not through the buffer of `stdin`, which the line editor does not see.
    fn read_byte() -> Result<u8> {
        let mut byte = [0; 1];
        loop {
            match rustix::io::read(std::io::stdin(), &mut byte[..]) {
                Ok(0) => return Err(Error::new(ErrorKind::UnexpectedEof, "the terminal was closed")),
                Ok(_) => return Ok(byte[0]),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

#[cfg(not(unix))]
mod other {
    use std::io::Result;

    use console::Term;

    pub struct Keys(Term);

    impl Keys {
        pub fn open() -> Result<(Self, String)> {
            Ok((Self(Term::stderr()), String::new()))
        }

        pub fn take_typed(&mut self) -> Result<String> {
            Ok(String::new())
        }

        pub fn read(&mut self) -> Result<char> {
            self.0.read_char()
        }
    }
}
