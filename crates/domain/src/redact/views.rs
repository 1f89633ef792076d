//! A text as its reader sees it: `%2F` in a URL is `/`, `\u00fc` in JSON is `ü`. Writers differ in
//! what they escape and how, so the text is read instead of guessing how it was written.

use super::known::Hit;

/// JSON in JSON in JSON.
const DEPTH: usize = 3;

pub(super) struct View {
    bytes: Vec<u8>,
    /// For each byte, and for the end, where it came from in the text itself.
    from: Vec<usize>,
}

impl View {
    /// Every way to read this text in which it reads differently.
    pub fn all(text: &[u8]) -> Vec<View> {
        let mut views = Vec::new();
        if text.contains(&b'%') {
            views.push(View::read(text, percent));
        }
        let mut inner = text.contains(&b'\\').then(|| View::read(text, escape));
        while let Some(view) = inner.take() {
            if views.len() < DEPTH && view.bytes.contains(&b'\\') {
                let deeper = View::read(&view.bytes, escape);
                let from = deeper.from.iter().map(|at| view.from[*at]).collect();
                inner = Some(View { bytes: deeper.bytes, from });
            }
            views.push(view);
        }
        views
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The same place in the text itself.
    pub fn back<'a>(&self, hit: Hit<'a>) -> Hit<'a> {
        Hit { start: self.from[hit.start], end: self.from[hit.end], ..hit }
    }

    /// `one` reads what is written at the beginning of a text, and how long that is.
    fn read(text: &[u8], one: impl Fn(&[u8]) -> Option<(Letter, usize)>) -> Self {
        let (mut bytes, mut from, mut at) = (Vec::with_capacity(text.len()), Vec::new(), 0);
        from.reserve(text.len() + 1);
        while at < text.len() {
            let (letter, length) = one(&text[at..]).unwrap_or((Letter::Byte(text[at]), 1));
            match letter {
                Letter::Byte(byte) => bytes.push(byte),
                Letter::Char(letter) => bytes.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes()),
            }
            from.resize(bytes.len(), at);
            at += length;
        }
        from.push(text.len());
        Self { bytes, from }
    }
}

enum Letter {
    Byte(u8),
    Char(char),
}

fn percent(text: &[u8]) -> Option<(Letter, usize)> {
    let digits = text.strip_prefix(b"%")?.get(..2)?;
    Some((Letter::Byte(u8::try_from(hex(digits)?).ok()?), 3))
}

/// The escapes of JSON, and those that Rust and C write into logs besides.
fn escape(text: &[u8]) -> Option<(Letter, usize)> {
    let rest = text.strip_prefix(b"\\")?;
    let byte = |byte| Some((Letter::Byte(byte), 2));
    match *rest.first()? {
        b'n' => byte(b'\n'),
        b'r' => byte(b'\r'),
        b't' => byte(b'\t'),
        b'b' => byte(8),
        b'f' => byte(12),
        b'0' => byte(0),
        plain @ (b'"' | b'\'' | b'\\' | b'/') => byte(plain),
        b'x' => Some((Letter::Byte(u8::try_from(hex(rest.get(1..3)?)?).ok()?), 4)),
        b'u' if rest.get(1) == Some(&b'{') => {
            let length = rest.iter().take(9).position(|byte| *byte == b'}')?;
            Some((Letter::Char(char::from_u32(hex(&rest[2..length])?)?), length + 2))
        }
        b'u' => {
            let high = hex(rest.get(1..5)?)?;
            if let Some(letter) = char::from_u32(high) {
                return Some((Letter::Char(letter), 6));
            }
            let low = hex(rest.get(5..11)?.strip_prefix(b"\\u")?)?;
            let both = 0x1_0000 + ((high & 0x3ff) << 10) + (low & 0x3ff);
            Some((Letter::Char(char::from_u32(both)?), 12))
        }
        _ => None,
    }
}

fn hex(digits: &[u8]) -> Option<u32> {
    let number = |so_far: Option<u32>, byte: &u8| Some(so_far? * 16 + char::from(*byte).to_digit(16)?);
    digits.iter().fold((!digits.is_empty()).then_some(0), number)
}
