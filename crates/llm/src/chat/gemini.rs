//! Google's Gemini, through `:streamGenerateContent`.
//!
//! Two providers speak it: `google` with a key (this file), and `vertex` with the credentials of
//! Google Cloud ([`super::vertex`]). They differ in where they send and how they prove who they are.

mod request;
mod response;
mod tag;

use std::{ops::ControlFlow, time::Duration};

use async_trait::async_trait;
use reqwest::{
    Client, Url,
    header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue},
};

use self::response::Reading;
use super::{
    settings::{ChatSettings, versioned_as},
    stream::{IDLE, post_sse},
    vertex::Place,
};
use crate::{
    Answer, ChatRequest, Delta, Error, Provider,
    google_auth::Tokens,
    http::{Secret, client, headers},
};

const BASE: &str = "https://generativelanguage.googleapis.com";
const VERSION: &str = "v1beta";

/// Gemini models, of `google` or of `vertex`.
pub struct Gemini {
    pub(super) name: &'static str,
    pub(super) client: Client,
    pub(super) idle: Duration,
    pub(super) route: Route,
    pub(super) access: Access,
}

/// Where a model is.
pub(super) enum Route {
    /// `models/{model}` below this.
    Public(Url),
    Vertex(Place),
}

/// How a request proves who asks.
pub(super) enum Access {
    /// Empty at a server of one's own that needs no key.
    Key(HeaderMap),
    Token {
        tokens: Box<Tokens>,
        quota_project: Option<HeaderValue>,
    },
}

impl Gemini {
    /// The public API. The base URL may end in the API's version or leave it out.
    pub fn google(settings: &ChatSettings) -> Result<Self, Error> {
        let key = settings.key("google", "GEMINI_API_KEY", "EMERGENT_GOOGLE_BASE_URL")?;
        let base = settings.base().unwrap_or(BASE);
        let url = versioned_as(VERSION, "EMERGENT_GOOGLE_BASE_URL", base, "")?;
        Ok(Self {
            name: "google",
            client: client("google", &url, |builder| builder)?,
            route: Route::Public(url),
            access: Access::key(key, "GEMINI_API_KEY")?,
            idle: settings.idle.unwrap_or(IDLE),
        })
    }

    async fn url(&self, model: &str) -> Result<Url, Error> {
        match (&self.route, &self.access) {
            (Route::Public(root), _) => {
                // People also write it as the API lists it.
                let model = model.strip_prefix("models/").unwrap_or(model);
                let folder = if model.starts_with("tunedModels/") { "" } else { "models/" };
                Ok(streaming(root, &format!("{folder}{model}")))
            }
            (Route::Vertex(place), Access::Key(_)) => Ok(streaming(place.root(), &Place::anywhere(model))),
            (Route::Vertex(place), Access::Token { tokens, .. }) => {
                Ok(streaming(place.root(), &place.within(tokens, model).await?))
            }
        }
    }
}

impl Access {
    pub(super) fn key(key: Option<&str>, setting: &str) -> Result<Self, Error> {
        let secret = key.map(|key| Secret { header: "x-goog-api-key", value: key.into(), setting });
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
    async fn refused(&self, headers: &HeaderMap) {
        if let (Self::Token { tokens, .. }, Some(bearer)) = (self, headers.get(AUTHORIZATION)) {
            tokens.forget(bearer).await;
        }
    }
}

/// The path is escaped piece by piece: whatever stands in a definition stays below `root`.
fn streaming(root: &Url, model: &str) -> Url {
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
        let mut reading = Reading::new(&model);
        let read = post_sse(&self.client, url, headers.clone(), body, &model, self.idle, |data| {
            reading.take(data, on_delta)?;
            Ok(ControlFlow::Continue(()))
        });
        let result = read.await;
        if let Err(Error::Auth { .. }) = &result {
            self.access.refused(&headers).await;
        }
        result?;
        reading.finish()
    }
}
