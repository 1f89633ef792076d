//! The errors of extracting and chunking documents.

use std::time::Duration;

/// Why a document could not be extracted or chunked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(
        "`{given}` is not a supported document type: \
         text/plain, text/markdown, text/html and application/pdf are"
    )]
    UnsupportedType { given: String },
    #[error("the charset `{name}` is not supported")]
    UnknownCharset { name: String },
    /// `offset` is the byte offset in the original document.
    #[error("the document is not text: {reason} at byte {offset}")]
    NotText { offset: usize, reason: &'static str },
    #[error("the HTML has a tag with more than {max} attributes: it is not a page")]
    TooManyAttributes { max: usize },
    #[error("the HTML has more than {max} elements inside of each other: it is not a page")]
    TooDeep { max: usize },
    #[error("could not read the PDF: {0}")]
    Pdf(PdfError),
    #[error(
        "chunks of {max_tokens} tokens with an overlap of {overlap_tokens} are not possible: \
         at least {min} tokens are needed, and at most half of them may overlap",
        min = crate::ChunkOptions::MIN_TOKENS
    )]
    ChunkOptions { max_tokens: usize, overlap_tokens: usize },
}

/// The reason why the text of a PDF could not be extracted. The messages follow "could not read the PDF: ".
#[derive(Debug, thiserror::Error)]
pub enum PdfError {
    #[error("it is encrypted and needs a password")]
    Encrypted,
    #[error("it contains no text: run OCR on scanned pages first")]
    NoText,
    #[error("its fonts do not map to characters: run OCR on it first")]
    UnreadableFonts,
    #[error("it has {bytes} bytes, the limit is {max}")]
    TooLarge { bytes: usize, max: usize },
    #[error("its text exceeds the limit of {max} bytes")]
    TooMuchText { max: usize },
    #[error("reading it took longer than {} seconds", .0.as_secs())]
    TooSlow(Duration),
    /// `what` is the reason as the PDF library reports it.
    #[error("it is damaged: {what}")]
    Damaged { what: String },
    #[error("the PDF reader crashed: {what}")]
    Crashed { what: String },
    #[error("too many earlier PDFs are still being read; try again later")]
    Busy,
}
