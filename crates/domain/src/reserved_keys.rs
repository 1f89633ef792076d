//! Keys that `serde_json` keeps for itself. Its parser of values takes an object whose first key is
//! `$serde_json::private::RawValue` for a text that contains JSON, and parses that text: again from depth zero, and
//! past all limits on size and number of values. Nobody outside of the server may use such a key.

/// What all reserved keys begin with.
const PREFIX: &str = "$serde_json::private::";

/// Whether a key is reserved.
pub fn is_reserved(key: &str) -> bool {
    key.starts_with(PREFIX)
}

/// The reason why a text with a reserved key is refused.
pub const REASON: &str = "the key `$serde_json::private::RawValue` is reserved, like all keys that begin with \
                          `$serde_json::private::`";

/// Whether a JSON text has a reserved key, at any depth and however it is escaped. Strings that are not keys may say
/// anything. The text need not be valid: a parser stops at the first error, and up to there the answer is right.
pub fn has_reserved_key(text: &[u8]) -> bool {
    may_have_one(text) && has_one(text)
}

/// Whether a text has the prefix somewhere, or escapes an ASCII character, so that a closer look is needed. Most texts
/// do neither.
fn may_have_one(text: &[u8]) -> bool {
    text.iter().enumerate().any(|(at, byte)| match byte {
        b'$' => text[at..].starts_with(PREFIX.as_bytes()),
        b'\\' => matches!(text.get(at..at + 5), Some([_, b'u', b'0', b'0', b'2'..=b'7'])),
        _ => false,
    })
}

fn has_one(text: &[u8]) -> bool {
    let mut at = 0;
    while let Some(quote) = text[at..].iter().position(|byte| *byte == b'"') {
        let Some((matches, end)) = read_string(text, at + quote + 1) else { return false };
        let behind = text[end..].trim_ascii_start();
        if matches && behind.first() == Some(&b':') {
            return true;
        }
        at = end;
    }
    false
}

/// Whether the string that begins here has the prefix, and where the text goes on behind it; `None` if it has no end.
fn read_string(text: &[u8], start: usize) -> Option<(bool, usize)> {
    let prefix = PREFIX.as_bytes();
    // How many bytes of the prefix the string has had; `None` if it begins otherwise.
    let mut found = Some(0);
    let mut at = start;
    loop {
        let (letter, length) = match text.get(at)? {
            b'"' => return Some((found == Some(prefix.len()), at + 1)),
            b'\\' => read_escape(text, at)?,
            byte => (Some(*byte), 1),
        };
        found = found.and_then(|count| match prefix.get(count) {
            None => Some(count),
            expected => (expected == letter.as_ref()).then_some(count + 1),
        });
        at += length;
    }
}

/// The ASCII character of an escape like `\u0024`, and the length of the escape. No other escape is part of the prefix.
fn read_escape(text: &[u8], at: usize) -> Option<(Option<u8>, usize)> {
    if *text.get(at + 1)? != b'u' {
        return Some((None, 2));
    }
    let digits = text.get(at + 2..at + 6).and_then(|digits| std::str::from_utf8(digits).ok());
    let is_hex = |digits: &&str| digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    match digits.filter(is_hex).and_then(|digits| u16::from_str_radix(digits, 16).ok()) {
        Some(code) => Some((u8::try_from(code).ok(), 6)),
        None => Some((None, 2)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The reserved key with the character at this place escaped.
    fn escaped_at(place: usize, upper: bool) -> String {
        let letters = "$serde_json::private::RawValue".chars().enumerate();
        letters
            .map(|(at, letter)| match (at == place, upper) {
                (false, _) => letter.to_string(),
                (true, false) => format!("\\u{:04x}", letter as u32),
                (true, true) => format!("\\u{:04X}", letter as u32),
            })
            .collect()
    }

    #[test]
    fn a_reserved_key_is_found_at_any_place_of_any_object() {
        for text in [
            r#"{"$serde_json::private::RawValue":"no"}"#,
            r#"{"$serde_json::private::Number":"1"}"#,
            r#"{"$serde_json::private::":1}"#,
            r#"{"a":1,"$serde_json::private::RawValue":"no","z":1}"#,
            r#"{"z":1,"$serde_json::private::RawValue":"no"}"#,
            r#"[1,[{"a":{"$serde_json::private::RawValue"   :{}}}]]"#,
            "{\"$serde_json::private::RawValue\" \r\n\t: 1}",
            r#"{"a":"\\","$serde_json::private::RawValue":1}"#,
            r#"{"a":"\"","$serde_json::private::RawValue":1}"#,
            r#"{"é\ud83d\ude00":"\u00e9","$serde_json::private::RawValue":1}"#,
            // A parser reads the key before it finds the error.
            r#"[{"$serde_json::private::RawValue":"#,
        ] {
            assert!(has_reserved_key(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn an_escaped_key_is_found() {
        for place in 0..30 {
            for upper in [false, true] {
                let text = format!(r#"{{"a":1,"{}":"1"}}"#, escaped_at(place, upper));
                assert!(has_reserved_key(text.as_bytes()), "{text}");
            }
        }
        let all: String =
            "$serde_json::private::RawValue".bytes().map(|byte| format!("\\u{byte:04x}")).collect();
        assert!(has_reserved_key(format!(r#"{{"{all}":1}}"#).as_bytes()));
    }

    #[test]
    fn other_texts_are_free_of_it() {
        for text in [
            "",
            "1",
            "\"",
            r#""$serde_json::private::RawValue""#,
            r#"["$serde_json::private::RawValue","\u0024serde_json::private::RawValue"]"#,
            r#"{"a":"$serde_json::private::RawValue","b":1}"#,
            r#"{"a":"{\"$serde_json::private::RawValue\":1}"}"#,
            r#"{" $serde_json::private::RawValue":1}"#,
            r#"{"serde_json::private::RawValue":1}"#,
            r#"{"$serde_json::private":1}"#,
            r#"{"$SERDE_JSON::private::RawValue":1}"#,
            r#"{"\\u0024serde_json::private::RawValue":1}"#,
            r#"{"\ud800$serde_json::private::RawValue":1}"#,
            r#"{"\u0124serde_json::private::RawValue":1}"#,
            r#"{"a\u0024serde_json::private::RawValue":1}"#,
            // No end of the string, so no parser gets further.
            r#"{"$serde_json::private::RawValue"#,
            r#"{"\u0024serde_json::private::RawValue\"#,
            r#"{"\u0024serde_json::private::RawValue\u00"#,
        ] {
            assert!(!has_reserved_key(text.as_bytes()), "{text}");
        }
        assert!(!has_reserved_key(b"\xff\"\xff\\\xff\"\\u0024\xff"));
    }
}
