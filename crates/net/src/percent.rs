//! Percent-decoding of URLs: `%2F` becomes `/`.

/// Returns `None` if an escape is malformed or the decoded bytes are not UTF-8.
pub fn decode(text: &str) -> Option<String> {
    String::from_utf8(decode_bytes(text, |_| None)?).ok()
}

/// Decodes any text: malformed escapes stay as they are, and bytes that are not UTF-8 become U+FFFD.
pub fn decode_lossy(text: &str) -> String {
    let bytes = decode_bytes(text, Some).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// `malformed` returns the byte for a percent sign without two hexadecimal digits after it; `None` fails.
fn decode_bytes(text: &str, malformed: impl Fn(u8) -> Option<u8>) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        rest = tail;
        bytes.push(match (first, escaped_byte(tail)) {
            (b'%', Some(byte)) => {
                rest = &tail[2..];
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
    fn escapes_become_the_bytes_they_stand_for() {
        assert_eq!(decode("Task/a%20b%2Fc").as_deref(), Some("Task/a b/c"));
        assert_eq!(decode("gr%C3%BC%C3%9Fe").as_deref(), Some("grüße"));
        assert_eq!(decode_lossy("%2Fetc%2Fmy+ca.pem"), "/etc/my+ca.pem");
    }

    #[test]
    fn malformed_escapes_fail_in_decode_and_stay_in_decode_lossy() {
        for (malformed, lossy) in
            [("%", "%"), ("%2", "%2"), ("%zz", "%zz"), ("%+5", "%+5"), ("%ff", "\u{fffd}")]
        {
            assert_eq!(decode(malformed), None, "{malformed}");
            assert_eq!(decode_lossy(malformed), lossy, "{malformed}");
        }
    }
}
