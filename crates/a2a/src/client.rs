//! [`AgentClient`], which fetches the card of one agent and sends requests to it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use emergent_net::{large_messages::LargeMessages, trace_context};
use parking_lot::RwLock;
use reqwest::{
    Client, Url,
    header::{ACCEPT, HeaderMap, HeaderName},
};
use serde_json::Value;
use tokio::time::{Instant, timeout};

use crate::{
    AgentCard, Error, VERSION,
    binding::{self, Operation, Parsed},
    body, card,
};

const VERSION_HEADER: HeaderName = HeaderName::from_static("a2a-version");
/// The most bytes of a card.
const MAX_CARD_BYTES: usize = 256 << 10;
/// A card of this age is fetched again before the next call, because no agent says when its card changes.
const MAX_CARD_AGE: Duration = Duration::from_secs(60);

/// The address of an agent, and the headers of every request to it.
#[derive(Clone)]
pub struct Endpoint {
    /// The HTTP client, which also decides which addresses may be reached.
    pub http: Client,
    /// The address of the card, or the one below which the card has its well-known path.
    pub url: Url,
    /// Secret values are marked as sensitive.
    pub headers: HeaderMap,
    /// Whether the interface in the card may have an address of a private network.
    pub allow_private: bool,
}

/// The limits of a client.
#[derive(Clone)]
pub struct ClientOptions {
    /// The most bytes of one answer.
    pub max_message_bytes: usize,
    /// The limits for large answers, which clients share.
    pub large_messages: LargeMessages,
    /// The timeout for the card.
    pub connect_timeout: Duration,
}

/// A client of one agent. Clones share it.
#[derive(Clone)]
pub struct AgentClient(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    endpoint: Endpoint,
    options: ClientOptions,
    /// The card with the time when it was fetched.
    card: RwLock<(Arc<AgentCard>, Instant)>,
    next_id: AtomicU64,
}

impl AgentClient {
    /// Fetches the card of an agent.
    pub async fn connect(endpoint: Endpoint, options: ClientOptions) -> Result<Self, Error> {
        let card = fetch_card(&endpoint, &options).await?;
        let card = RwLock::new((Arc::new(card), Instant::now()));
        Ok(Self(Arc::new(Inner { endpoint, options, card, next_id: AtomicU64::new(1) })))
    }

    /// Whether both values are the same client.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The card as it was fetched last.
    pub fn card(&self) -> Arc<AgentCard> {
        Arc::clone(&self.0.card.read().0)
    }

    /// Whether the card should be fetched again before the agent is called.
    pub fn has_old_card(&self) -> bool {
        self.0.card.read().1.elapsed() >= MAX_CARD_AGE
    }

    /// Fetches the card again.
    pub async fn refresh_card(&self) -> Result<Arc<AgentCard>, Error> {
        let card = Arc::new(fetch_card(&self.0.endpoint, &self.0.options).await?);
        *self.0.card.write() = (Arc::clone(&card), Instant::now());
        Ok(card)
    }
}

impl Inner {
    /// Sends one request, at the interface of the card, and parses the result.
    pub async fn request<T: Send + 'static>(
        &self,
        operation: &Operation,
        within: Duration,
        parse: fn(Value) -> Result<T, Error>,
    ) -> Result<Parsed<T>, Error> {
        let card = Arc::clone(&self.card.read().0);
        let interface = &card.interface;
        let call = operation.http_call(interface, self.next_id.fetch_add(1, Ordering::Relaxed))?;
        let mut request = self
            .endpoint
            .http
            .request(call.method.clone(), call.url.clone())
            .headers(self.endpoint.headers.clone())
            .header(VERSION_HEADER, VERSION)
            .header(ACCEPT, "application/json, application/a2a+json");
        if let Some(context) = trace_context::outgoing() {
            request = request.header(trace_context::TRACEPARENT, context);
        }
        let exchange = async {
            let sent = call.add_body(request).send().await;
            let response = sent.map_err(sending_error)?;
            let ClientOptions { max_message_bytes, large_messages, .. } = &self.options;
            binding::read_response(response, interface.binding, *max_message_bytes, large_messages, parse)
                .await
        };
        timeout(within, exchange).await.map_err(|_| Error::Timeout(within))?
    }
}

/// The error of a request without a response. If there was a connection, the agent may have got the request.
fn sending_error(error: reqwest::Error) -> Error {
    match error.is_connect() {
        true => Error::Unreachable(body::error_chain(error)),
        false => Error::Lost(body::error_chain(error)),
    }
}

async fn fetch_card(endpoint: &Endpoint, options: &ClientOptions) -> Result<AgentCard, Error> {
    let (within, large) = (options.connect_timeout, &options.large_messages);
    let url = card::card_url(&endpoint.url);
    let request = endpoint
        .http
        .get(url.clone())
        .headers(endpoint.headers.clone())
        .header(VERSION_HEADER, VERSION)
        .header(ACCEPT, "application/json, application/a2a+json");
    let exchange = async {
        let response = request.send().await.map_err(|error| Error::Unreachable(body::error_chain(error)))?;
        let status = response.status().as_u16();
        match status {
            200..=299 => body::read_all(response, MAX_CARD_BYTES, large).await,
            401 | 403 => Err(Error::Unauthorised(status)),
            429 => Err(Error::RateLimited { retry_after: binding::retry_after(response.headers()) }),
            404 => Err(Error::NoInterface(format!("there is no agent card at `{}`", url.path()))),
            _ => Err(Error::Http { status, body: body::excerpt(&body::read_error(response).await) }),
        }
    };
    let text = timeout(within, exchange).await.map_err(|_| Error::Timeout(within))??.bytes;
    let allow_private = endpoint.allow_private;
    large.process(text.len(), move || AgentCard::parse(&text, &url, allow_private)).await?
}
