//! The ways to get an access token.

use std::{fmt, time::SystemTime};

use reqwest::{Client, RequestBuilder, Url, header::CONTENT_TYPE};

use super::{SCOPE, jwt::Signer};
use crate::{Error, http::endpoint};

const METADATA_HOST: &str = "metadata.google.internal";

pub enum TokenGrant {
    /// The account of a program, with a private key.
    ServiceAccount { signer: Box<Signer>, token_url: Url },
    /// A user who signed in with `gcloud auth application-default login`.
    User { client_id: String, client_secret: String, refresh_token: String, token_url: Url },
    /// The machine itself, inside Google Cloud.
    Metadata(MetadataServer),
}

pub struct MetadataServer {
    root: Url,
}

impl TokenGrant {
    /// `host` is the value of `GCE_METADATA_HOST`, with or without a port.
    pub fn metadata(host: Option<&str>) -> Result<Self, Error> {
        let base = format!("http://{}", host.unwrap_or(METADATA_HOST));
        let root = endpoint("GCE_METADATA_HOST", &base, "computeMetadata/v1/")?;
        Ok(Self::Metadata(MetadataServer { root }))
    }

    /// Returns the address of the token server.
    pub fn url(&self) -> &Url {
        match self {
            Self::ServiceAccount { token_url, .. } | Self::User { token_url, .. } => token_url,
            Self::Metadata(server) => &server.root,
        }
    }

    pub fn request(&self, client: &Client, now: SystemTime) -> Result<RequestBuilder, String> {
        match self {
            Self::ServiceAccount { signer, token_url } => {
                let assertion = signer.assertion(now)?;
                let grant = ("grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer");
                Ok(post(client, token_url, &[grant, ("assertion", &assertion)]))
            }
            Self::User { client_id, client_secret, refresh_token, token_url } => {
                let form = [
                    ("grant_type", "refresh_token"),
                    ("client_id", client_id),
                    ("client_secret", client_secret),
                    ("refresh_token", refresh_token),
                ];
                Ok(post(client, token_url, &form))
            }
            Self::Metadata(server) => {
                let mut url = server.path("instance/service-accounts/default/token");
                url.query_pairs_mut().append_pair("scopes", SCOPE);
                Ok(server.get(client, url))
            }
        }
    }
}

impl MetadataServer {
    pub fn project(&self, client: &Client) -> RequestBuilder {
        self.get(client, self.path("project/project-id"))
    }

    #[expect(
        clippy::expect_used,
        reason = "the root is an http URL, and a relative path can be joined to each of these"
    )]
    fn path(&self, path: &str) -> Url {
        self.root.join(path).expect("a relative path can be joined")
    }

    fn get(&self, client: &Client, url: Url) -> RequestBuilder {
        // The server refuses requests without this header, so that no web page can send them.
        client.get(url).header("metadata-flavor", "Google")
    }
}

fn post(client: &Client, url: &Url, form: &[(&str, &str)]) -> RequestBuilder {
    let mut encoder = url.clone();
    encoder.set_query(None);
    encoder.query_pairs_mut().extend_pairs(form);
    let body = encoder.query().unwrap_or_default().to_owned();
    client.post(url.clone()).header(CONTENT_TYPE, "application/x-www-form-urlencoded").body(body)
}

/// Names the token server, and for the metadata server also what to do outside Google Cloud.
impl fmt::Display for TokenGrant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = self.url().origin().ascii_serialization();
        match self {
            Self::Metadata(_) => write!(
                f,
                "the metadata server at `{host}` (outside Google Cloud, set `GOOGLE_APPLICATION_CREDENTIALS`)"
            ),
            Self::ServiceAccount { .. } | Self::User { .. } => write!(f, "`{host}`"),
        }
    }
}
