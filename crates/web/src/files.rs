//! Reads files by their names.

use std::borrow::Cow;

use rust_embed::{Embed, EmbeddedFile};

/// `web/dist`. It may be empty: the program is then built without the UI.
#[derive(Embed)]
#[folder = "../../web/dist"]
#[allow_missing = true]
struct Dist;

#[derive(Debug, Clone, Default)]
pub(crate) enum Files {
    #[default]
    None,
    Embedded,
    Fixed(&'static [(&'static str, &'static [u8])]),
}

impl Files {
    /// Returns the content of a file and its quoted `ETag`.
    pub(crate) fn read(&self, path: &str) -> Option<(Cow<'static, [u8]>, String)> {
        match self {
            Self::None => None,
            Self::Embedded => Dist::get(path).map(|EmbeddedFile { data, metadata }| {
                // Half of the digest tells versions of a file apart.
                let digest = metadata.sha256_hash();
                let hex = digest[..16].iter().map(|byte| format!("{byte:02x}")).collect::<String>();
                (data, format!("\"{hex}\""))
            }),
            Self::Fixed(files) => {
                let (_, content) = files.iter().find(|(name, _)| *name == path)?;
                Some((Cow::Borrowed(content), format!("\"{path}-{}\"", content.len())))
            }
        }
    }
}
