//! Extracts the text of a document, and the headings in it.

mod html;
mod html_tokens;
mod markdown;
mod pdf;
mod text;
mod writer;

use crate::error::Error;
use crate::mime::Mime;

/// The text of a document, as a person would read it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExtractedText {
    /// Lines end with `\n`, and paragraphs are separated by a blank line. There is no NUL
    /// character.
    pub text: String,
    /// The headings in the order of the text. Plain text and PDF have none.
    pub headings: Vec<Heading>,
    /// The title of the document, which is not necessarily part of the text.
    pub title: Option<String>,
}

/// A heading in the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heading {
    /// The byte offset of the heading in the text.
    pub offset: usize,
    /// 1 is the highest level, 6 the lowest.
    pub level: u8,
    pub title: String,
}

/// Extracts the text of a document. Malformed Markdown and HTML are processed as well as possible; HTML that was made to
/// take long is refused.
///
/// The time is proportional to the length of the document, and nesting needs no stack. A PDF is
/// processed on its own thread, with limits on time and memory.
pub fn extract(mime: Mime, bytes: &[u8]) -> Result<ExtractedText, Error> {
    match mime {
        Mime::Text(charset) => {
            Ok(ExtractedText { text: text::decode(bytes, charset)?, ..ExtractedText::default() })
        }
        Mime::Markdown(charset) => markdown::extract(&text::decode(bytes, charset)?),
        Mime::Html(charset) => html::extract(&text::decode_html(bytes, charset)?),
        Mime::Pdf => pdf::extract(bytes).map_err(Error::Pdf),
    }
}
