//! Extracts the text of documents (Markdown, HTML, PDF and plain text), and splits it into chunks
//! for a search index.
//!
//! ```
//! use emergent_documents::{ChunkOptions, Mime, chunk, extract};
//!
//! let mime: Mime = "text/markdown".parse()?;
//! let page = extract(mime, b"# Tea\n\nSteep for **three** minutes.")?;
//! assert_eq!(page.text, "Tea\n\nSteep for three minutes.");
//!
//! let chunks = chunk(&page, &ChunkOptions::default());
//! assert_eq!(chunks[0].heading.as_deref(), Some("Tea"));
//! # Ok::<(), emergent_documents::Error>(())
//! ```
//!
//! All functions are pure: the caller fetches the bytes, stores the chunks and embeds them. They
//! may be slow for a large document, so an async caller must run them on a blocking thread.

#![cfg_attr(not(test), warn(clippy::disallowed_methods, clippy::expect_used, clippy::unwrap_used))]

mod chunk;
mod error;
mod extract;
mod mime;
mod sentences;
mod tokens;
mod units;

pub use chunk::{Chunk, ChunkOptions, chunk};
pub use error::{Error, PdfError};
pub use extract::{ExtractedText, Heading, extract};
pub use mime::{Charset, Mime};
pub use tokens::count_tokens;
