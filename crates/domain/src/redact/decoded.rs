//! Decodes a text the way its reader would: `%2F` in a URL is `/`, `\u00fc` in JSON is `ü`.
//! Programs differ in what they escape and how, so decoding is more reliable than generating all
//! escaped forms of a secret.

use super::index::Hit;

/// JSON may contain JSON as a string, up to this depth.
const MAX_NESTING: usize = 3;

pub(super) struct DecodedText {
    bytes: Vec<u8>,
    /// For each decoded byte, and for the end, the offset in the original text.
    offsets: Vec<usize>,
}

impl DecodedText {
    /// Returns every decoding that differs from the text itself.
    pub fn decodings(text: &[u8]) -> Vec<DecodedText> {
        let mut views = Vec::new();
        if text.contains(&b'%') {
            views.push(DecodedText::decode(text, percent_escape));
        }
        let mut inner = text.contains(&b'\\').then(|| DecodedText::decode(text, backslash_escape));
        while let Some(view) = inner.take() {
            if views.len() < MAX_NESTING && view.bytes.contains(&b'\\') {
                let deeper = DecodedText::decode(&view.bytes, backslash_escape);
                let from = deeper.offsets.iter().map(|offset| view.offsets[*offset]).collect();
                inner = Some(DecodedText { bytes: deeper.bytes, offsets: from });
            }
            views.push(view);
        }
        views
    }

    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Translates a hit to offsets in the original text.
    pub fn to_original<'a>(&self, hit: Hit<'a>) -> Hit<'a> {
        Hit { start: self.offsets[hit.start], end: self.offsets[hit.end], ..hit }
    }

    /// Decodes a text. `decode_one` decodes the escape at the start of a slice, and returns its
    /// encoded length.
    fn decode(text: &[u8], decode_one: impl Fn(&[u8]) -> Option<(DecodedChar, usize)>) -> Self {
        let (mut bytes, mut offsets, mut position) = (Vec::with_capacity(text.len()), Vec::new(), 0);
        offsets.reserve(text.len() + 1);
        while position < text.len() {
            let (letter, length) =
                decode_one(&text[position..]).unwrap_or((DecodedChar::Byte(text[position]), 1));
            match letter {
                DecodedChar::Byte(byte) => bytes.push(byte),
                DecodedChar::Char(letter) => {
                    bytes.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes())
                }
            }
            offsets.resize(bytes.len(), position);
            position += length;
        }
        offsets.push(text.len());
        Self { bytes, offsets }
    }
}

enum DecodedChar {
    Byte(u8),
    Char(char),
}

fn percent_escape(text: &[u8]) -> Option<(DecodedChar, usize)> {
    let digits = text.strip_prefix(b"%")?.get(..2)?;
    Some((DecodedChar::Byte(u8::try_from(hex(digits)?).ok()?), 3))
}

/// Decodes the escapes of JSON, and the additional ones that Rust and C write to logs.
fn backslash_escape(text: &[u8]) -> Option<(DecodedChar, usize)> {
    let rest = text.strip_prefix(b"\\")?;
    let byte = |byte| Some((DecodedChar::Byte(byte), 2));
    match *rest.first()? {
        b'n' => byte(b'\n'),
        b'r' => byte(b'\r'),
        b't' => byte(b'\t'),
        b'b' => byte(8),
        b'f' => byte(12),
        b'0' => byte(0),
        plain @ (b'"' | b'\'' | b'\\' | b'/') => byte(plain),
        b'x' => Some((DecodedChar::Byte(u8::try_from(hex(rest.get(1..3)?)?).ok()?), 4)),
        b'u' if rest.get(1) == Some(&b'{') => {
            let length = rest.iter().take(9).position(|byte| *byte == b'}')?;
            Some((DecodedChar::Char(char::from_u32(hex(&rest[2..length])?)?), length + 2))
        }
        b'u' => {
            let high = hex(rest.get(1..5)?)?;
            if let Some(letter) = char::from_u32(high) {
                return Some((DecodedChar::Char(letter), 6));
            }
            let low = hex(rest.get(5..11)?.strip_prefix(b"\\u")?)?;
            let both = 0x1_0000 + ((high & 0x3ff) << 10) + (low & 0x3ff);
            Some((DecodedChar::Char(char::from_u32(both)?), 12))
        }
        _ => None,
    }
}

fn hex(digits: &[u8]) -> Option<u32> {
    let number = |so_far: Option<u32>, byte: &u8| Some(so_far? * 16 + char::from(*byte).to_digit(16)?);
    digits.iter().fold((!digits.is_empty()).then_some(0), number)
}
