//! [`Mime`], the supported document types: parsed from a media type, or guessed from a name and bytes.

use std::fmt;
use std::str::FromStr;

use encoding_rs::{Encoding, UTF_8};

use crate::error::Error;

/// How many bytes at the start of a document are examined to guess its type.
const SNIFFED_BYTES: usize = 1024;

/// A supported document type.
///
/// It is parsed from a media type with parameters, such as `text/html; charset=utf-8`, and
/// displayed in the same form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mime {
    Text(Charset),
    Markdown(Charset),
    Html(Charset),
    Pdf,
}

/// The charset that a media type states; `None` if it states none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Charset(pub(crate) Option<&'static Encoding>);

impl Charset {
    /// No stated charset: the text is UTF-8 unless it says otherwise itself.
    pub const UNSTATED: Charset = Charset(None);
}

impl Mime {
    pub const TEXT: Mime = Mime::Text(Charset::UNSTATED);
    pub const MARKDOWN: Mime = Mime::Markdown(Charset::UNSTATED);
    pub const HTML: Mime = Mime::Html(Charset::UNSTATED);

    /// Guesses the type of a document from its name and its first bytes.
    ///
    /// The name may be a file name or a title. If the bytes clearly identify the type, they have
    /// precedence over the name.
    pub fn sniff(name: &str, bytes: &[u8]) -> Result<Mime, Error> {
        let head = &bytes[..bytes.len().min(SNIFFED_BYTES)];
        if head.windows(5).any(|window| window == b"%PDF-") {
            return Ok(Mime::Pdf);
        }
        let has_bom = Encoding::for_bom(head).is_some();
        if head.contains(&0) && !has_bom {
            return Err(Error::UnsupportedType { given: name.into() });
        }
        let extension = name.rsplit_once('.').map(|(_, extension)| extension);
        match extension.map(str::to_ascii_lowercase).as_deref() {
            Some("md" | "markdown" | "mdown" | "mkd" | "mdx") => return Ok(Mime::MARKDOWN),
            Some("html" | "htm" | "xhtml") => return Ok(Mime::HTML),
            _ => {}
        }
        let start = String::from_utf8_lossy(head).to_ascii_lowercase();
        let start = start.trim_start_matches('\u{feff}').trim_start();
        if start.starts_with("<!doctype html") || start.starts_with("<html") {
            return Ok(Mime::HTML);
        }
        Ok(Mime::TEXT)
    }

    /// Returns the media type without parameters.
    pub fn essence(self) -> &'static str {
        match self {
            Mime::Text(_) => "text/plain",
            Mime::Markdown(_) => "text/markdown",
            Mime::Html(_) => "text/html",
            Mime::Pdf => "application/pdf",
        }
    }

    fn charset(self) -> Charset {
        match self {
            Mime::Text(charset) | Mime::Markdown(charset) | Mime::Html(charset) => charset,
            Mime::Pdf => Charset::UNSTATED,
        }
    }
}

impl FromStr for Mime {
    type Err = Error;

    fn from_str(media_type: &str) -> Result<Mime, Error> {
        let mut parts = media_type.split(';');
        let essence = parts.next().unwrap_or_default().trim();
        let charset = match parts.find_map(charset_parameter) {
            Some(name) => Charset(Some(encoding_for_name(name)?)),
            None => Charset::UNSTATED,
        };
        match essence.to_ascii_lowercase().as_str() {
            "text/markdown" | "text/x-markdown" => Ok(Mime::Markdown(charset)),
            "text/html" | "application/xhtml+xml" => Ok(Mime::Html(charset)),
            "application/pdf" | "application/x-pdf" => Ok(Mime::Pdf),
            "text/rtf" | "text/richtext" => Err(Error::UnsupportedType { given: essence.into() }),
            // According to RFC 2046, 4.1.4, an unrecognised subtype of text is treated as plain
            // text. This covers CSV and source files.
            essence if essence.starts_with("text/") && essence.len() > "text/".len() => {
                Ok(Mime::Text(charset))
            }
            _ => Err(Error::UnsupportedType { given: essence.into() }),
        }
    }
}

/// Returns the value of a `charset=…` parameter.
fn charset_parameter(parameter: &str) -> Option<&str> {
    let (name, value) = parameter.split_once('=')?;
    name.trim().eq_ignore_ascii_case("charset").then(|| value.trim().trim_matches('"'))
}

fn encoding_for_name(name: &str) -> Result<&'static Encoding, Error> {
    Encoding::for_label_no_replacement(name.as_bytes())
        .ok_or_else(|| Error::UnknownCharset { name: name.into() })
}

impl fmt::Display for Mime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.essence())?;
        match self.charset() {
            Charset(Some(charset)) if charset != UTF_8 => {
                write!(f, "; charset={}", charset.name().to_ascii_lowercase())
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(given: &str, expected: &str) {
        assert_eq!(given.parse::<Mime>().unwrap().to_string(), expected, "{given}");
    }

    #[test]
    fn a_media_type_is_parsed_with_its_parameters() {
        check("text/plain", "text/plain");
        check("text/html; charset=utf-8", "text/html");
        check("TEXT/HTML;charset=\"UTF-8\"", "text/html");
        check("text/markdown; variant=GFM", "text/markdown");
        check("application/pdf", "application/pdf");
        check("text/plain; charset=iso-8859-1", "text/plain; charset=windows-1252");
    }

    #[test]
    fn other_kinds_of_text_are_plain_text() {
        check("text/csv", "text/plain");
        check("text/x-rust", "text/plain");
    }

    #[test]
    fn the_error_for_an_unsupported_type_lists_the_supported_ones() {
        for given in ["application/zip", "image/png", "text/rtf", "text/", ""] {
            let message = given.parse::<Mime>().unwrap_err().to_string();
            assert!(message.contains(&format!("`{given}`")), "{message}");
            assert!(message.contains("application/pdf"), "{message}");
        }
    }

    #[test]
    fn the_error_for_an_unknown_charset_names_it() {
        let error = "text/plain; charset=klingon".parse::<Mime>().unwrap_err();
        assert_eq!(error.to_string(), "the charset `klingon` is not supported");
    }

    fn check_sniff(name: &str, bytes: &[u8], expected: Mime) {
        assert_eq!(Mime::sniff(name, bytes).unwrap(), expected, "{name}");
    }

    #[test]
    fn a_type_is_guessed_from_name_and_bytes() {
        check_sniff("README.md", b"# Hi", Mime::MARKDOWN);
        check_sniff("Index.HTM", b"hello", Mime::HTML);
        check_sniff("notes.txt", b"hello", Mime::TEXT);
        check_sniff("Meeting notes, v1.2", b"hello", Mime::TEXT);
        check_sniff("page", b"\n <!DOCTYPE html><title>x</title>", Mime::HTML);
        check_sniff("misnamed.txt", b"%PDF-1.7\n\0\0", Mime::Pdf);
        check_sniff("utf16.txt", b"\xff\xfeh\0i\0", Mime::TEXT);
    }

    #[test]
    fn binary_data_has_no_type() {
        let error = Mime::sniff("report.docx", b"PK\x03\x04\x00\x00").unwrap_err();
        assert!(error.to_string().contains("`report.docx`"), "{error}");
    }
}
