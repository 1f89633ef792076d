//! Builds the HTTP clients of all crates: with TLS and a connect timeout, and, for URLs that users supply,
//! with access to public addresses only.

use std::{sync::Arc, time::Duration};

use reqwest::{Client, ClientBuilder, Url, redirect};

use crate::{
    address::{self, PublicResolver},
    tls,
};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const MAX_REDIRECTS: usize = 5;

/// Returns a builder of a client with TLS and a connect timeout.
pub fn client_builder() -> ClientBuilder {
    tls::install_crypto_provider();
    Client::builder().connect_timeout(CONNECT_TIMEOUT)
}

/// Like [`client_builder`], for a client that only sends requests to the server at `url`. With an `http:`
/// URL, no root certificates are loaded, so that it also works on a machine that has none.
pub fn client_builder_for(url: &str) -> ClientBuilder {
    match url.starts_with("http://") {
        true => client_builder().tls_certs_only([]),
        false => client_builder(),
    }
}

/// Returns a client that connects to public addresses only, unless `allow_private` is true. It follows
/// redirects only within one origin, because headers with secrets are sent along.
pub fn public_client(allow_private: bool) -> Result<Client, String> {
    let policy = redirect::Policy::custom(move |attempt| {
        let previous_origin = attempt.previous().last().map(Url::origin);
        let next_origin = attempt.url().origin();
        if attempt.previous().len() > MAX_REDIRECTS {
            attempt.error("the server redirects too often")
        } else if previous_origin != Some(next_origin) {
            attempt.error("the server redirects to another server")
        } else if let Err(reason) = address::check(attempt.url(), allow_private) {
            attempt.error(reason)
        } else {
            attempt.follow()
        }
    });
    guarded_client(PublicResolver::new(allow_private), policy)
}

/// As [`public_client`], for requests that must reach the address itself: redirects are not followed.
pub fn public_client_without_redirects(allow_private: bool) -> Result<Client, String> {
    guarded_client(PublicResolver::new(allow_private), redirect::Policy::none())
}

fn guarded_client(resolver: PublicResolver, policy: redirect::Policy) -> Result<Client, String> {
    client_builder()
        // A proxy would resolve host names itself, without our check.
        .no_proxy()
        .retry(reqwest::retry::never())
        .redirect(policy)
        .dns_resolver(Arc::new(resolver))
        .build()
        .map_err(|error| format!("could not create the HTTP client: {error}"))
}

#[cfg(test)]
mod tests {
    use std::{
        net::SocketAddr,
        sync::atomic::{AtomicUsize, Ordering},
    };

    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;
    use crate::address::LookupFuture;

    #[tokio::test]
    async fn a_host_name_that_resolves_to_this_machine_is_refused() {
        let client = public_client(false).unwrap();
        let error = client.get("http://localhost:1/").send().await.unwrap_err();
        assert!(format!("{error:?}").contains("not a public address"), "{error:?}");
    }

    /// A client for which every name leads to this machine, and how often it asked for one.
    fn rebound_client(allow_private: bool) -> (Client, Arc<AtomicUsize>) {
        let asked = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&asked);
        let lookup = move |_: String| -> LookupFuture {
            counter.fetch_add(1, Ordering::SeqCst);
            Box::pin(async { Ok(vec![SocketAddr::from(([127, 0, 0, 1], 0))]) })
        };
        let resolver = PublicResolver::with_lookup(allow_private, Arc::new(lookup));
        (guarded_client(resolver, redirect::Policy::none()).unwrap(), asked)
    }

    /// Answers every request on this machine. Returns its port, and how many connections it got.
    async fn local_server() -> (u16, Arc<AtomicUsize>) {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (port, connections) = (listener.local_addr().unwrap().port(), Arc::new(AtomicUsize::new(0)));
        let counter = Arc::clone(&connections);
        tokio::spawn(async move {
            while let Ok((mut socket, _)) = listener.accept().await {
                counter.fetch_add(1, Ordering::SeqCst);
                let mut head = [0; 1024];
                let _ = socket.read(&mut head).await;
                let _ = socket.write_all(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n").await;
            }
        });
        (port, connections)
    }

    #[tokio::test]
    async fn a_name_is_looked_up_once_for_a_connection_and_the_checked_address_is_used() {
        let (port, connections) = local_server().await;
        let url = format!("http://public.test:{port}/");
        let (client, asked) = rebound_client(true);
        assert_eq!(client.get(&url).send().await.unwrap().status(), 204);
        assert_eq!((asked.load(Ordering::SeqCst), connections.load(Ordering::SeqCst)), (1, 1));
        let (client, asked) = rebound_client(false);
        let error = client.get(&url).send().await.unwrap_err();
        assert!(format!("{error:?}").contains("not a public address"), "{error:?}");
        assert_eq!((asked.load(Ordering::SeqCst), connections.load(Ordering::SeqCst)), (1, 1));
    }
}
