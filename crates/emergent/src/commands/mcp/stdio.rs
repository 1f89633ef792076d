//! Reads and writes messages on standard input and output, one per line. Both block, so each has its own
//! thread.

use std::{
    io::{self, BufRead, Write},
    thread,
};

use tokio::sync::{mpsc, oneshot};

/// The longest line that is read: the largest request body of the API, and some white space around it.
const MAX_LINE_BYTES: usize = emergent_api::limits::BODY + 1024;
/// Lines that wait to be handled.
const INPUT_QUEUE: usize = 16;
/// Lines that wait to be printed.
const OUTPUT_QUEUE: usize = 64;

#[derive(Debug, PartialEq, Eq)]
pub enum Line {
    Text(String),
    /// Longer than `MAX_LINE_BYTES`; its content was discarded.
    TooLong,
}

/// The lines of standard input, until it is closed.
pub fn standard_input() -> io::Result<mpsc::Receiver<Line>> {
    let (send, lines) = mpsc::channel(INPUT_QUEUE);
    thread::Builder::new().name("stdin".to_owned()).spawn(move || {
        let mut input = io::stdin().lock();
        while let Ok(Some(line)) = next_line(&mut input) {
            if send.blocking_send(line).is_err() {
                break;
            }
        }
    })?;
    Ok(lines)
}

/// The next line that is not empty; `None` at the end of the input.
fn next_line(input: &mut impl BufRead) -> io::Result<Option<Line>> {
    let (mut line, mut too_long) = (Vec::new(), false);
    loop {
        let buffer = input.fill_buf()?;
        let is_eof = buffer.is_empty();
        let (is_line_end, used) = match buffer.iter().position(|byte| *byte == b'\n') {
            Some(index) => (true, index + 1),
            None => (is_eof, buffer.len()),
        };
        too_long |= line.len() + used > MAX_LINE_BYTES;
        if too_long {
            line.clear();
        } else {
            line.extend_from_slice(&buffer[..used]);
        }
        input.consume(used);
        if !is_line_end {
            continue;
        }
        let text = String::from_utf8_lossy(&line);
        match text.trim() {
            _ if too_long => return Ok(Some(Line::TooLong)),
            "" if is_eof => return Ok(None),
            "" => line.clear(),
            text => return Ok(Some(Line::Text(text.to_owned()))),
        }
    }
}

/// Prints lines on standard output. Clones may print concurrently; lines are never interleaved.
#[derive(Clone)]
pub(super) struct Printer(mpsc::Sender<PrinterCommand>);

enum PrinterCommand {
    Line(String),
    /// Replies once everything before it is printed.
    Flush(oneshot::Sender<()>),
}

impl Printer {
    pub fn standard_output() -> io::Result<Self> {
        let (send, mut commands) = mpsc::channel(OUTPUT_QUEUE);
        thread::Builder::new().name("stdout".to_owned()).spawn(move || {
            let mut out = io::stdout().lock();
            while let Some(command) = commands.blocking_recv() {
                match command {
                    PrinterCommand::Line(line) => {
                        if out.write_all(line.as_bytes()).and_then(|()| out.flush()).is_err() {
                            break;
                        }
                    }
                    PrinterCommand::Flush(reply) => drop(reply.send(())),
                }
            }
        })?;
        Ok(Self(send))
    }

    /// Prints a message as one line.
    pub async fn print(&self, message: &str) {
        // Line breaks in JSON are only white space, and a message must be one line.
        let mut line = message.replace(['\n', '\r'], " ");
        line.push('\n');
        // An error means that standard output is closed, which `closed` reports.
        let _ = self.0.send(PrinterCommand::Line(line)).await;
    }

    /// Waits until everything is printed.
    pub async fn flush(&self) {
        let (reply, flushed) = oneshot::channel();
        if self.0.send(PrinterCommand::Flush(reply)).await.is_ok() {
            let _ = flushed.await;
        }
    }

    /// Waits until standard output cannot be written any more.
    pub async fn closed(&self) {
        self.0.closed().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(mut input: &[u8]) -> Vec<Line> {
        std::iter::from_fn(|| next_line(&mut input).unwrap()).collect()
    }

    fn text(text: &str) -> Line {
        Line::Text(text.to_owned())
    }

    #[test]
    fn lines_may_end_with_crlf_or_the_end_of_input_and_empty_ones_are_skipped() {
        assert_eq!(read(b"{\"a\":1}\r\n\n  \n{}"), [text("{\"a\":1}"), text("{}")]);
        assert_eq!(read(b""), []);
    }

    #[test]
    fn a_line_that_is_too_long_is_skipped_and_the_next_one_is_read() {
        let mut input = vec![b'x'; MAX_LINE_BYTES + 1];
        input.extend_from_slice(b"\n{}\n");
        assert_eq!(read(&input), [Line::TooLong, text("{}")]);
    }
}
