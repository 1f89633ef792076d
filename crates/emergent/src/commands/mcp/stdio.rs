//! Messages on standard input and output, one a line. Both block, so each has a thread of its own.

use std::{
    io::{self, BufRead, Write},
    thread,
};

use tokio::sync::{mpsc, oneshot};

/// The body of a request may have 8 MiB; a line that is longer is no message.
const MAX_LINE_BYTES: usize = emergent_api::limits::BODY + 1024;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    Text(String),
    TooLong,
}

/// What comes in, until the other side closes.
pub(super) fn standard_input() -> io::Result<mpsc::Receiver<Line>> {
    let (send, lines) = mpsc::channel(16);
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

/// The next line that is not empty; `None` at the end.
fn next_line(input: &mut impl BufRead) -> io::Result<Option<Line>> {
    let (mut line, mut too_long) = (Vec::new(), false);
    loop {
        let part = input.fill_buf()?;
        let over = part.is_empty();
        let (end, used) = match part.iter().position(|byte| *byte == b'\n') {
            Some(at) => (true, at + 1),
            None => (over, part.len()),
        };
        too_long |= line.len() + used > MAX_LINE_BYTES;
        if too_long {
            line.clear();
        } else {
            line.extend_from_slice(&part[..used]);
        }
        input.consume(used);
        if !end {
            continue;
        }
        let text = String::from_utf8_lossy(&line);
        match text.trim() {
            _ if too_long => return Ok(Some(Line::TooLong)),
            "" if over => return Ok(None),
            "" => line.clear(),
            text => return Ok(Some(Line::Text(text.to_owned()))),
        }
    }
}

/// Standard output. Several write; a line is never broken by another.
#[derive(Clone)]
pub(super) struct Printer(mpsc::Sender<PrinterCommand>);

enum PrinterCommand {
    Line(String),
    /// Everything before it is out.
    Done(oneshot::Sender<()>),
}

impl Printer {
    pub fn standard_output() -> io::Result<Self> {
        let (send, mut words) = mpsc::channel(64);
        thread::Builder::new().name("stdout".to_owned()).spawn(move || {
            let mut out = io::stdout().lock();
            while let Some(word) = words.blocking_recv() {
                match word {
                    PrinterCommand::Line(line) => {
                        if out.write_all(line.as_bytes()).and_then(|()| out.flush()).is_err() {
                            break;
                        }
                    }
                    PrinterCommand::Done(told) => drop(told.send(())),
                }
            }
        })?;
        Ok(Self(send))
    }

    pub async fn print(&self, message: &str) {
        // JSON has no line breaks of its own; whatever else comes must not make two of one.
        let mut line = message.replace(['\n', '\r'], " ");
        line.push('\n');
        // Nobody reads any more: `closed` says so.
        let _ = self.0.send(PrinterCommand::Line(line)).await;
    }

    pub async fn flush(&self) {
        let (told, done) = oneshot::channel();
        if self.0.send(PrinterCommand::Done(told)).await.is_ok() {
            let _ = done.await;
        }
    }

    /// Comes when nobody reads any more.
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
    fn a_line_is_a_message_however_it_ends() {
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
