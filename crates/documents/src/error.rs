use std::time::Duration;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(
        "`{given}` is not a type of document that can be read: \
         text/plain, text/markdown, text/html and application/pdf are"
    )]
    UnsupportedType { given: String },
    #[error("the charset `{name}` is not known")]
    UnknownCharset { name: String },
    /// `offset` counts bytes of the document as it was given.
    #[error("the document is not text: {reason} at byte {offset}")]
    NotText { offset: usize, reason: &'static str },
    #[error("could not read the PDF: {0}")]
    Pdf(PdfError),
    #[error(
        "chunks of {max_tokens} tokens with an overlap of {overlap_tokens} cannot be made: \
         at least {min} tokens are needed, and at most half of them may overlap",
        min = crate::ChunkOptions::MIN_TOKENS
    )]
    ChunkOptions { max_tokens: usize, overlap_tokens: usize },
}

/// What kept a PDF from being read.
#[derive(Debug, thiserror::Error)]
pub enum PdfError {
    #[error("it is encrypted and opens only with a password")]
    Encrypted,
    #[error("no text in it: scanned pages need OCR first")]
    NoText,
    #[error("its fonts do not say which characters they draw: it needs OCR first")]
    UnreadableFonts,
    #[error("its {bytes} bytes are more than the {max} that are read")]
    TooLarge { bytes: usize, max: usize },
    #[error("its text is more than the {max} bytes that are kept")]
    TooMuchText { max: usize },
    #[error("it took longer than {} seconds", .0.as_secs())]
    TooSlow(Duration),
    /// `what` is the reason in the words of the PDF library.
    #[error("it is damaged: {what}")]
    Damaged { what: String },
    #[error("the reader crashed on it: {what}")]
    Crashed { what: String },
    #[error("too many earlier PDFs are still being read")]
    Busy,
}
