//! What a chat provider is reached with.

use std::time::Duration;

use reqwest::Url;

use crate::{Error, http::endpoint};

/// The same for every provider. Reading it from the environment is the caller's part.
#[derive(Clone, Default)]
pub struct ChatSettings {
    /// The provider's own address where none is given.
    pub base_url: Option<String>,
    pub api_key: Option<String>,
    /// How long a provider may be silent in the middle of a call; what suits it where none is given.
    pub idle: Option<Duration>,
}

impl ChatSettings {
    /// The key. Without one only another server than the provider's own can be meant: those at home
    /// often take none.
    pub(crate) fn key(&self, provider: &str, setting: &str, base: &str) -> Result<Option<&str>, Error> {
        match (non_empty(&self.api_key), self.base()) {
            (None, None) => Err(Error::Config(format!(
                "models of `{provider}` need a key: set `{setting}`, or `{base}` for another server"
            ))),
            (key, _) => Ok(key),
        }
    }

    pub(crate) fn base(&self) -> Option<&str> {
        non_empty(&self.base_url)
    }
}

/// `path` under the first version of an API. People write a base URL with `/v1` or without; one
/// that names some version itself, such as `/v1beta/openai`, is taken as it is.
pub(crate) fn v1_url(setting: &str, base: &str, path: &str) -> Result<Url, Error> {
    versioned_url("v1", setting, base, path)
}

/// The same for an API whose version has another name.
pub(crate) fn versioned_url(version: &str, setting: &str, base: &str, path: &str) -> Result<Url, Error> {
    let url = endpoint(setting, base, path)?;
    let is_version = |segment: &str| {
        segment.strip_prefix('v').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    if url.path_segments().is_some_and(|mut segments| segments.any(is_version)) {
        return Ok(url);
    }
    endpoint(setting, base, &format!("{version}/{path}"))
}

/// A setting left empty is one not made.
fn non_empty(value: &Option<String>) -> Option<&str> {
    value.as_deref().map(str::trim).filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_url_works_with_and_without_its_version() {
        let check = |base, url| assert_eq!(v1_url("X", base, "messages").unwrap().as_str(), url);
        check("https://api.example", "https://api.example/v1/messages");
        check("https://api.example/v1/", "https://api.example/v1/messages");
        check("https://api.example/openai", "https://api.example/openai/v1/messages");
        check("https://api.example/v1beta/openai", "https://api.example/v1beta/openai/messages");
        assert!(v1_url("X_URL", "gopher://x", "messages").unwrap_err().to_string().contains("X_URL"));
    }

    #[test]
    fn a_key_is_needed_only_at_the_providers_own_address() {
        let key = |api_key: Option<&str>, base_url: Option<&str>| {
            let own = |text: Option<&str>| text.map(str::to_owned);
            let settings = ChatSettings { api_key: own(api_key), base_url: own(base_url), idle: None };
            let key = settings.key("openai", "OPENAI_API_KEY", "EMERGENT_OPENAI_BASE_URL");
            key.map(own).map_err(|error| error.to_string())
        };
        assert!(key(Some(" "), None).unwrap_err().contains("set `OPENAI_API_KEY`"));
        assert_eq!(key(None, Some("http://localhost:8080")), Ok(None));
        assert_eq!(key(Some("key-1"), None), Ok(Some("key-1".into())));
    }
}
