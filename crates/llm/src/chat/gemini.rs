//! Google's Gemini through `:streamGenerateContent`.
//!
//! Two providers use this API: `google` with a key (this file), and `vertex` with the credentials of
//! Google Cloud ([`super::vertex`]). They differ in their address and their authentication.

mod provider_data;
mod request;
mod response;

use std::{ops::ControlFlow, time::Duration};

use async_trait::async_trait;
use reqwest::{
    Client, Url,
    header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue},
};

use self::response::AnswerReader;
use super::{
    probe::request_models,
    settings::{ChatSettings, versioned_url},
    stream::{IDLE_TIMEOUT, post_sse},
    vertex::VertexLocation,
};
use crate::{
    Answer, ChatRequest, Delta, Error, Provider,
    google_auth::TokenSource,
    http::{SecretHeader, client, headers},
};

const BASE: &str = "https://generativelanguage.googleapis.com";
const VERSION: &str = "v1beta";

/// The Gemini models of `google` or `vertex`.
pub struct Gemini {
    pub(super) name: &'static str,
    pub(super) client: Client,
    pub(super) idle: Duration,
    pub(super) route: Endpoint,
    pub(super) access: Credential,
}

/// The address of a model.
pub(super) enum Endpoint {
    /// `models/{model}` below this URL.
    Public(Url),
    Vertex(VertexLocation),
}

/// The authentication of a request.
pub(super) enum Credential {
    /// Empty for a private server that needs no key.
    Key(HeaderMap),
    Token {
        tokens: Box<TokenSource>,
        quota_project: Option<HeaderValue>,
    },
}

impl Gemini {
    /// Connects to the public API. The base URL may contain the version of the API or omit it.
    pub fn google(settings: &ChatSettings) -> Result<Self, Error> {
        let key = settings.key("google", "GEMINI_API_KEY", "EMERGENT_GOOGLE_BASE_URL")?;
        let base = settings.base().unwrap_or(BASE);
        let url = versioned_url(VERSION, "EMERGENT_GOOGLE_BASE_URL", base, "")?;
        Ok(Self {
            name: "google",
            client: client("google", &url, |builder| builder)?,
            route: Endpoint::Public(url),
            access: Credential::key(key, "GEMINI_API_KEY")?,
            idle: settings.idle.unwrap_or(IDLE_TIMEOUT),
        })
    }

    async fn url(&self, model: &str) -> Result<Url, Error> {
        match (&self.route, &self.access) {
            (Endpoint::Public(root), _) => {
                // Users also write the name as the API lists it.
                let model = model.strip_prefix("models/").unwrap_or(model);
                let folder = if model.starts_with("tunedModels/") { "" } else { "models/" };
                Ok(stream_url(root, &format!("{folder}{model}")))
            }
            (Endpoint::Vertex(location), Credential::Key(_)) => {
                Ok(stream_url(location.root(), &VertexLocation::publisher_model_path(model)))
            }
            (Endpoint::Vertex(location), Credential::Token { tokens, .. }) => {
                Ok(stream_url(location.root(), &location.project_model_path(tokens, model).await?))
            }
        }
    }
}

impl Credential {
    pub(super) fn key(key: Option<&str>, setting: &str) -> Result<Self, Error> {
        let secret = key.map(|key| SecretHeader { header: "x-goog-api-key", value: key.into(), setting });
        Ok(Self::Key(secret.map(headers).transpose()?.unwrap_or_default()))
    }

    async fn headers(&self) -> Result<HeaderMap, Error> {
        match self {
            Self::Key(headers) => Ok(headers.clone()),
            Self::Token { tokens, quota_project } => {
                let mut headers = HeaderMap::from_iter([(AUTHORIZATION, tokens.bearer().await?)]);
                if let Some(project) = quota_project {
                    headers.insert(HeaderName::from_static("x-goog-user-project"), project.clone());
                }
                Ok(headers)
            }
        }
    }

    /// A token can become invalid early, when its account is changed. The next call must not fail with it.
    async fn invalidate(&self, headers: &HeaderMap) {
        if let (Self::Token { tokens, .. }, Some(bearer)) = (self, headers.get(AUTHORIZATION)) {
            tokens.invalidate(bearer).await;
        }
    }
}

/// Each segment of the path is escaped, so that no name in a definition can lead out of `root`.
fn stream_url(root: &Url, model: &str) -> Url {
    let mut url = root.clone();
    if let Ok(mut path) = url.path_segments_mut() {
        path.pop_if_empty().extend(format!("{model}:streamGenerateContent").split('/'));
    }
    // Without this parameter, the response is one JSON list that is complete only at its end.
    url.set_query(Some("alt=sse"));
    url
}

#[async_trait]
impl Provider for Gemini {
    fn name(&self) -> &str {
        self.name
    }

    async fn probe(&self) -> Option<Result<String, Error>> {
        let headers = match self.access.headers().await {
            Ok(headers) => headers,
            Err(error) => return Some(Err(error)),
        };
        Some(match &self.route {
            Endpoint::Public(root) => {
                let mut url = root.clone();
                if let Ok(mut path) = url.path_segments_mut() {
                    path.pop_if_empty().push("models");
                }
                url.set_query(Some("pageSize=1"));
                request_models(&self.client, self.name, url, headers).await
            }
            // Vertex has no list of models that every account may read. A token shows that Google accepts
            // the credentials.
            Endpoint::Vertex(_) => Ok("Google accepts the credentials".to_owned()),
        })
    }

    async fn chat(
        &self,
        request: ChatRequest<'_>,
        on_delta: &mut (dyn FnMut(Delta) + Send),
    ) -> Result<Answer, Error> {
        let model = format!("{}/{}", self.name, request.model);
        let body = serde_json::to_string(&request::body(&request)).map_err(|error| {
            Error::Config(format!("could not serialise the request to `{model}`: {error}"))
        })?;
        let url = self.url(request.model).await?;
        let headers = self.access.headers().await?;
        let mut reading = AnswerReader::new(&model);
        let read = post_sse(&self.client, url, headers.clone(), body, &model, self.idle, |data| {
            reading.push(data, on_delta)?;
            Ok(ControlFlow::Continue(()))
        });
        let result = read.await;
        if let Err(Error::Auth { .. }) = &result {
            self.access.invalidate(&headers).await;
        }
        result?;
        reading.finish()
    }
}
