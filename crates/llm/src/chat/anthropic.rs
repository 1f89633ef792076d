//! The `/v1/messages` API of Anthropic.

mod answer;
mod request;

use std::time::Duration;

use async_trait::async_trait;
use reqwest::{
    Client, Url,
    header::{HeaderMap, HeaderValue},
};

use self::answer::AnswerReader;
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

const BASE: &str = "https://api.anthropic.com";
const PATH: &str = "messages";
const KEY_SETTING: &str = "ANTHROPIC_API_KEY";
const BASE_SETTING: &str = "EMERGENT_ANTHROPIC_BASE_URL";
const VERSION_SETTING: &str = "EMERGENT_ANTHROPIC_VERSION";
/// The version of the wire format, not of a model.
const VERSION: &str = "2023-06-01";

pub struct Anthropic {
    client: Client,
    url: Url,
    headers: HeaderMap,
    idle: Duration,
}

impl Anthropic {
    pub fn new(settings: &ChatSettings) -> Result<Self, Error> {
        let key = settings.key("anthropic", KEY_SETTING, BASE_SETTING)?;
        let url = v1_url(BASE_SETTING, settings.base().unwrap_or(BASE), PATH)?;
        let headers = headers(VERSION, key)?;
        let client = http::client("anthropic", &url, |builder| builder)?;
        Ok(Self { client, url, headers, idle: settings.idle.unwrap_or(IDLE_TIMEOUT) })
    }

    /// Uses another version of the wire format.
    pub fn with_api_version(self, version: &str, settings: &ChatSettings) -> Result<Self, Error> {
        let key = settings.key("anthropic", KEY_SETTING, BASE_SETTING)?;
        Ok(Self { headers: headers(version, key)?, ..self })
    }
}

/// Returns the headers. The form of the key depends on the version: later versions use the usual
/// `Authorization` header.
fn headers(version: &str, key: Option<&str>) -> Result<HeaderMap, Error> {
    let value = HeaderValue::from_str(version).ok().filter(|_| version.len() == VERSION.len());
    let value = value.ok_or_else(|| {
        Error::Config(format!("`{VERSION_SETTING}` is `{version}`; expected a version such as `{VERSION}`"))
    })?;
    let mut headers = HeaderMap::new();
    if let Some(key) = key {
        let (header, value) = match version {
            VERSION => ("x-api-key", key.to_owned()),
            _ => ("authorization", format!("Bearer {key}")),
        };
        headers.extend(http::headers(SecretHeader { header, value, setting: KEY_SETTING })?);
    }
    headers.insert("anthropic-version", value);
    Ok(headers)
}

#[async_trait]
impl Provider for Anthropic {
    fn name(&self) -> &str {
        "anthropic"
    }

    async fn probe(&self) -> Option<Result<String, Error>> {
        let url = models_url(&self.url, PATH, Some("limit=1"));
        Some(request_models(&self.client, "anthropic", url, self.headers.clone()).await)
    }

    async fn chat(
        &self,
        request: ChatRequest<'_>,
        on_delta: &mut (dyn FnMut(Delta) + Send),
    ) -> Result<Answer, Error> {
        let model = format!("anthropic/{}", request.model);
        let body = request::body(&request).to_string();
        let mut reading = AnswerReader::new(&model);
        let on_event = |data: &str| reading.push(data, on_delta);
        post_sse(&self.client, self.url.clone(), self.headers.clone(), body, &model, self.idle, on_event)
            .await?;
        let mut answer = reading.finish()?;
        wire::restore_tool_names(&mut answer.parts, request.tools);
        Ok(answer)
    }
}
