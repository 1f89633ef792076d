//! HTTP clients with what each of them needs, whoever is asked.

use std::{sync::Arc, time::Duration};

use reqwest::{Client, ClientBuilder, Url, redirect};

use crate::{
    address::{self, PublicResolver},
    tls,
};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const MAX_REDIRECTS: usize = 5;

/// A builder with TLS set up and a limit for the time a connection may take.
pub fn client_builder() -> ClientBuilder {
    tls::install_crypto_provider();
    Client::builder().connect_timeout(CONNECT_TIMEOUT)
}

/// The same for the server at `url`, which may be the only one that is asked: without TLS, a machine
/// that has no certificates can still reach a server next to it.
pub fn client_builder_for(url: &str) -> ClientBuilder {
    match url.starts_with("http://") {
        true => client_builder().tls_certs_only([]),
        false => client_builder(),
    }
}

/// A client that reaches public addresses only, unless the operator allows others. It follows
/// redirects within one origin: headers with secrets go along, so nowhere else.
pub fn public_client(allow_private: bool) -> Result<Client, String> {
    let policy = redirect::Policy::custom(move |attempt| {
        let from = attempt.previous().last().map(Url::origin);
        let origin = attempt.url().origin();
        if attempt.previous().len() > MAX_REDIRECTS {
            attempt.error("it redirects too often")
        } else if from != Some(origin) {
            attempt.error("it redirects to another server")
        } else if let Err(why) = address::check(attempt.url(), allow_private) {
            attempt.error(why)
        } else {
            attempt.follow()
        }
    });
    client_builder()
        // A proxy would resolve names by itself, where nothing is checked.
        .no_proxy()
        .retry(reqwest::retry::never())
        .redirect(policy)
        .dns_resolver(Arc::new(PublicResolver { allow_private }))
        .build()
        .map_err(|error| format!("could not set up HTTP: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_name_that_leads_home_is_refused_after_it_is_resolved() {
        let client = public_client(false).unwrap();
        let error = client.get("http://localhost:1/").send().await.unwrap_err();
        assert!(format!("{error:?}").contains("not a public address"), "{error:?}");
    }
}
