//! An incremental decoder of server-sent events (`text/event-stream`): it takes the bytes of a stream in
//! pieces of any size and returns complete events. It is used for model providers, MCP servers and our own
//! API.

use std::time::Duration;

/// One event of a stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Event {
    /// The name of the event; `None` for an event without a name.
    pub event: Option<String>,
    /// The `data` lines, joined by line breaks; `None` if there are none. An event without data may still
    /// have an id to resume from, or a retry delay.
    pub data: Option<String>,
    /// The client sends the last id as `Last-Event-ID` when it reconnects.
    pub id: Option<String>,
    /// How long the client should wait before it reconnects.
    pub retry: Option<Duration>,
}

/// An event is larger than the limit, so the stream cannot be read any further.
#[derive(Debug, PartialEq, Eq)]
pub struct TooLarge;

/// Decodes one stream.
pub struct Decoder {
    max_event_bytes: usize,
    /// The current, incomplete line. These are bytes, because a piece may end inside a character.
    line: Vec<u8>,
    /// The current, incomplete event.
    event: Event,
    /// Whether the last byte was a carriage return.
    after_cr: bool,
    first_line: bool,
}

impl Decoder {
    /// An event of more than `max_event_bytes` is an error, so that a server cannot exhaust the memory.
    pub fn new(max_event_bytes: usize) -> Self {
        Self { max_event_bytes, line: vec![], event: Event::default(), after_cr: false, first_line: true }
    }

    /// How many bytes of the event that is not complete yet are in memory.
    pub fn buffered_bytes(&self) -> usize {
        self.line.len() + self.event.data.as_ref().map_or(0, String::len)
    }

    /// Takes the next bytes and returns the events that they complete. An event that is incomplete at the end
    /// of the stream is never returned, because any part of it may be missing.
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
            if self.buffered_bytes() + piece.len() > self.max_event_bytes {
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

    /// Processes a complete line. Returns the event if the line is empty, which ends an event.
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
            // Unknown fields, and comments: lines with nothing before the colon, which keep the stream open.
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the events of `text`, formatted as `name=data`, for pieces of several sizes.
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
    fn characters_may_be_split_between_pieces() {
        check("data: Grüße 🦀 東京\n\n", &["=Grüße 🦀 東京"]);
    }

    #[test]
    fn data_lines_are_joined_by_line_breaks() {
        check("data: {\ndata:  \"a\": 1\ndata: }\n\n", &["={\n \"a\": 1\n}"]);
        check("data\ndata\n\n", &["=\n"]);
    }

    #[test]
    fn comments_unknown_fields_and_events_without_data_are_skipped() {
        check(": keep-alive\n\nid: 7\nretry: 10\ndata:a\n\nevent: empty\n\ndata: b\n\n", &["=a", "=b"]);
    }

    #[test]
    fn a_byte_order_mark_is_skipped() {
        check("\u{feff}data: a\n\n", &["=a"]);
    }

    #[test]
    fn an_incomplete_event_at_the_end_is_dropped() {
        check("data: a\n\ndata: b\n", &["=a"]);
        check("data: a\n\ndata: {\"half", &["=a"]);
    }

    #[test]
    fn an_event_above_the_limit_is_an_error() {
        let mut decoder = Decoder::new(20);
        assert!(decoder.push(b"data: 0123456789\n\n").is_ok());
        assert_eq!(decoder.push(b"data: 0123456789abcdef"), Err(TooLarge));
        let mut decoder = Decoder::new(20);
        let many_lines = "data: 01234\n".repeat(5);
        assert_eq!(decoder.push(many_lines.as_bytes()), Err(TooLarge));
    }

    #[test]
    fn an_event_without_data_still_has_its_id_and_retry_delay() {
        let mut decoder = Decoder::new(100);
        let events = decoder.push(b": alive\n\nid: event-1\nretry: 500\n\nid: 7\ndata: \n\n").unwrap();
        let fields: Vec<_> = events.iter().map(|e| (e.id.as_deref(), e.retry, e.data.as_deref())).collect();
        let retry = Some(Duration::from_millis(500));
        assert_eq!(fields, [(Some("event-1"), retry, None), (Some("7"), None, Some(""))]);
    }
}
