//! How far a reader is in the frames of an answer. A position is the `id:` of each frame, and contains all that is
//! needed to go on after it, on any server.

use std::{fmt, str::FromStr};

use emergent_domain::{ids::ChatMessageId, invalid::Invalid};
use uuid::Uuid;

/// A position in the frames of one answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    pub answer: ChatMessageId,
    pub place: FramePlace,
}

/// What a reader has received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FramePlace {
    /// The first frame of a message that waits for its turn.
    Queued,
    /// Everything up to an event of the run, and a part of the text after it.
    After { seq: i64, sent: SentText },
    /// As `After`, without text, and the frame `error` of the end of the run.
    Error { seq: i64 },
}

/// How much of a text was sent, and its hash. The text that a reader has is not known when it comes back; the hash
/// shows whether it is the start of the text that there is now. It is not, if the model was asked again meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SentText {
    pub bytes: usize,
    pub hash: u64,
}

/// The start value and the factor of FNV-1a, which is computed byte by byte as the text grows.
const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;

impl Default for SentText {
    fn default() -> Self {
        Self { bytes: 0, hash: FNV_OFFSET }
    }
}

impl SentText {
    /// Adds text that was sent.
    #[must_use]
    pub fn with(self, text: &str) -> Self {
        let hash =
            text.bytes().fold(self.hash, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(FNV_PRIME));
        Self { bytes: self.bytes + text.len(), hash }
    }

    /// Returns what comes after this part of a text; `None` if the text does not start with it.
    pub fn rest_of(self, text: &str) -> Option<&str> {
        let (start, rest) = text.split_at_checked(self.bytes)?;
        (Self::default().with(start) == self).then_some(rest)
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.", self.answer.0.simple())?;
        match self.place {
            FramePlace::Queued => f.write_str("queued"),
            FramePlace::Error { seq } => write!(f, "{seq}.error"),
            FramePlace::After { seq, sent } if sent == SentText::default() => write!(f, "{seq}"),
            FramePlace::After { seq, sent } => write!(f, "{seq}.{}.{:016x}", sent.bytes, sent.hash),
        }
    }
}

impl FromStr for Position {
    type Err = Invalid;
    fn from_str(text: &str) -> Result<Self, Invalid> {
        parse(text)
            .ok_or_else(|| Invalid::new("Last-Event-ID", "is not a position in the frames of an answer"))
    }
}

fn parse(text: &str) -> Option<Position> {
    let parts: Vec<&str> = text.split('.').collect();
    let seq = |text: &str| text.parse::<i64>().ok().filter(|seq| *seq >= 0);
    let place = match parts[1..] {
        ["queued"] => FramePlace::Queued,
        [last] => FramePlace::After { seq: seq(last)?, sent: SentText::default() },
        [last, "error"] => FramePlace::Error { seq: seq(last)? },
        [last, bytes, hash] => {
            let sent = SentText { bytes: bytes.parse().ok()?, hash: u64::from_str_radix(hash, 16).ok()? };
            FramePlace::After { seq: seq(last)?, sent }
        }
        _ => return None,
    };
    Some(Position { answer: ChatMessageId(Uuid::try_parse(parts[0]).ok()?), place })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_is_read_from_its_text_and_nothing_else_is() {
        let answer = ChatMessageId::new();
        let sent = SentText::default().with("Grüße");
        for place in [
            FramePlace::Queued,
            FramePlace::After { seq: 0, sent: SentText::default() },
            FramePlace::After { seq: 12, sent },
            FramePlace::Error { seq: 3 },
        ] {
            let position = Position { answer, place };
            assert_eq!(position.to_string().parse(), Ok(position));
        }
        let id = answer.0.simple();
        for text in [
            "",
            ".",
            "x.1",
            &format!("{id}"),
            &format!("{id}.-1"),
            &format!("{id}.1.2"),
            &format!("{id}.1.2.g"),
        ] {
            assert!(text.parse::<Position>().is_err(), "{text}");
        }
    }

    #[test]
    fn the_rest_of_a_text_is_known_only_if_it_starts_with_what_was_sent() {
        let sent = SentText::default().with("Gr").with("üß");
        assert_eq!(sent.rest_of("Grüße"), Some("e"));
        assert_eq!(sent.rest_of("Grüß"), Some(""));
        assert_eq!(sent.rest_of("Gr"), None);
        assert_eq!(sent.rest_of("Gräße"), None);
        assert_eq!(SentText::default().with("Gr").rest_of("G€"), None, "no character ends there");
    }
}
