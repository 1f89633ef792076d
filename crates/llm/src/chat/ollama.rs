//! Ollama, through the OpenAI-compatible part of its API: `{host}/v1`.

use std::time::Duration;

use super::{
    ChatSettings,
    openai::{OpenAi, PATH},
};
use crate::{Error, ollama::address};

/// A local server first loads the model and reads a long prompt on a CPU, without sending anything.
const IDLE_TIMEOUT: Duration = Duration::from_secs(300);

impl OpenAi {
    /// Connects to Ollama at `base_url`, the value of `OLLAMA_HOST` in any of its forms. It needs no key.
    pub fn ollama(settings: &ChatSettings) -> Result<Self, Error> {
        let host = settings.base().map(|host| host.trim_end_matches('/'));
        let host = host.map(|host| host.strip_suffix("/v1").unwrap_or(host));
        let url = address(host, &format!("v1/{PATH}"))?;
        Self::without_key("ollama", url, settings.idle.unwrap_or(IDLE_TIMEOUT))
    }
}
