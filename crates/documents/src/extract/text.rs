//! Decodes bytes to a string.

use std::borrow::Cow;

use encoding_rs::{DecoderResult, Encoding, UTF_8, UTF_16BE, UTF_16LE};

use crate::error::Error;
use crate::mime::Charset;

/// Decodes text strictly. A byte-order mark has precedence over the stated charset, and that over
/// UTF-8.
///
/// Guessing a charset could silently store wrong characters, so bytes that are not UTF-8 need a
/// stated charset. Line endings become `\n`.
pub(super) fn decode(bytes: &[u8], charset: Charset) -> Result<String, Error> {
    let (encoding, bom_length) = encoding(bytes, charset.0.unwrap_or(UTF_8));
    reject_nul(bytes, encoding)?;
    let body = &bytes[bom_length..];
    if encoding == UTF_8 {
        return match std::str::from_utf8(body) {
            Ok(text) => Ok(with_unix_lines(text)),
            Err(error) => {
                Err(Error::NotText { offset: bom_length + error.valid_up_to(), reason: "invalid UTF-8" })
            }
        };
    }
    let mut decoder = encoding.new_decoder_without_bom_handling();
    let capacity = decoder.max_utf8_buffer_length_without_replacement(body.len());
    let mut text = String::with_capacity(capacity.unwrap_or(body.len()));
    let (result, read) = decoder.decode_to_string_without_replacement(body, &mut text, true);
    match result {
        DecoderResult::InputEmpty => Ok(with_unix_lines(&text)),
        DecoderResult::Malformed(length, after) => Err(Error::NotText {
            offset: bom_length + read.saturating_sub(usize::from(length) + usize::from(after)),
            reason: "bytes that are not in its charset",
        }),
        DecoderResult::OutputFull => {
            Err(Error::NotText { offset: bom_length + read, reason: "more text than fits in memory" })
        }
    }
}

/// Decodes HTML as browsers do: invalid bytes are replaced rather than rejected, and a `<meta
/// charset>` also states the charset.
pub(super) fn decode_html(bytes: &[u8], charset: Charset) -> Result<String, Error> {
    let stated = charset.0.or_else(|| meta_charset(bytes)).unwrap_or(UTF_8);
    let (encoding, bom_length) = encoding(bytes, stated);
    reject_nul(bytes, encoding)?;
    let (text, _) = encoding.decode_without_bom_handling(&bytes[bom_length..]);
    Ok(with_unix_lines(&text))
}

/// Returns the encoding of a text and the length of its byte-order mark.
fn encoding(bytes: &[u8], stated: &'static Encoding) -> (&'static Encoding, usize) {
    Encoding::for_bom(bytes).unwrap_or((stated, 0))
}

/// Rejects NUL characters. A file that contains one is not a text, and databases would reject it
/// later.
fn reject_nul(bytes: &[u8], encoding: &'static Encoding) -> Result<(), Error> {
    let offset = if encoding == UTF_16LE || encoding == UTF_16BE {
        let code_units = bytes.chunks_exact(2);
        code_units.into_iter().position(|code_unit| code_unit == [0, 0]).map(|index| index * 2)
    } else {
        bytes.iter().position(|&byte| byte == 0)
    };
    match offset {
        Some(offset) => Err(Error::NotText { offset, reason: "a NUL" }),
        None => Ok(()),
    }
}

/// The HTML standard requires the statement of the charset in this many bytes at the start.
const META_SEARCH_BYTES: usize = 1024;

/// Returns the charset that a page states itself.
fn meta_charset(bytes: &[u8]) -> Option<&'static Encoding> {
    let head = bytes[..bytes.len().min(META_SEARCH_BYTES)].to_ascii_lowercase();
    let head = String::from_utf8_lossy(&head);
    let (_, stated) = head.split_once("charset=")?;
    let stated = stated.trim_start_matches(['"', '\'']);
    let label = stated.split(['"', '\'', ' ', ';', '>', '/']).next()?;
    let encoding = Encoding::for_label_no_replacement(label.as_bytes())?;
    // The statement itself was readable as ASCII, so the encoding cannot be UTF-16.
    let is_possible = encoding != UTF_16LE && encoding != UTF_16BE;
    is_possible.then_some(encoding)
}

fn with_unix_lines(text: &str) -> String {
    let text = match text.contains('\r') {
        true => Cow::Owned(text.replace("\r\n", "\n").replace('\r', "\n")),
        false => Cow::Borrowed(text),
    };
    text.into_owned()
}

#[cfg(test)]
mod tests {
    use crate::{Mime, extract};

    fn check(mime: &str, bytes: &[u8], expected: &str) {
        let mime: Mime = mime.parse().unwrap();
        assert_eq!(extract(mime, bytes).unwrap().text, expected);
    }

    fn check_error(mime: &str, bytes: &[u8], expected: &str) {
        let mime: Mime = mime.parse().unwrap();
        assert_eq!(extract(mime, bytes).unwrap_err().to_string(), expected);
    }

    #[test]
    fn utf8_is_decoded_without_its_byte_order_mark() {
        check("text/plain", "naïve 知".as_bytes(), "naïve 知");
        check("text/plain", b"\xef\xbb\xbfhi", "hi");
    }

    #[test]
    fn utf16_is_recognised_by_its_byte_order_mark() {
        check("text/plain", b"\xff\xfeh\0i\0\n\0", "hi\n");
        check("text/plain; charset=utf-8", b"\xfe\xff\0h\0i", "hi");
    }

    #[test]
    fn a_stated_charset_is_used() {
        check("text/plain; charset=latin1", b"caf\xe9", "café");
        check("text/plain; charset=shift_jis", b"\x83e", "テ");
    }

    #[test]
    fn line_endings_become_newlines() {
        check("text/plain", b"a\r\nb\rc\n\r\nd", "a\nb\nc\n\nd");
    }

    #[test]
    fn the_error_for_bytes_that_are_not_text_has_their_offset() {
        check_error("text/plain", b"caf\xe9", "the document is not text: invalid UTF-8 at byte 3");
        check_error("text/plain", b"\xef\xbb\xbfab\xff", "the document is not text: invalid UTF-8 at byte 5");
        check_error("text/markdown", b"a\0b", "the document is not text: a NUL at byte 1");
        check_error("text/plain", b"\xff\xfea\0\0\0", "the document is not text: a NUL at byte 4");
        check_error(
            "text/plain",
            b"\xff\xfea\0\x00\xd8b\0",
            "the document is not text: bytes that are not in its charset at byte 4",
        );
    }

    #[test]
    fn a_page_may_state_its_charset_itself() {
        check("text/html", b"<meta charset=\"iso-8859-1\"><p>caf\xe9", "café");
        check("text/html", b"<meta content='text/html; charset=latin1'>caf\xe9", "café");
        check("text/html", b"<p>caf\xe9!", "caf\u{fffd}!");
    }
}
