//! The files of the web UI, as `web/` builds them. A release build contains them; a debug build reads them from
//! `web/dist` of its checkout, so that the UI can be built again without the server.
//!
//! The crate knows nothing of HTTP: it returns the bytes of a file in the best encoding that the caller accepts.

#![cfg_attr(not(test), warn(clippy::disallowed_methods, clippy::expect_used, clippy::unwrap_used))]

mod files;

use std::borrow::Cow;

use files::Files;

/// The file that starts the UI.
const START: &str = "index.html";
/// The folder of files whose names change with their content.
const HASHED: &str = "assets/";

/// Where the files of the UI come from.
#[derive(Debug, Clone, Default)]
pub struct WebUi(Files);

/// A file of the UI, as it is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asset {
    pub bytes: Cow<'static, [u8]>,
    /// The `Content-Encoding` of the bytes; `None` means that they are not compressed.
    pub encoding: Option<&'static str>,
    pub media_type: &'static str,
    /// The digest of the bytes as a quoted `ETag`.
    pub etag: String,
    /// Whether a file of this name never changes.
    pub is_immutable: bool,
}

/// The encodings that a client accepts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Encodings {
    pub brotli: bool,
    pub gzip: bool,
}

impl WebUi {
    /// The UI that was built with this program.
    pub fn embedded() -> Self {
        Self(Files::Embedded)
    }

    /// A UI of these files, each with its name and its content.
    pub fn of_files(files: &'static [(&'static str, &'static [u8])]) -> Self {
        Self(Files::Fixed(files))
    }

    /// Returns the page that starts the UI; `None` if this program was built without the UI.
    pub fn start_page(&self, accepted: Encodings) -> Option<Asset> {
        self.file(START, accepted)
    }

    /// Returns the file of a path without its leading slash. Compressed siblings are found by the name of the file
    /// that they compress, never by their own.
    pub fn file(&self, path: &str, accepted: Encodings) -> Option<Asset> {
        let media_type = media_type(path)?;
        let (plain, etag) = self.0.read(path)?;
        let compressed = [("br", accepted.brotli), ("gzip", accepted.gzip)].into_iter().filter(|(_, is)| *is);
        let found = compressed.into_iter().find_map(|(encoding, _)| {
            let suffix = if encoding == "br" { "br" } else { "gz" };
            let (bytes, etag) = self.0.read(&format!("{path}.{suffix}"))?;
            Some((bytes, etag, encoding))
        });
        let is_immutable = path.starts_with(HASHED);
        Some(match found {
            Some((bytes, etag, encoding)) => {
                Asset { bytes, encoding: Some(encoding), media_type, etag, is_immutable }
            }
            None => Asset { bytes: plain, encoding: None, media_type, etag, is_immutable },
        })
    }
}

/// Returns the media type of a file by its name. A file of another kind is not part of the UI.
fn media_type(path: &str) -> Option<&'static str> {
    let (_, extension) = path.rsplit_once('.')?;
    Some(match extension {
        "html" => "text/html; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "woff2" => "font/woff2",
        "webmanifest" => "application/manifest+json",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILES: &[(&str, &[u8])] = &[
        ("index.html", b"<html>"),
        ("assets/a-1.js", b"plain"),
        ("assets/a-1.js.br", b"br"),
        ("assets/a-1.js.gz", b"gz"),
    ];

    #[test]
    fn the_best_encoding_that_the_client_accepts_is_sent() {
        let ui = WebUi::of_files(FILES);
        let read = |brotli, gzip| {
            let asset = ui.file("assets/a-1.js", Encodings { brotli, gzip }).unwrap();
            assert!(asset.is_immutable);
            (asset.bytes.into_owned(), asset.encoding)
        };
        assert_eq!(read(true, true), (b"br".to_vec(), Some("br")));
        assert_eq!(read(false, true), (b"gz".to_vec(), Some("gzip")));
        assert_eq!(read(false, false), (b"plain".to_vec(), None));
        let start = ui.start_page(Encodings { brotli: true, gzip: true }).unwrap();
        assert_eq!((start.encoding, start.is_immutable), (None, false));
    }

    #[test]
    fn compressed_siblings_and_unknown_kinds_are_no_files_of_their_own() {
        let ui = WebUi::of_files(FILES);
        for path in ["assets/a-1.js.br", "assets/a-1.js.gz", "assets/", "", "assets/../index", "b.js"] {
            assert_eq!(ui.file(path, Encodings::default()), None, "{path}");
        }
        assert_eq!(WebUi::default().start_page(Encodings::default()), None);
    }
}
