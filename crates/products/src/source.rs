//! The source of a manifest.

use std::{fmt, str::FromStr};

use emergent_domain::{pack::nearest_name, stored_json};
use reqwest::Url;
use serde_json::{Value, json};

use crate::builtin;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ManifestSource {
    /// A built-in product.
    Builtin(String),
    Url(Url),
    /// The `manifest.json` of the latest release of a repository.
    GitHub {
        owner: String,
        name: String,
    },
}

impl FromStr for ManifestSource {
    /// Says what is wrong and what would be valid.
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bare = text.strip_prefix("https://").unwrap_or(text);
        if let Some(repository) = bare.strip_prefix("github.com/")
            && let Some(source) = parse_github(repository)
        {
            return Ok(source);
        }
        if builtin::manifest_text(text).is_some() {
            return Ok(Self::Builtin(text.to_owned()));
        }
        if text.starts_with("https://") || text.starts_with("http://") {
            let url = Url::parse(text).map_err(|error| format!("`{text}` is not a valid URL: {error}"))?;
            if !url.username().is_empty() || url.password().is_some() {
                return Err(
                    "the URL must not contain a user name or password, because it is stored and shown"
                        .to_owned(),
                );
            }
            return Ok(Self::Url(url));
        }
        let shown: String = text.chars().take(100).collect();
        let hint = match nearest_name(text, builtin::names()) {
            Some(name) => format!("did you mean `{name}`?"),
            None => format!(
                "use a URL (https://…), a repository (github.com/owner/name), or one of {}",
                builtin::names().collect::<Vec<_>>().join(", ")
            ),
        };
        Err(format!("`{shown}` is not a product source; {hint}"))
    }
}

/// Parses `owner/name` and nothing else. A longer path is the URL of a file.
fn parse_github(text: &str) -> Option<ManifestSource> {
    let (owner, name) = text.trim_end_matches('/').split_once('/')?;
    let name = name.strip_suffix(".git").unwrap_or(name);
    let fine = |word: &str| {
        let letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        !word.is_empty() && word.len() <= 100 && !word.starts_with('.') && word.chars().all(letter)
    };
    (fine(owner) && fine(name))
        .then(|| ManifestSource::GitHub { owner: owner.to_owned(), name: name.to_owned() })
}

impl fmt::Display for ManifestSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Builtin(name) => f.write_str(name),
            Self::Url(url) => write!(f, "{url}"),
            Self::GitHub { owner, name } => write!(f, "github.com/{owner}/{name}"),
        }
    }
}

impl ManifestSource {
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Builtin(_) => "builtin",
            Self::Url(_) => "url",
            Self::GitHub { .. } => "github",
        }
    }

    /// Returns the stored form. A manifest that was provided directly has no source.
    pub(crate) fn to_json(source: Option<&Self>) -> Value {
        match source {
            Some(source) => json!({ "kind": source.kind(), "at": source.to_string() }),
            None => json!({ "kind": "manifest" }),
        }
    }

    pub(crate) fn from_stored(text: &str) -> Option<Self> {
        let stored: Value = stored_json::from_str(text).ok()?;
        stored["at"].as_str()?.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_a_name_an_address_or_a_repository() {
        for (text, kind, shown) in [
            ("emergent.research", "builtin", "emergent.research"),
            ("github.com/acme/support", "github", "github.com/acme/support"),
            ("https://github.com/acme/support.git/", "github", "github.com/acme/support"),
            ("https://github.com/acme/support/raw/main/manifest.json", "url", ""),
            ("http://host:8080/manifest.json?x=1", "url", "http://host:8080/manifest.json?x=1"),
        ] {
            let source: ManifestSource = text.parse().unwrap();
            assert_eq!(source.kind(), kind, "{text}");
            if !shown.is_empty() {
                assert_eq!(source.to_string(), shown);
            }
            assert_eq!(
                ManifestSource::from_stored(&ManifestSource::to_json(Some(&source)).to_string()),
                Some(source)
            );
        }
        assert_eq!(ManifestSource::from_stored(&ManifestSource::to_json(None).to_string()), None);
    }

    #[test]
    fn what_is_no_source_is_told_what_one_is() {
        let error_of = |text: &str| text.parse::<ManifestSource>().unwrap_err();
        assert!(
            error_of("emergent.reserch").contains("emergent.research"),
            "{}",
            error_of("emergent.reserch")
        );
        assert!(error_of("github.com/acme").contains("github.com/owner/name"));
        assert!(error_of("github.com/../x").contains("is not a product source"));
        assert!(error_of("https://user:secret@host/m.json").contains("must not contain"));
        assert!(error_of("ftp://x").contains("https://"));
    }
}
