//! The configured embedder, and the credentials of the providers.

use std::{fmt, path::PathBuf, str::FromStr};

use super::Precision;
use crate::Error;

/// The value of `EMERGENT_EMBEDDINGS`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EmbedderSpec {
    /// Search uses words only.
    Off,
    Builtin,
    /// A sentence-transformers directory.
    Local(PathBuf, Precision),
    Google {
        model: String,
    },
    OpenAi {
        model: String,
    },
    Ollama {
        model: String,
    },
}

const LOCAL: &str = "local:";
const LOCAL_FLOAT: &str = "local-f32:";
const FORMS: &str = "`off`, `builtin`, `local:<dir>`, `local-f32:<dir>`, `google/gemini-embedding-001`, `openai/NAME` or `ollama/NAME`";

impl FromStr for EmbedderSpec {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let text = text.trim();
        let unknown = || Error::Config(format!("unknown embeddings `{text}`; use {FORMS}"));
        match text {
            "off" => return Ok(Self::Off),
            "builtin" => return Ok(Self::Builtin),
            _ => {}
        }
        for (prefix, precision) in [(LOCAL, Precision::Int8), (LOCAL_FLOAT, Precision::Float)] {
            if let Some(dir) = text.strip_prefix(prefix).filter(|dir| !dir.is_empty()) {
                return Ok(Self::Local(dir.into(), precision));
            }
        }
        let (provider, model) = text.split_once('/').ok_or_else(unknown)?;
        let model = Some(model.to_owned()).filter(|model| !model.is_empty()).ok_or_else(unknown)?;
        match provider {
            "google" => Ok(Self::Google { model }),
            "openai" => Ok(Self::OpenAi { model }),
            "ollama" => Ok(Self::Ollama { model }),
            _ => Err(unknown()),
        }
    }
}

impl fmt::Display for EmbedderSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("off"),
            Self::Builtin => f.write_str("builtin"),
            Self::Local(dir, Precision::Int8) => write!(f, "{LOCAL}{}", dir.display()),
            Self::Local(dir, Precision::Float) => write!(f, "{LOCAL_FLOAT}{}", dir.display()),
            Self::Google { model } => write!(f, "google/{model}"),
            Self::OpenAi { model } => write!(f, "openai/{model}"),
            Self::Ollama { model } => write!(f, "ollama/{model}"),
        }
    }
}

/// Keys and addresses of the providers; `None` means the provider's own address.
#[derive(Clone, Default)]
pub struct Credentials {
    /// `GEMINI_API_KEY`
    pub gemini_api_key: Option<String>,
    /// `EMERGENT_GOOGLE_BASE_URL`, with the API version: `https://…/v1beta`
    pub google_base_url: Option<String>,
    /// `OPENAI_API_KEY`; not needed with another server.
    pub openai_api_key: Option<String>,
    /// `EMERGENT_OPENAI_BASE_URL`, up to and including `/v1`
    pub openai_base_url: Option<String>,
    /// `OLLAMA_HOST`, in any form that Ollama itself accepts.
    pub ollama_host: Option<String>,
}

/// A blank setting, as in `OPENAI_API_KEY=`, counts as not set.
pub(crate) fn non_empty(setting: &Option<String>) -> Option<&str> {
    setting.as_deref().map(str::trim).filter(|value| !value.is_empty())
}

/// Shows which keys are set, never their values.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hidden = |key: &Option<String>| key.as_ref().map(|_| "***");
        f.debug_struct("Credentials")
            .field("gemini_api_key", &hidden(&self.gemini_api_key))
            .field("google_base_url", &self.google_base_url)
            .field("openai_api_key", &hidden(&self.openai_api_key))
            .field("openai_base_url", &self.openai_base_url)
            .field("ollama_host", &self.ollama_host)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_reads_back_as_written() {
        for text in [
            "off",
            "builtin",
            "local:models/all-MiniLM-L6-v2",
            "local-f32:models/all-MiniLM-L6-v2",
            "google/gemini-embedding-001",
            "openai/BAAI/bge-m3",
            "ollama/nomic-embed-text:v1.5",
        ] {
            assert_eq!(text.parse::<EmbedderSpec>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn a_mistake_is_answered_with_the_accepted_forms() {
        for text in ["", "on", "local:", "local-f32:", "openai/", "cohere/embed-v4", "google"] {
            let error = text.parse::<EmbedderSpec>().unwrap_err().to_string();
            assert!(error.contains(&format!("`{text}`")) && error.contains("local:<dir>"), "{error}");
        }
    }

    #[test]
    fn keys_are_not_printed() {
        let creds = Credentials { openai_api_key: Some("sk-secret".into()), ..Default::default() };
        assert!(!format!("{creds:?}").contains("secret"));
    }
}
