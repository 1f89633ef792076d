//! Google's Gemini, through `:streamGenerateContent`.
//!
//! Two providers speak it: `google` with a key (this file), and `vertex` with the credentials of
//! Google Cloud ([`super::vertex`]). They differ in where they send and how they prove who they are.

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

/// Gemini models, of `google` or of `vertex`.
pub struct Gemini {
    pub(super) name: &'static str,
    pub(super) client: Client,
    pub(super) idle: Duration,
    pub(super) route: Endpoint,
    pub(super) access: Credential,
}

/// Where a model is.
pub(super) enum Endpoint {
    /// `models/{model}` below this.
    Public(Url),
    Vertex(VertexLocation),
}

/// How a request proves who asks.
pub(super) enum Credential {
    /// Empty at a server of one's own that needs no key.
    Key(HeaderMap),
    Token {
        tokens: Box<TokenSource>,
        quota_project: Option<HeaderValue>,
    },
}

impl Gemini {
    /// The public API. The base URL may end in the API's version or leave it out.
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
                // People also write it as the API lists it.
                let model = model.strip_prefix("models/").unwrap_or(model);
                let folder = if model.starts_with("tunedModels/") { "" } else { "models/" };
                Ok(stream_url(root, &format!("{folder}{model}")))
            }
            (Endpoint::Vertex(place), Credential::Key(_)) => {
                Ok(stream_url(place.root(), &VertexLocation::publisher_model_path(model)))
            }
            (Endpoint::Vertex(place), Credential::Token { tokens, .. }) => {
                Ok(stream_url(place.root(), &place.project_model_path(tokens, model).await?))
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

    /// A token can end early, when its account is changed; the next call shall not fail with it.
    async fn invalidate(&self, headers: &HeaderMap) {
        if let (Self::Token { tokens, .. }, Some(bearer)) = (self, headers.get(AUTHORIZATION)) {
            tokens.invalidate(bearer).await;
        }
    }
}

/// The path is escaped piece by piece: whatever stands in a definition stays below `root`.
fn stream_url(root: &Url, model: &str) -> Url {
    let mut url = root.clone();
    if let Ok(mut path) = url.path_segments_mut() {
        path.pop_if_empty().extend(format!("{model}:streamGenerateContent").split('/'));
    }
    // Without it the answer is one JSON list, whole only at its end.
    url.set_query(Some("alt=sse"));
    url
}

#[async_trait]
impl Provider for Gemini {
    fn name(&self) -> &str {
        self.name
    }

    async fn chat(
        &self,
        request: ChatRequest<'_>,
        on_delta: &mut (dyn FnMut(Delta) + Send),
    ) -> Result<Answer, Error> {
        let model = format!("{}/{}", self.name, request.model);
        let body = serde_json::to_string(&request::body(&request))
            .map_err(|error| Error::Config(format!("could not write the request to `{model}`: {error}")))?;
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
