//! Access tokens of Google Cloud: they are fetched once, cached while valid, and renewed in time.
//!
//! [`TokenGrant`] defines the kinds of credentials; the caller reads the environment.

mod file;
mod grant;
mod jwt;

use std::time::{Duration, SystemTime};

use emergent_domain::foreign_json;
use reqwest::{Client, RequestBuilder, header::HeaderValue};
use serde::Deserialize;
use tokio::{sync::Mutex, time::Instant};
use tracing::warn;

use crate::{
    Error,
    http::{classify, client},
    retry::RetryPolicy,
};
pub use file::CredentialsFile;
pub use grant::TokenGrant;

/// The scope of the tokens; the rights of the account restrict it further.
const SCOPE: &str = "https://www.googleapis.com/auth/cloud-platform";

/// Tokens are renewed this long before they expire. The metadata server issues a new one five minutes
/// before, so an earlier request would return the old one.
const RENEW_BEFORE: Duration = Duration::from_secs(4 * 60);

/// A token arrives in a fraction of a second, or something is wrong; a model call waits for it.
const RETRY_POLICY: RetryPolicy = RetryPolicy {
    attempts: 4,
    min_wait: Duration::from_millis(200),
    max_wait: Duration::from_secs(2),
    deadline: Duration::from_secs(30),
};
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(10);

/// The tokens for one set of credentials.
pub struct TokenSource {
    /// The provider that errors name.
    provider: &'static str,
    grant: TokenGrant,
    client: Client,
    cache: Mutex<TokenCache>,
}

#[derive(Default)]
struct TokenCache {
    token: Option<CachedToken>,
    failure: Option<(Instant, SharedFailure)>,
}

struct CachedToken {
    bearer: HeaderValue,
    /// In wall-clock time, which continues while a laptop sleeps.
    ends: SystemTime,
}

impl TokenSource {
    pub fn new(who: &'static str, grant: TokenGrant) -> Result<Self, Error> {
        let client = client(who, grant.url(), |builder| match &grant {
            // The metadata server is on the local network, which no proxy can reach.
            TokenGrant::Metadata(_) => builder.timeout(ATTEMPT_TIMEOUT).no_proxy(),
            TokenGrant::ServiceAccount { .. } | TokenGrant::User { .. } => builder.timeout(ATTEMPT_TIMEOUT),
        })?;
        Ok(Self { provider: who, grant, client, cache: Mutex::default() })
    }

    /// Returns the value of `Authorization` for a request that starts now.
    ///
    /// However many callers ask at once, one request is made: the others wait for the lock and then share
    /// its token or its failure.
    pub async fn bearer(&self) -> Result<HeaderValue, Error> {
        let arrived = Instant::now();
        let mut cache = self.cache.lock().await;
        if let Some(bearer) = cache.bearer(RENEW_BEFORE) {
            return Ok(bearer);
        }
        let fetched = match &cache.failure {
            Some((when, failure)) if *when >= arrived => Err(failure.to_error(self.provider)),
            _ => RETRY_POLICY.run(self.provider, || self.fetch()).await,
        };
        let error = match fetched {
            Ok(token) => {
                let bearer = token.bearer.clone();
                *cache = TokenCache { token: Some(token), failure: None };
                return Ok(bearer);
            }
            Err(error) => error,
        };
        cache.failure = Some((Instant::now(), SharedFailure::from_error(&error)));
        // The old token is still valid for some minutes, and a later renewal may succeed.
        let old = cache.bearer(Duration::ZERO).ok_or(error)?;
        warn!("could not renew the access token of `{}`, using the old one", self.provider);
        Ok(old)
    }

    /// Drops a token that was refused, so that the next call fetches a new one.
    pub async fn invalidate(&self, refused: &HeaderValue) {
        let mut cache = self.cache.lock().await;
        cache.token.take_if(|token| token.bearer == *refused);
    }

    /// Returns the project of the machine or of the credentials.
    pub async fn project(&self) -> Result<String, Error> {
        match &self.grant {
            TokenGrant::Metadata(server) => {
                let request = || self.text(server.project(&self.client));
                RETRY_POLICY.run(self.provider, request).await
            }
            TokenGrant::ServiceAccount { .. } | TokenGrant::User { .. } => {
                Err(Error::Config(format!("`{}` needs a project: set `GOOGLE_CLOUD_PROJECT`", self.provider)))
            }
        }
    }

    async fn fetch(&self) -> Result<CachedToken, Error> {
        #[derive(Deserialize)]
        struct Answer {
            access_token: String,
            expires_in: u64,
        }
        // The time is taken before the request, so that the duration of the request counts as used.
        let now = wall_clock();
        let request = self.grant.request(&self.client, now).map_err(|message| self.refused(message))?;
        let text = self.text(request).await?;
        let unusable = |message: String| Error::Malformed { model: self.provider.into(), message };
        // The cause is omitted, because it could quote the token.
        let answer: Answer =
            foreign_json::from_str(&text).map_err(|_| unusable("no access token in the answer".into()))?;
        let mut bearer = HeaderValue::try_from(format!("Bearer {}", answer.access_token))
            .map_err(|_| unusable("an access token with characters no header can have".into()))?;
        bearer.set_sensitive(true);
        Ok(CachedToken { bearer, ends: now + Duration::from_secs(answer.expires_in) })
    }

    async fn text(&self, request: RequestBuilder) -> Result<String, Error> {
        let unreachable = |error: reqwest::Error| Error::Overloaded {
            model: self.provider.into(),
            message: format!("no access token from {}", self.grant),
            source: Some(Box::new(error.without_url())),
        };
        let response = request.send().await.map_err(unreachable)?;
        let status = response.status();
        let text = response.text().await.map_err(unreachable)?;
        match status.as_u16() {
            200..300 => Ok(text),
            408 | 429 | 500.. => Err(classify(self.provider, status, None, &text)),
            _ => Err(self.refused(
                oauth_error_message(&text).unwrap_or_else(|| format!("{} said {status}", self.grant)),
            )),
        }
    }

    fn refused(&self, message: String) -> Error {
        Error::Auth { model: self.provider.into(), message }
    }
}

#[expect(clippy::disallowed_methods, reason = "Google checks the times of tokens against its own clock")]
fn wall_clock() -> SystemTime {
    SystemTime::now()
}

impl TokenCache {
    fn bearer(&self, spare: Duration) -> Option<HeaderValue> {
        let token = self.token.as_ref().filter(|token| token.ends > wall_clock() + spare)?;
        Some(token.bearer.clone())
    }
}

/// The part of a failure that can be shared with all callers that waited for the same request.
struct SharedFailure {
    message: String,
    permanent: bool,
}

impl SharedFailure {
    fn from_error(error: &Error) -> Self {
        let message = match error {
            Error::Auth { message, .. }
            | Error::Overloaded { message, .. }
            | Error::RateLimited { message, .. } => message.clone(),
            other => other.to_string(),
        };
        Self { message, permanent: !error.is_retryable() }
    }

    fn to_error(&self, who: &str) -> Error {
        let (model, message) = (who.to_owned(), self.message.clone());
        match self.permanent {
            true => Error::Auth { model, message },
            false => Error::Overloaded { model, message, source: None },
        }
    }
}

/// Parses the OAuth form `{"error": "invalid_grant", "error_description": "…"}`.
fn oauth_error_message(text: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Refusal {
        error: String,
        #[serde(default)]
        error_description: String,
    }
    let refusal: Refusal = foreign_json::from_str(text).ok()?;
    let words = format!("{}: {}", refusal.error, refusal.error_description);
    Some(words.trim_end_matches([':', ' ']).chars().take(300).collect())
}
