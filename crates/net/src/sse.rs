//! `text/event-stream`, as bytes arrive: any pieces in, whole events out.
//!
//! The decoder knows nothing of what is put into events, nor where the bytes come from. Model
//! providers, MCP servers and our own API send such streams.

use std::time::Duration;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Event {
    pub event: Option<String>,
    /// Its `data` lines, joined by line breaks; `None` when it has none. Such an event says nothing,
    /// but may carry an id to go on from, or how long to wait.
    pub data: Option<String>,
    pub id: Option<String>,
    pub retry: Option<Duration>,
}

/// An event went past the cap; what follows cannot be read.
#[derive(Debug, PartialEq, Eq)]
pub struct TooLarge;

pub struct Decoder {
    largest: usize,
    /// The line that has not ended yet, in bytes: a piece may end inside a character.
    line: Vec<u8>,
    event: Event,
    after_cr: bool,
    first_line: bool,
}

impl Decoder {
    /// `largest`: a single event of more bytes would only fill the memory.
    pub fn new(largest: usize) -> Self {
        Self { largest, line: vec![], event: Event::default(), after_cr: false, first_line: true }
    }

    /// Takes the next bytes and returns the events they completed. What the body leaves unfinished
    /// at its end is no event: it may have been cut anywhere.
    pub fn push(&mut self, mut bytes: &[u8]) -> Result<Vec<Event>, TooLarge> {
        let mut events = vec![];
        while !bytes.is_empty() {
            // CR LF is one line break, also when the two arrive in different pieces.
            if std::mem::take(&mut self.after_cr) && bytes[0] == b'\n' {
                bytes = &bytes[1..];
                continue;
            }
            let end = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            let piece = &bytes[..end.unwrap_or(bytes.len())];
            let held = self.line.len() + self.event.data.as_ref().map_or(0, String::len);
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

    fn end_line(&mut self) -> Option<Event> {
        let bytes = std::mem::take(&mut self.line);
        let text = String::from_utf8_lossy(&bytes);
        let mut line = text.as_ref();
        if std::mem::take(&mut self.first_line) {
            line = line.strip_prefix('\u{feff}').unwrap_or(line);
        }
        if line.is_empty() {
            let event = std::mem::take(&mut self.event);
            return (event != Event::default()).then_some(event);
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match (field, &mut self.event.data) {
            ("data", Some(data)) => {
                data.push('\n');
                data.push_str(value);
            }
            ("data", None) => self.event.data = Some(value.to_owned()),
            ("event", _) => self.event.event = Some(value.to_owned()),
            ("id", _) if !value.contains('\0') => self.event.id = Some(value.to_owned()),
            ("retry", _) => self.event.retry = value.parse().ok().map(Duration::from_millis),
            // A comment has no name before its colon; it is sent to keep a line open.
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
            let mut decoder = Decoder::new(1_000);
            let pieces = text.as_bytes().chunks(size.min(text.len()));
            let events = pieces.flat_map(|piece| decoder.push(piece).unwrap());
            let events: Vec<_> =
                events.filter_map(|e| Some(format!("{}={}", e.event.unwrap_or_default(), e.data?))).collect();
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

    #[test]
    fn an_event_without_data_still_says_where_to_go_on() {
        let mut decoder = Decoder::new(100);
        let events = decoder.push(b": alive\n\nid: event-1\nretry: 500\n\nid: 7\ndata: \n\n").unwrap();
        let told: Vec<_> = events.iter().map(|e| (e.id.as_deref(), e.retry, e.data.as_deref())).collect();
        let wait = Some(Duration::from_millis(500));
        assert_eq!(told, [(Some("event-1"), wait, None), (Some("7"), None, Some(""))]);
    }
}
