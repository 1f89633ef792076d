//! JSON over HTTP to a provider: the shared client, and which answer means which error.

use std::time::Duration;

use emergent_domain::foreign_json;
use reqwest::{
    Client, ClientBuilder, Response, StatusCode, Url,
    header::{HeaderMap, HeaderName, HeaderValue, RETRY_AFTER},
    redirect,
};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{
    Error,
    error::{is_refused, refused_message},
    retry::RetryPolicy,
};

/// One attempt; long enough for a local server that loads its model first.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(60);

/// A connection to one model of one provider.
pub struct ProviderClient {
    client: Client,
    model: String,
    url: Url,
    policy: RetryPolicy,
}

/// A header with a key in it, and the setting the key came from.
pub struct SecretHeader<'a> {
    pub header: &'static str,
    pub value: String,
    pub setting: &'a str,
}

impl ProviderClient {
    pub fn new(model: &str, url: Url, secret: Option<SecretHeader<'_>>) -> Result<Self, Error> {
        let headers = secret.map(headers).transpose()?.unwrap_or_default();
        let client =
            client(model, &url, |builder| builder.timeout(ATTEMPT_TIMEOUT).default_headers(headers))?;
        Ok(Self { client, model: model.into(), url, policy: RetryPolicy::default() })
    }

    /// Posts `body`, asking again where that may help.
    pub async fn post<T: DeserializeOwned>(&self, body: &Value) -> Result<T, Error> {
        // Written once: the body is the same for every attempt.
        let body = body.to_string();
        self.policy.run(&self.model, || self.attempt(body.clone())).await
    }

    async fn attempt<T: DeserializeOwned>(&self, body: String) -> Result<T, Error> {
        let response = self
            .client
            .post(self.url.clone())
            .header("content-type", "application/json")
            .body(body)
            .send()
            .await
            .map_err(|error| self.unreachable(error))?;
        let status = response.status();
        if !status.is_success() {
            return Err(self.response_error(status, response).await);
        }
        let bytes = response.bytes().await.map_err(|error| self.unreachable(error))?;
        foreign_json::from_slice(&bytes).map_err(|error| self.malformed(error.to_string()))
    }

    pub fn malformed(&self, message: String) -> Error {
        Error::Malformed { model: self.model.clone(), message }
    }

    fn unreachable(&self, error: reqwest::Error) -> Error {
        let what = if error.is_timeout() { "timed out at" } else { "no connection to" };
        let origin = self.url.origin().ascii_serialization();
        let message =
            if is_refused(&error) { refused_message(&origin) } else { format!("{what} `{origin}`") };
        Error::Overloaded { model: self.model.clone(), message, source: Some(Box::new(error.without_url())) }
    }

    async fn response_error(&self, status: StatusCode, response: Response) -> Error {
        let asked = wait_in_headers(response.headers());
        let text = response.text().await.unwrap_or_default();
        classify(&self.model, status, asked, &text)
    }
}

/// A client for the server at `url`, with what every provider needs and what `more` adds.
pub fn client(
    model: &str,
    url: &Url,
    more: impl FnOnce(ClientBuilder) -> ClientBuilder,
) -> Result<Client, Error> {
    let builder = emergent_net::http::client_builder_for(url.as_str())
        // Calls are tried again where their cost and their deadline are known, not below; and what
        // may be sent again is kept in memory until the answer begins.
        .retry(reqwest::retry::never())
        // No provider redirects, and a redirect would carry the key elsewhere.
        .redirect(redirect::Policy::none());
    more(builder)
        .build()
        .map_err(|error| Error::Config(format!("could not set up HTTP for `{model}`: {error:?}")))
}

pub fn headers(secret: SecretHeader<'_>) -> Result<HeaderMap, Error> {
    let mut value = HeaderValue::from_str(&secret.value)
        .map_err(|_| Error::Config(format!("`{}` has characters no key can have", secret.setting)))?;
    value.set_sensitive(true);
    Ok(HeaderMap::from_iter([(HeaderName::from_static(secret.header), value)]))
}

/// Parses the value of a setting that holds a base URL and adds `path` to it.
pub fn endpoint(setting: &str, base: &str, path: &str) -> Result<Url, Error> {
    let whole = format!("{}/{path}", base.trim_end_matches('/'));
    match Url::parse(&whole) {
        Ok(url) if matches!(url.scheme(), "http" | "https") => Ok(url),
        _ => Err(Error::Config(format!("`{setting}` has to be an http or https URL"))),
    }
}

pub fn classify(model: &str, status: StatusCode, asked: Option<Duration>, text: &str) -> Error {
    let body = match foreign_json::from_str(text) {
        // Google wraps the error of a streaming verb into a list.
        Ok(Value::Array(mut list)) if !list.is_empty() => list.swap_remove(0),
        Ok(body) => body,
        Err(_) => Value::Null,
    };
    let model = model.to_owned();
    let message = error_message(&body, text);
    // Two providers hide a credential problem behind another status: Google answers 400
    // to a wrong key, OpenAI 429 to an account without credit.
    let no_credit = text.contains("insufficient_quota");
    match status.as_u16() {
        _ if no_credit => {
            Error::Auth { model, message: format!("the account has no credit left: {message}") }
        }
        401 | 403 => Error::Auth { model, message },
        _ if text.contains("API_KEY_INVALID") => Error::Auth { model, message },
        429 => Error::RateLimited { model, message, retry_after: asked.or_else(|| wait_in_body(&body)) },
        408 | 500.. => {
            Error::Overloaded { model, message: format!("status {status}: {message}"), source: None }
        }
        status => Error::BadRequest { model, status, message },
    }
}

/// `{"error": {"message": …}}` for most, `{"error": …}` for Ollama, plain text for proxies.
fn error_message(body: &Value, text: &str) -> String {
    let error = &body["error"];
    let said = error["message"].as_str().or(error.as_str()).unwrap_or(text).trim();
    match said {
        "" => "no reason given".into(),
        said => said.chars().take(300).collect(),
    }
}

pub fn wait_in_headers(headers: &HeaderMap) -> Option<Duration> {
    let number = |value: &HeaderValue| -> Option<f64> { value.to_str().ok()?.trim().parse().ok() };
    let millis = headers.get("retry-after-ms").and_then(number).map(|ms| ms / 1000.0);
    match millis.or_else(|| headers.get(RETRY_AFTER).and_then(number)) {
        Some(seconds) => Duration::try_from_secs_f64(seconds).ok(),
        None => time_until(headers.get(RETRY_AFTER)?.to_str().ok()?),
    }
}

/// How long it is until a date as HTTP writes it; nothing when that is past.
#[expect(
    clippy::disallowed_methods,
    reason = "the date is from the clock of another server, so it is compared with the real time"
)]
fn time_until(date: &str) -> Option<Duration> {
    let date = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(date).ok()?;
    Some(Duration::try_from(date.duration_since(jiff::Timestamp::now())).unwrap_or_default())
}

/// Google's form: `{"error": {"details": [{"retryDelay": "34.5s"}]}}`.
fn wait_in_body(body: &Value) -> Option<Duration> {
    let details = body["error"]["details"].as_array()?;
    let delay = details.iter().find_map(|detail| detail["retryDelay"].as_str())?;
    Duration::try_from_secs_f64(delay.strip_suffix('s')?.parse().ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(status: u16, text: &str) -> Error {
        classify("m", StatusCode::from_u16(status).unwrap(), None, text)
    }

    #[test]
    fn a_wait_may_be_given_as_a_date() {
        let wait = |date: String| {
            let value = HeaderValue::from_str(&date).unwrap();
            wait_in_headers(&HeaderMap::from_iter([(RETRY_AFTER, value)]))
        };
        let soon = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(90);
        let soon = jiff::fmt::strtime::format("%a, %d %b %Y %H:%M:%S GMT", soon).unwrap();
        let told = wait(soon).unwrap();
        assert!((88..=90).contains(&told.as_secs()), "{told:?}");
        assert_eq!(wait("Sun, 06 Nov 1994 08:49:37 GMT".into()), Some(Duration::ZERO));
        assert_eq!(wait("later".into()), None);
    }

    #[test]
    fn a_status_says_what_the_caller_can_do() {
        assert!(matches!(class(401, ""), Error::Auth { .. }));
        assert!(matches!(class(403, ""), Error::Auth { .. }));
        assert!(matches!(class(404, ""), Error::BadRequest { status: 404, .. }));
        assert!(matches!(class(302, ""), Error::BadRequest { .. }));
        assert!(matches!(class(408, ""), Error::Overloaded { .. }));
        assert!(matches!(class(429, ""), Error::RateLimited { .. }));
        assert!(matches!(class(529, ""), Error::Overloaded { .. }));
    }

    #[test]
    fn a_wrong_google_key_and_an_empty_openai_account_are_about_credentials() {
        let google = r#"{"error":{"code":400,"details":[{"reason":"API_KEY_INVALID"}]}}"#;
        let openai = r#"{"error":{"code":"insufficient_quota","message":"You exceeded…"}}"#;
        assert!(matches!(class(400, google), Error::Auth { .. }));
        let message = class(429, openai).to_string();
        assert!(message.contains("the account has no credit left"), "{message}");
    }

    #[test]
    fn googles_wait_is_read_from_the_body() {
        let text = r#"{"error":{"message":"quota","details":[{"@type":"x"},{"retryDelay":"34.5s"}]}}"#;
        assert_eq!(class(429, text).retry_after(), Some(Duration::from_millis(34_500)));
    }

    #[test]
    fn the_providers_words_are_passed_on() {
        let said = |text| class(400, text).to_string();
        assert!(said(r#"{"error":{"message":"too long"}}"#).ends_with("too long"));
        assert!(said(r#"{"error":"model not found"}"#).ends_with("model not found"));
        assert!(said("<html>").ends_with("<html>"));
        assert!(said("").ends_with("no reason given"));
    }

    #[test]
    fn a_key_with_a_line_break_names_its_setting() {
        let secret =
            SecretHeader { header: "x-goog-api-key", value: "a\nb".into(), setting: "GEMINI_API_KEY" };
        assert!(headers(secret).unwrap_err().to_string().contains("GEMINI_API_KEY"));
    }
}
