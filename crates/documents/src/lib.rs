//! Turns documents into text, and text into chunks that fit a search index.
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
//! Everything here is a plain function from values to values: fetching the bytes, storing the
//! chunks and embedding them is the caller's work. All of it may be slow on a large document, so
//! an async caller runs it on a blocking thread.

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
