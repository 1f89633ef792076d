//! Splits a stream of bytes into lines, and drops lines that exceed the maximum length.

use super::line::{Line, LineError, MAX_LINE, parse};

/// A line as received, not parsed yet.
pub(crate) struct RawLine {
    pub number: u64,
    /// `None` if the line was too long.
    pub bytes: Option<Vec<u8>>,
}

impl RawLine {
    pub(crate) fn parse(&self) -> Result<Option<Line>, LineError> {
        match &self.bytes {
            Some(bytes) => parse(self.number, bytes),
            None => Err(LineError::new(self.number, format!("is longer than {MAX_LINE} bytes"))),
        }
    }
}

/// Splits the pushed bytes into lines. Bytes after the last newline are buffered until more arrive.
#[derive(Default)]
pub(crate) struct Splitter {
    rest: Vec<u8>,
    too_long: bool,
    lines: u64,
}

impl Splitter {
    pub(crate) fn push(&mut self, mut bytes: &[u8], into: &mut Vec<RawLine>) {
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            self.buffer(&bytes[..end]);
            into.push(self.take_line());
            bytes = &bytes[end + 1..];
        }
        self.buffer(bytes);
    }

    /// Returns the last line if it does not end with a newline.
    pub(crate) fn finish(&mut self, into: &mut Vec<RawLine>) {
        if self.too_long || !self.rest.is_empty() {
            into.push(self.take_line());
        }
    }

    fn buffer(&mut self, bytes: &[u8]) {
        if self.too_long || self.rest.len() + bytes.len() > MAX_LINE {
            self.too_long = true;
            self.rest = Vec::new();
        } else {
            self.rest.extend_from_slice(bytes);
        }
    }

    fn take_line(&mut self) -> RawLine {
        self.lines += 1;
        let bytes = std::mem::take(&mut self.rest);
        let too_long = std::mem::take(&mut self.too_long);
        RawLine { number: self.lines, bytes: (!too_long).then_some(bytes) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_the_same_however_the_bytes_arrive() {
        let text = b"one\n\nthree\r\nlast";
        for size in 1..=text.len() {
            let (mut splitter, mut lines) = (Splitter::default(), Vec::new());
            text.chunks(size).for_each(|part| splitter.push(part, &mut lines));
            splitter.finish(&mut lines);
            let seen: Vec<_> =
                lines.iter().map(|line| (line.number, line.bytes.as_deref().unwrap())).collect();
            assert_eq!(seen, [(1, &b"one"[..]), (2, b""), (3, b"three\r"), (4, b"last")]);
        }
    }

    #[test]
    fn a_line_that_is_too_long_is_dropped_and_the_next_is_not() {
        let (mut splitter, mut lines) = (Splitter::default(), Vec::new());
        let part = vec![b'x'; 1 << 20];
        for _ in 0..5 {
            splitter.push(&part, &mut lines);
            assert!(splitter.rest.len() <= MAX_LINE);
        }
        splitter.push(b"\nnext\n", &mut lines);
        assert!(lines[0].bytes.is_none());
        assert_eq!(lines[0].parse().unwrap_err().message, "is longer than 2097152 bytes");
        assert_eq!(lines[1].bytes.as_deref(), Some(&b"next"[..]));
    }
}
