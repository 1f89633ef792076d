//! `text/event-stream` as bytes arrive, with what is needed to take a broken stream up again.

use std::time::Duration;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Event {
    pub event: Option<String>,
    pub data: String,
    pub id: Option<String>,
    pub retry: Option<Duration>,
}

/// An event went past the limit; what follows cannot be read.
#[derive(Debug, PartialEq, Eq)]
pub struct TooLarge;

pub struct Decoder {
    largest: usize,
    /// The line that has not ended yet, in bytes: a piece may end inside a character.
    line: Vec<u8>,
    event: Event,
    /// Whether the event has anything yet; an empty one is none.
    begun: bool,
    has_data: bool,
    after_cr: bool,
    first_line: bool,
}

impl Decoder {
    pub fn new(largest: usize) -> Self {
        Self {
            largest,
            line: Vec::new(),
            event: Event::default(),
            begun: false,
            has_data: false,
            after_cr: false,
            first_line: true,
        }
    }

    /// Takes the next bytes and returns the events they completed. One without data counts too: it
    /// may carry an id or a time to wait.
    pub fn push(&mut self, mut bytes: &[u8]) -> Result<Vec<Event>, TooLarge> {
        let mut events = Vec::new();
        while !bytes.is_empty() {
            // CR LF is one line break, also when the two arrive in different pieces.
            if std::mem::take(&mut self.after_cr) && bytes[0] == b'\n' {
                bytes = &bytes[1..];
                continue;
            }
            let end = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            let piece = &bytes[..end.unwrap_or(bytes.len())];
            if self.line.len() + self.event.data.len() + piece.len() > self.largest {
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
            self.has_data = false;
            let event = std::mem::take(&mut self.event);
            return std::mem::take(&mut self.begun).then_some(event);
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" => {
                if std::mem::replace(&mut self.has_data, true) {
                    self.event.data.push('\n');
                }
                self.event.data.push_str(value);
            }
            "event" => self.event.event = Some(value.to_owned()),
            "id" if !value.contains('\0') => self.event.id = Some(value.to_owned()),
            "retry" => self.event.retry = value.parse().ok().map(Duration::from_millis),
            // A comment has no name before its colon.
            _ => return None,
        }
        self.begun = true;
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[(&str, &str, &str)]) {
        for size in [1, 2, 3, 7, usize::MAX] {
            let mut decoder = Decoder::new(1_000);
            let pieces = text.as_bytes().chunks(size.min(text.len()));
            let events: Vec<_> = pieces.flat_map(|piece| decoder.push(piece).unwrap()).collect();
            let found: Vec<_> = events
                .iter()
                .map(|e| (e.event.as_deref().unwrap_or(""), e.data.as_str(), e.id.as_deref().unwrap_or("")))
                .collect();
            assert_eq!(found, expected, "in pieces of {size}");
        }
    }

    #[test]
    fn events_come_whole_however_they_are_cut() {
        check("data: a\n\nevent: endpoint\r\ndata: /m?é\r\n\r\n", &[("", "a", ""), ("endpoint", "/m?é", "")]);
        check(": alive\n\ndata: a\ndata: b\rid: 7\r\r", &[("", "a\nb", "7")]);
    }

    #[test]
    fn an_event_without_data_still_says_where_to_go_on() {
        let mut decoder = Decoder::new(100);
        let events = decoder.push(b"id: event-1\nretry: 500\ndata: \n\n").unwrap();
        assert_eq!(events[0].id.as_deref(), Some("event-1"));
        assert_eq!(events[0].retry, Some(Duration::from_millis(500)));
        assert_eq!(events[0].data, "");
    }

    #[test]
    fn an_event_past_the_limit_is_refused_before_it_is_whole() {
        let mut decoder = Decoder::new(100);
        assert_eq!(decoder.push(&[b'x'; 60]), Ok(vec![]));
        assert_eq!(decoder.push(&[b'x'; 60]), Err(TooLarge));
        let mut lines = Decoder::new(100);
        let many = "data: 0123456789\n".repeat(20);
        assert_eq!(lines.push(many.as_bytes()), Err(TooLarge));
    }
}
