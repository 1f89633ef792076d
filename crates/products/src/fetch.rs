//! Fetches manifests. Only hosts that the operator allows are contacted, so that a caller who
//! provides a URL cannot use it to explore the internal network of the server.

use std::time::Duration;

use emergent_net::{address, errors, http};
use futures_util::StreamExt;
use reqwest::{Client, Response, Url, header::LOCATION, redirect};

use crate::{builtin, source::ManifestSource};

const GITHUB: &str = "https://github.com";
const MAX_BYTES: usize = 8 * 1024 * 1024;
const MAX_REDIRECTS: usize = 5;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const TOTAL_TIMEOUT: Duration = Duration::from_secs(20);

#[derive(Debug, thiserror::Error)]
#[error("could not fetch `{at}`: {reason}")]
pub struct FetchError {
    pub at: String,
    pub reason: String,
}

#[derive(Debug, Clone)]
pub(crate) struct Fetcher {
    allow_private: bool,
    github: String,
}

impl Fetcher {
    pub(crate) fn new(allow_private: bool, github: Option<&str>) -> Self {
        let github = github.unwrap_or(GITHUB).trim_end_matches('/').to_owned();
        Self { allow_private, github }
    }

    /// Fetches the text of a manifest.
    pub(crate) async fn fetch(&self, source: &ManifestSource) -> Result<Vec<u8>, FetchError> {
        let failed = |reason: String| FetchError { at: source.to_string(), reason };
        let url = match source {
            ManifestSource::Builtin(name) => {
                let text = builtin::manifest_text(name)
                    .ok_or_else(|| failed("it is not a built-in product".into()))?;
                return Ok(text.as_bytes().to_vec());
            }
            ManifestSource::Url(url) => url.clone(),
            ManifestSource::GitHub { owner, name } => {
                let url = format!("{}/{owner}/{name}/releases/latest/download/manifest.json", self.github);
                Url::parse(&url)
                    .map_err(|error| failed(format!("EMERGENT_GITHUB_URL is not a valid URL: {error}")))?
            }
        };
        let got = tokio::time::timeout(TOTAL_TIMEOUT, self.get(url)).await;
        got.unwrap_or_else(|_| {
            Err(format!("no complete response within {} seconds", TOTAL_TIMEOUT.as_secs()))
        })
        .map_err(failed)
    }

    /// Follows redirects itself, because each target must be checked before it is contacted. The
    /// URL that the operator configured is trusted; the targets it redirects to are not.
    async fn get(&self, mut url: Url) -> Result<Vec<u8>, String> {
        for _ in 0..=MAX_REDIRECTS {
            let response = self.client(&url).await?.get(url.clone()).send().await.map_err(innermost_cause)?;
            if !response.status().is_redirection() {
                return read(response).await;
            }
            let to = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
            let to = to.ok_or("it redirects without a target")?;
            url = url.join(to).map_err(|error| format!("it redirects to an invalid URL: {error}"))?;
        }
        Err(format!("it redirects more than {MAX_REDIRECTS} times"))
    }

    async fn client(&self, url: &Url) -> Result<Client, String> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(format!("`{}` is not supported, use http or https", url.scheme()));
        }
        let mut builder = http::client_builder_for(url.as_str())
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(TOTAL_TIMEOUT)
            .redirect(redirect::Policy::none());
        if !self.trusts(url) {
            let addresses = address::resolve_public(url).await?;
            // The client connects to exactly the addresses that were checked. It uses no second DNS
            // lookup, and no proxy that would resolve the name again.
            builder = builder.no_proxy().resolve_to_addrs(url.host_str().unwrap_or_default(), &addresses);
        }
        builder.build().map_err(innermost_cause)
    }

    /// Returns whether the operator configured this host. Such a host is not checked.
    fn trusts(&self, url: &Url) -> bool {
        let configured = || {
            self.github != GITHUB && Url::parse(&self.github).is_ok_and(|base| base.origin() == url.origin())
        };
        self.allow_private || configured()
    }
}

async fn read(response: Response) -> Result<Vec<u8>, String> {
    let status = response.status();
    if !status.is_success() {
        return Err(format!("it responded with {status}"));
    }
    let mut text = Vec::new();
    let mut parts = response.bytes_stream();
    while let Some(part) = parts.next().await {
        text.extend_from_slice(&part.map_err(innermost_cause)?);
        if text.len() > MAX_BYTES {
            return Err(format!("it is longer than the limit of {MAX_BYTES} bytes"));
        }
    }
    Ok(text)
}

/// Returns the innermost cause of an error without the URL, which the message already contains.
fn innermost_cause(error: reqwest::Error) -> String {
    errors::root_cause(&error.without_url())
}
