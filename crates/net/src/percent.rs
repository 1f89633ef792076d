//! Percent-decoding: `%2F` as the byte it stands for.

/// `None` when an escape is malformed or the bytes are not UTF-8.
pub fn decode(text: &str) -> Option<String> {
    String::from_utf8(decode_bytes(text, |_| None)?).ok()
}

/// Keeps a malformed escape as it is written, and replaces bytes that are not UTF-8.
pub fn decode_lossy(text: &str) -> String {
    let bytes = decode_bytes(text, Some).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// `malformed` says what a percent sign without two hexadecimal digits stands for.
fn decode_bytes(text: &str, malformed: impl Fn(u8) -> Option<u8>) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        bytes.push(match (first, escaped_byte(after)) {
            (b'%', Some(byte)) => {
                rest = &after[2..];
                byte
            }
            (b'%', None) => malformed(b'%')?,
            (other, _) => *other,
        });
    }
    Some(bytes)
}

fn escaped_byte(digits: &[u8]) -> Option<u8> {
    let digit = |at: usize| char::from(*digits.get(at)?).to_digit(16);
    u8::try_from(digit(0)? * 16 + digit(1)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_bytes() {
        assert_eq!(decode("Task/a%20b%2Fc").as_deref(), Some("Task/a b/c"));
        assert_eq!(decode("gr%C3%BC%C3%9Fe").as_deref(), Some("grüße"));
        assert_eq!(decode_lossy("%2Fetc%2Fmy+ca.pem"), "/etc/my+ca.pem");
    }

    #[test]
    fn what_is_malformed_is_refused_or_kept() {
        for (wrong, kept) in [("%", "%"), ("%2", "%2"), ("%zz", "%zz"), ("%+5", "%+5"), ("%ff", "\u{fffd}")] {
            assert_eq!(decode(wrong), None, "{wrong}");
            assert_eq!(decode_lossy(wrong), kept, "{wrong}");
        }
    }
}
