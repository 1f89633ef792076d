//! Request bodies and responses of the API client, the same over HTTP and in process.

use std::sync::Once;

use axum::{body::Body, http};
use bytes::Bytes;
use emergent_domain::{
    invalid::{Invalid, Problem},
    stored_json,
};
use emergent_wire::envelope::{Envelope, Failure, FailureBody};
use futures_util::{StreamExt, stream::BoxStream};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;

use crate::{
    config,
    error::{Error, Result},
    messages, output,
};

/// How much of a response that is not the API's is shown in an error.
const MAX_SHOWN_BODY_CHARS: usize = 200;

/// The codes of requests that are refused for what they have.
const INVALID: [&str; 2] = ["invalid", "invalid_manifest"];

/// Which certificates of a server are accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Certificates {
    /// Those that an authority signed that this machine trusts.
    Verified,
    /// On a loopback address, any. Certificates name a public host and never a loopback address, so verification would
    /// always fail. It is only for a server that the data folder names, whose lock shows that it runs, and for requests
    /// without a secret: another user of this machine may listen on any other port.
    AnyOnLoopback,
}

/// An HTTP client for the server at `base`.
pub fn http_client(base: &str, certificates: Certificates) -> Result<reqwest::Client> {
    if base.starts_with("https://") && certificates == Certificates::Verified {
        check_own_authority()?;
    }
    let mut client = emergent_net::http::client_builder_for(base);
    if is_loopback(base) {
        // A proxy is for the network; this machine is reached directly.
        client = client.no_proxy();
        client = client.tls_danger_accept_invalid_certs(certificates == Certificates::AnyOnLoopback);
    }
    client.build().map_err(|source| Error::Unreachable { server: base.to_owned(), source: Box::new(source) })
}

/// Checks the file of `SSL_CERT_FILE`, whose certificates take the place of those that the system trusts. If it cannot be
/// read, only the folders of `SSL_CERT_DIR` are left, and without them no server is trusted.
fn check_own_authority() -> Result<()> {
    static NOTED: Once = Once::new();
    let Some(file) = config::env_value("SSL_CERT_FILE") else { return Ok(()) };
    let Err(error) = emergent_net::tls::check_certificates(&file) else { return Ok(()) };
    let Some(folders) = config::env_value("SSL_CERT_DIR") else {
        return Err(Error::setting("SSL_CERT_FILE", error));
    };
    NOTED.call_once(|| {
        output::print_notice(&format!(
            "SSL_CERT_FILE is not used, only the certificates in `{folders}` (SSL_CERT_DIR): {error}"
        ));
    });
    Ok(())
}

/// Whether a URL leads to this machine. A host name that only begins like a loopback address does not.
fn is_loopback(base: &str) -> bool {
    let url = reqwest::Url::parse(base).ok();
    let host = url.as_ref().and_then(reqwest::Url::host_str).unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || address.parse().is_ok_and(|address: std::net::IpAddr| address.is_loopback())
}

/// The error for a refused request: the message of the API, and a line for each field reason that the
/// message does not contain.
pub fn refusal(error: FailureBody) -> Error {
    #[derive(Deserialize)]
    struct Detail {
        field: String,
        reason: String,
    }
    let FailureBody { code, mut message, details } = error;
    let details = details.as_ref().and_then(Value::as_array).into_iter().flatten();
    let problems: Vec<Problem> = details
        .filter_map(|detail| Detail::deserialize(detail).ok())
        .map(|Detail { field, reason }| Problem { field, reason })
        .collect();
    let joined = Invalid { problems };
    // Several problems are a line each. The message has them all in one line.
    if joined.problems.len() > 1 && message == joined.to_string() {
        message = format!("{} fields are wrong:", joined.problems.len());
    }
    let mut lines = String::new();
    for problem in joined.problems.iter().filter(|problem| !message.contains(&problem.reason)) {
        lines.push_str(&format!("\n  {problem}"));
    }
    let message = messages::translate(&message);
    let message = if INVALID.contains(&&*code) { messages::name_file(&message) } else { message };
    Error::Refused { code: code.into_owned(), message, details: messages::translate(&lines) }
}

/// The body of a request.
pub enum Content {
    Nothing,
    Text(String),
    Parts(BoxStream<'static, std::io::Result<Bytes>>),
}

impl From<Content> for Body {
    fn from(content: Content) -> Self {
        match content {
            Content::Nothing => Body::empty(),
            Content::Text(text) => Body::from(text),
            Content::Parts(parts) => Body::from_stream(parts),
        }
    }
}

impl From<Content> for reqwest::Body {
    fn from(content: Content) -> Self {
        match content {
            Content::Nothing => reqwest::Body::default(),
            Content::Text(text) => reqwest::Body::from(text),
            Content::Parts(parts) => reqwest::Body::wrap_stream(parts),
        }
    }
}

/// A response whose body has not been read yet.
pub struct ApiResponse {
    pub status: http::StatusCode,
    pub headers: http::HeaderMap,
    pub(super) body: BoxStream<'static, Result<Bytes>>,
}

/// The error for a response whose body ended early.
pub fn stream_error(error: impl std::fmt::Display) -> Error {
    Error::Unexpected(format!("the response ended early ({error})"))
}

impl ApiResponse {
    /// Turns an error status into an error with the message of the API.
    pub async fn error_for_status(self) -> Result<Self> {
        if self.status.is_success() {
            return Ok(self);
        }
        let status = self.status;
        let text = self.text().await?;
        let Ok(Failure { error, .. }) = stored_json::from_str::<Failure>(&text) else {
            return Err(Error::Unexpected(format!(
                "{status} {}",
                text.chars().take(MAX_SHOWN_BODY_CHARS).collect::<String>()
            )));
        };
        Err(refusal(error))
    }

    /// Whether this is about what an earlier request with the same `Idempotency-Key` started.
    pub fn is_replayed(&self) -> bool {
        self.headers.contains_key("idempotency-replayed")
    }

    /// The cursor of the next page; `None` on the last page.
    pub fn next_cursor(&self) -> Option<String> {
        self.headers.get("x-next-cursor").and_then(|value| value.to_str().ok()).map(str::to_owned)
    }

    pub fn stream(self) -> BoxStream<'static, Result<Bytes>> {
        self.body
    }

    pub async fn text(mut self) -> Result<String> {
        let mut bytes = Vec::new();
        while let Some(part) = self.body.next().await {
            bytes.extend_from_slice(&part?);
        }
        String::from_utf8(bytes).map_err(|error| Error::Unexpected(error.to_string()))
    }

    /// The `data` field of the response envelope.
    pub async fn data<T: DeserializeOwned>(self) -> Result<T> {
        let text = self.text().await?;
        let envelope: Envelope<T> =
            stored_json::from_str(&text).map_err(|error| Error::Unexpected(error.to_string()))?;
        Ok(envelope.data)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_this_machine_are_loopback() {
        for url in ["https://127.0.0.1:4400", "http://localhost", "https://[::1]:4400/x", "http://127.9.9.9"]
        {
            assert!(is_loopback(url), "{url}");
        }
        for url in ["https://localhost.example.com", "https://127.example.com", "https://10.0.0.1", "no url"]
        {
            assert!(!is_loopback(url), "{url}");
        }
    }
}
