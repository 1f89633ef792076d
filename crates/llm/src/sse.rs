//! `text/event-stream`, as bytes arrive: any pieces in, whole events out.
//!
//! Knows nothing of what providers put into events. Ids and reconnection times are left out, since
//! no provider can take up a broken stream again.

/// A single event larger than this is no answer but a fault, and would only fill the memory.
const LARGEST: usize = 16 << 20;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SseEvent {
    pub event: Option<String>,
    /// Its `data` lines, joined by line breaks.
    pub data: String,
}

/// An event went past the cap; what follows cannot be read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooLarge;

pub(crate) struct Decoder {
    largest: usize,
    /// The line that has not ended yet, in bytes: a piece may end inside a character.
    line: Vec<u8>,
    event: Option<String>,
    data: Option<String>,
    after_cr: bool,
    first_line: bool,
}

impl Default for Decoder {
    fn default() -> Self {
        Self::new(LARGEST)
    }
}

impl Decoder {
    pub fn new(largest: usize) -> Self {
        Self { largest, line: vec![], event: None, data: None, after_cr: false, first_line: true }
    }

    /// Takes the next bytes and returns the events they completed. What the body leaves unfinished
    /// at its end is no event: it may have been cut anywhere.
    pub fn push(&mut self, mut bytes: &[u8]) -> Result<Vec<SseEvent>, TooLarge> {
        let mut events = vec![];
        while !bytes.is_empty() {
            // CR LF is one line break, also when the two arrive in different pieces.
            if std::mem::take(&mut self.after_cr) && bytes[0] == b'\n' {
                bytes = &bytes[1..];
                continue;
            }
            let end = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            let piece = &bytes[..end.unwrap_or(bytes.len())];
            let held = self.line.len() + self.data.as_ref().map_or(0, String::len);
            if held + piece.len() > self.largest {
                return Err(TooLarge);
            }
            self.line.extend_from_slice(piece);
            let Some(end) = end else { break };
            self.after_cr = bytes[end] == b'\r';
            bytes = &bytes[end + 1..];
            events.extend(self.end_line());
        }
        Ok(events)
    }

    fn end_line(&mut self) -> Option<SseEvent> {
        let bytes = std::mem::take(&mut self.line);
        let text = String::from_utf8_lossy(&bytes);
        let mut line = text.as_ref();
        if std::mem::take(&mut self.first_line) {
            line = line.strip_prefix('\u{feff}').unwrap_or(line);
        }
        if line.is_empty() {
            let event = self.event.take();
            return self.data.take().map(|data| SseEvent { event, data });
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match (field, &mut self.data) {
            ("data", Some(data)) => {
                data.push('\n');
                data.push_str(value);
            }
            ("data", None) => self.data = Some(value.to_owned()),
            ("event", _) => self.event = Some(value.to_owned()),
            // A comment has no name before its colon; providers send them to keep a line open.
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The events of `text` as `name=data`, the same however the bytes are cut.
    fn check(text: &str, expected: &[&str]) {
        for size in [1, 2, 3, 7, usize::MAX] {
            let mut decoder = Decoder::default();
            let pieces = text.as_bytes().chunks(size.min(text.len()));
            let events = pieces.flat_map(|piece| decoder.push(piece).unwrap());
            let events: Vec<_> =
                events.map(|e| format!("{}={}", e.event.unwrap_or_default(), e.data)).collect();
            assert_eq!(events, expected, "in pieces of {size}");
        }
    }

    #[test]
    fn an_event_ends_at_an_empty_line() {
        check("data: a\n\ndata: b\n\n", &["=a", "=b"]);
        check("event: ping\ndata: {}\n\ndata: b\n\n", &["ping={}", "=b"]);
    }

    #[test]
    fn every_kind_of_line_break_counts_once() {
        check("data: a\r\n\r\ndata: b\r\n\r\n", &["=a", "=b"]);
        check("data: a\r\rdata: b\r\r", &["=a", "=b"]);
        check("data: a\r\n\ndata: b\n\r\n", &["=a", "=b"]);
    }

    #[test]
    fn characters_survive_being_cut() {
        check("data: Grüße 🦀 東京\n\n", &["=Grüße 🦀 東京"]);
    }

    #[test]
    fn several_data_lines_are_one_text() {
        check("data: {\ndata:  \"a\": 1\ndata: }\n\n", &["={\n \"a\": 1\n}"]);
        check("data\ndata\n\n", &["=\n"]);
    }

    #[test]
    fn comments_unknown_fields_and_events_without_data_are_skipped() {
        check(": keep-alive\n\nid: 7\nretry: 10\ndata:a\n\nevent: empty\n\ndata: b\n\n", &["=a", "=b"]);
    }

    #[test]
    fn a_byte_order_mark_is_no_part_of_the_first_line() {
        check("\u{feff}data: a\n\n", &["=a"]);
    }

    #[test]
    fn what_the_end_leaves_unfinished_is_no_event() {
        check("data: a\n\ndata: b\n", &["=a"]);
        check("data: a\n\ndata: {\"half", &["=a"]);
    }

    #[test]
    fn an_event_past_the_cap_ends_the_reading() {
        let mut decoder = Decoder::new(20);
        assert!(decoder.push(b"data: 0123456789\n\n").is_ok());
        assert_eq!(decoder.push(b"data: 0123456789abcdef"), Err(TooLarge));
        let mut decoder = Decoder::new(20);
        let many_lines = "data: 01234\n".repeat(5);
        assert_eq!(decoder.push(many_lines.as_bytes()), Err(TooLarge));
    }
}
