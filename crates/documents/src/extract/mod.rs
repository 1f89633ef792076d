//! Turns the bytes of a document into text and the headings in it.

mod html;
mod markdown;
mod pdf;
mod text;
mod writer;

use crate::error::Error;
use crate::mime::Mime;

/// The text of a document, as a person would read it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExtractedText {
    /// Lines end in `\n`, and a blank line is between paragraphs. No byte is 0.
    pub text: String,
    /// In the order of the text. Plain text and PDF have none.
    pub headings: Vec<Heading>,
    /// What the document calls itself, which need not be in the text.
    pub title: Option<String>,
}

/// A line of the text that is a heading.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heading {
    /// Where the title is in the text, in bytes.
    pub offset: usize,
    /// 1 is the highest, 6 the lowest.
    pub level: u8,
    pub title: String,
}

/// Reads a document. Malformed Markdown and HTML are read as well as they can be.
///
/// Time grows with the length of the document, and what it nests costs no stack. A PDF is read on
/// a thread of its own, with limits on time and memory.
pub fn extract(mime: Mime, bytes: &[u8]) -> Result<ExtractedText, Error> {
    match mime {
        Mime::Text(charset) => {
            Ok(ExtractedText { text: text::decode(bytes, charset)?, ..ExtractedText::default() })
        }
        Mime::Markdown(charset) => Ok(markdown::extract(&text::decode(bytes, charset)?)),
        Mime::Html(charset) => Ok(html::extract(&text::decode_html(bytes, charset)?)),
        Mime::Pdf => pdf::extract(bytes).map_err(Error::Pdf),
    }
}
