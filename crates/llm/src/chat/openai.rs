//! The `/v1/chat/completions` API of OpenAI and of many compatible servers.

mod answer;
mod request;

use std::time::Duration;

use async_trait::async_trait;
use reqwest::{Client, Url, header::HeaderMap};

use self::{answer::AnswerReader, request::TokenLimit};
use super::{
    Answer, ChatRequest, ChatSettings, Delta, Provider,
    probe::{models_url, request_models},
    settings::v1_url,
    stream::{IDLE_TIMEOUT, post_sse},
    wire,
};
use crate::{
    Error,
    http::{self, SecretHeader},
};

const BASE: &str = "https://api.openai.com";
const KEY_SETTING: &str = "OPENAI_API_KEY";
const BASE_SETTING: &str = "EMERGENT_OPENAI_BASE_URL";
pub(super) const PATH: &str = "chat/completions";

pub struct OpenAi {
    name: &'static str,
    client: Client,
    url: Url,
    headers: HeaderMap,
    idle: Duration,
    limit: TokenLimit,
}

impl OpenAi {
    pub fn new(settings: &ChatSettings) -> Result<Self, Error> {
        let key = settings.key("openai", KEY_SETTING, BASE_SETTING)?;
        let url = v1_url(BASE_SETTING, settings.base().unwrap_or(BASE), PATH)?;
        let secret = key.map(|key| SecretHeader {
            header: "authorization",
            value: format!("Bearer {key}"),
            setting: KEY_SETTING,
        });
        // Newer models of OpenAI refuse the old name, while most other servers know only that one.
        let own = url.host_str() == Some("api.openai.com");
        let limit = if own { TokenLimit::MaxCompletionTokens } else { TokenLimit::MaxTokens };
        let headers = secret.map(http::headers).transpose()?.unwrap_or_default();
        Self::connect("openai", url, headers, settings.idle.unwrap_or(IDLE_TIMEOUT), limit)
    }

    /// Connects to a server without a key under its own provider name.
    pub(super) fn without_key(name: &'static str, url: Url, idle: Duration) -> Result<Self, Error> {
        Self::connect(name, url, HeaderMap::new(), idle, TokenLimit::MaxTokens)
    }

    fn connect(
        name: &'static str,
        url: Url,
        headers: HeaderMap,
        idle: Duration,
        limit: TokenLimit,
    ) -> Result<Self, Error> {
        let client = http::client(name, &url, |builder| builder)?;
        Ok(Self { name, client, url, headers, idle, limit })
    }
}

#[async_trait]
impl Provider for OpenAi {
    fn name(&self) -> &str {
        self.name
    }

    async fn probe(&self) -> Option<Result<String, Error>> {
        let url = models_url(&self.url, PATH, None);
        Some(request_models(&self.client, self.name, url, self.headers.clone()).await)
    }

    async fn chat(
        &self,
        request: ChatRequest<'_>,
        on_delta: &mut (dyn FnMut(Delta) + Send),
    ) -> Result<Answer, Error> {
        let model = format!("{}/{}", self.name, request.model);
        let body = request::body(&request, self.limit);
        let mut reading = AnswerReader::new(&model);
        let on_event = |data: &str| reading.push(data, on_delta);
        post_sse(&self.client, self.url.clone(), self.headers.clone(), body, &model, self.idle, on_event)
            .await?;
        let mut answer = reading.finish()?;
        wire::restore_tool_names(&mut answer.parts, request.tools);
        Ok(answer)
    }
}
