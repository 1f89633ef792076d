//! Access tokens of Google Cloud: got once, kept while they are good, renewed in time.
//!
//! Which credentials there are is decided in [`Grant`]; reading the environment is left to the
//! caller.

mod file;
mod grant;
mod jwt;

use std::time::{Duration, SystemTime};

use reqwest::{Client, RequestBuilder, header::HeaderValue};
use serde::Deserialize;
use tokio::{sync::Mutex, time::Instant};
use tracing::warn;

use crate::{
    Error,
    http::{classify, client},
    retry::Policy,
};
pub use file::CredentialsFile;
pub use grant::Grant;

/// What the tokens are good for; the account's own rights narrow it.
const SCOPE: &str = "https://www.googleapis.com/auth/cloud-platform";

/// Tokens are renewed this long before they end. The metadata server hands out a new one from five
/// minutes before, so asking any earlier would bring back the old one.
const SPARE: Duration = Duration::from_secs(4 * 60);

/// A token comes in a fraction of a second, or something is wrong; a model's call waits for it.
const PATIENCE: Policy = Policy {
    attempts: 4,
    first_wait: Duration::from_millis(200),
    longest_wait: Duration::from_secs(2),
    deadline: Duration::from_secs(30),
};
const ATTEMPT: Duration = Duration::from_secs(10);

/// The tokens of one set of credentials.
pub struct Tokens {
    /// Who is named in errors.
    who: &'static str,
    grant: Grant,
    client: Client,
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    token: Option<Token>,
    failure: Option<(Instant, Failure)>,
}

struct Token {
    bearer: HeaderValue,
    /// By the wall clock, which goes on while a laptop sleeps.
    ends: SystemTime,
}

impl Tokens {
    pub fn new(who: &'static str, grant: Grant) -> Result<Self, Error> {
        let client = client(who, grant.url(), |builder| match &grant {
            // A neighbour on the wire, which no proxy can reach.
            Grant::Metadata(_) => builder.timeout(ATTEMPT).no_proxy(),
            Grant::ServiceAccount { .. } | Grant::User { .. } => builder.timeout(ATTEMPT),
        })?;
        Ok(Self { who, grant, client, held: Mutex::default() })
    }

    /// The value of `Authorization` for a request that starts now.
    ///
    /// However many ask at once, one request is made: the others wait for the lock and then share
    /// what came of it, be it a token or a failure.
    pub async fn bearer(&self) -> Result<HeaderValue, Error> {
        let arrived = Instant::now();
        let mut held = self.held.lock().await;
        if let Some(bearer) = held.bearer(SPARE) {
            return Ok(bearer);
        }
        let fetched = match &held.failure {
            Some((when, failure)) if *when >= arrived => Err(failure.error(self.who)),
            _ => PATIENCE.run(self.who, || self.fetch()).await,
        };
        let error = match fetched {
            Ok(token) => {
                let bearer = token.bearer.clone();
                *held = Held { token: Some(token), failure: None };
                return Ok(bearer);
            }
            Err(error) => error,
        };
        held.failure = Some((Instant::now(), Failure::of(&error)));
        // The old one is good for some minutes yet, and by then there may be a new one.
        let old = held.bearer(Duration::ZERO).ok_or(error)?;
        warn!("could not renew the access token of `{}`, using the old one", self.who);
        Ok(old)
    }

    /// Drops a token that was refused, so that the next call gets a new one.
    pub async fn forget(&self, refused: &HeaderValue) {
        let mut held = self.held.lock().await;
        held.token.take_if(|token| token.bearer == *refused);
    }

    /// The project that the machine or the credentials belong to.
    pub async fn project(&self) -> Result<String, Error> {
        match &self.grant {
            Grant::Metadata(server) => {
                let request = || self.text(server.project(&self.client));
                PATIENCE.run(self.who, request).await
            }
            Grant::ServiceAccount { .. } | Grant::User { .. } => {
                Err(Error::Config(format!("`{}` needs a project: set `GOOGLE_CLOUD_PROJECT`", self.who)))
            }
        }
    }

    async fn fetch(&self) -> Result<Token, Error> {
        #[derive(Deserialize)]
        struct Answer {
            access_token: String,
            expires_in: u64,
        }
        // Before asking: the time on the way counts as used up.
        let now = SystemTime::now();
        let request = self.grant.request(&self.client).map_err(|message| self.refused(message))?;
        let text = self.text(request).await?;
        let unusable = |message: String| Error::Malformed { model: self.who.into(), message };
        // The cause is left out: it could quote the token.
        let answer: Answer =
            serde_json::from_str(&text).map_err(|_| unusable("no access token in the answer".into()))?;
        let mut bearer = HeaderValue::try_from(format!("Bearer {}", answer.access_token))
            .map_err(|_| unusable("an access token with characters no header can have".into()))?;
        bearer.set_sensitive(true);
        Ok(Token { bearer, ends: now + Duration::from_secs(answer.expires_in) })
    }

    async fn text(&self, request: RequestBuilder) -> Result<String, Error> {
        let unreachable = |error: reqwest::Error| Error::Overloaded {
            model: self.who.into(),
            message: format!("no access token from {}", self.grant),
            source: Some(Box::new(error.without_url())),
        };
        let response = request.send().await.map_err(unreachable)?;
        let status = response.status();
        let text = response.text().await.map_err(unreachable)?;
        match status.as_u16() {
            200..300 => Ok(text),
            408 | 429 | 500.. => Err(classify(self.who, status, None, &text)),
            _ => Err(self.refused(reason(&text).unwrap_or_else(|| format!("{} said {status}", self.grant)))),
        }
    }

    fn refused(&self, message: String) -> Error {
        Error::Auth { model: self.who.into(), message }
    }
}

impl Held {
    fn bearer(&self, spare: Duration) -> Option<HeaderValue> {
        let token = self.token.as_ref().filter(|token| token.ends > SystemTime::now() + spare)?;
        Some(token.bearer.clone())
    }
}

/// What can be told to everybody who waited for the same request.
struct Failure {
    message: String,
    for_good: bool,
}

impl Failure {
    fn of(error: &Error) -> Self {
        let message = match error {
            Error::Auth { message, .. }
            | Error::Overloaded { message, .. }
            | Error::RateLimited { message, .. } => message.clone(),
            other => other.to_string(),
        };
        Self { message, for_good: !error.is_retryable() }
    }

    fn error(&self, who: &str) -> Error {
        let (model, message) = (who.to_owned(), self.message.clone());
        match self.for_good {
            true => Error::Auth { model, message },
            false => Error::Overloaded { model, message, source: None },
        }
    }
}

/// OAuth's form: `{"error": "invalid_grant", "error_description": "…"}`.
fn reason(text: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Refusal {
        error: String,
        #[serde(default)]
        error_description: String,
    }
    let refusal: Refusal = serde_json::from_str(text).ok()?;
    let words = format!("{}: {}", refusal.error, refusal.error_description);
    Some(words.trim_end_matches([':', ' ']).chars().take(300).collect())
}
