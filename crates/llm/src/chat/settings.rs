//! The connection settings of a chat provider.

use std::time::Duration;

use reqwest::Url;

use crate::{Error, http::endpoint};

/// The same for all providers. The caller reads them from the environment.
#[derive(Clone, Default)]
pub struct ChatSettings {
    /// The default is the provider's own address.
    pub base_url: Option<String>,
    pub api_key: Option<String>,
    /// How long a provider may be silent during a call; the default depends on the provider.
    pub idle: Option<Duration>,
}

impl ChatSettings {
    /// Returns the key. Without a key, a base URL of another server is required: local servers often need
    /// no key.
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

/// Returns the URL of `path` below version 1 of an API. Users write the base URL with or without `/v1`;
/// one that contains a version, such as `/v1beta/openai`, is used as it is.
pub(crate) fn v1_url(setting: &str, base: &str, path: &str) -> Result<Url, Error> {
    versioned_url("v1", setting, base, path)
}

/// Like [`v1_url`], for an API with another version.
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

/// An empty setting counts as not set.
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
