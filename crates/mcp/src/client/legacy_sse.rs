//! HTTP with server-sent events as of 2024-11-05: one GET stream carries all messages of the server,
//! and first names the URL for our POST requests.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use reqwest::{
    Url,
    header::{ACCEPT, CONTENT_TYPE},
};
use tokio::task::AbortHandle;

use super::{
    ClientOptions, Error, body,
    body::Events,
    http::Endpoint,
    inbox::Inbox,
    pending::PendingReplies,
    transport::{Reply, Request, Transport},
};
use crate::message::{Kind, Message};

/// The maximum number of events before the one that names the URL.
const MAX_EVENTS_BEFORE_ENDPOINT: usize = 10;

pub struct LegacySseTransport {
    to: Post,
    pending: Arc<PendingReplies>,
    reading: AbortHandle,
}

#[derive(Clone)]
struct Post {
    endpoint: Endpoint,
    url: Url,
}

impl LegacySseTransport {
    pub async fn open(endpoint: Endpoint, inbox: Arc<Inbox>, options: &ClientOptions) -> Result<Self, Error> {
        let get = endpoint
            .http
            .get(endpoint.url.clone())
            .headers(endpoint.headers.clone())
            .header(ACCEPT, "text/event-stream");
        let response = get.send().await.map_err(|error| Error::Unreachable(body::error_chain(error)))?;
        let status = response.status().as_u16();
        match status {
            200..=299 if body::is_stream(&response) => {}
            200..=299 => {
                return Err(Error::InvalidMessage(
                    "the address does not respond with an event stream".into(),
                ));
            }
            401 | 403 => return Err(Error::Unauthorised(status)),
            _ => return Err(Error::Http { status, body: body::excerpt(&body::read_error(response).await) }),
        }
        let mut events = Events::new(response, options.max_message_bytes);
        let url = read_post_url(&mut events, &endpoint.url).await?;
        let (to, pending) = (Post { endpoint, url }, PendingReplies::new());
        #[expect(
            clippy::disallowed_methods,
            reason = "the transport keeps the handle, and aborts the task when it is closed or dropped"
        )]
        let reading = tokio::spawn({
            let (to, pending) = (to.clone(), Arc::clone(&pending));
            async move {
                let error = read_loop(&mut events, &to, &pending, &inbox).await;
                pending.close_with(&error);
            }
        });
        Ok(Self { to, pending, reading: reading.abort_handle() })
    }
}

async fn read_post_url(events: &mut Events, from: &Url) -> Result<Url, Error> {
    for _ in 0..MAX_EVENTS_BEFORE_ENDPOINT {
        let Some(event) = events.next().await? else { break };
        if event.event.as_deref() != Some("endpoint") {
            continue;
        }
        let url = from.join(event.data.unwrap_or_default().trim());
        let url =
            url.map_err(|error| Error::InvalidMessage(format!("an invalid URL to post to: {error}")))?;
        // Our credentials are sent to this URL, so it must have the origin of the server itself.
        if url.origin() != from.origin() {
            return Err(Error::InvalidMessage("the URL to post to has another origin".into()));
        }
        return Ok(url);
    }
    Err(Error::InvalidMessage("the stream does not name a URL to post to".into()))
}

async fn read_loop(events: &mut Events, to: &Post, pending: &PendingReplies, inbox: &Inbox) -> Error {
    loop {
        let event = match events.next().await {
            Ok(Some(event)) => event,
            Ok(None) => return Error::Lost("the stream ended".into()),
            Err(error) => return error,
        };
        let data = event.data.unwrap_or_default();
        if data.is_empty() || !matches!(event.event.as_deref(), None | Some("message")) {
            continue;
        }
        match Message::parse(data.as_bytes()) {
            Ok(message) if message.kind() == Kind::Response => pending.resolve(&message),
            Ok(message) => match inbox.handle(&message) {
                Ok(Some(answer)) => {
                    if let Some(permit) = inbox.try_reply_permit() {
                        let to = to.clone();
                        #[expect(
                            clippy::disallowed_methods,
                            reason = "nobody awaits it, but a permit limits how many there are, and a timeout how long"
                        )]
                        tokio::spawn(async move {
                            let _ = to.send(answer.into()).await;
                            drop(permit);
                        });
                    }
                }
                Ok(None) => {}
                Err(flood) => return flood,
            },
            Err(error) => return Error::InvalidMessage(error.message),
        }
    }
}

impl Post {
    async fn send(&self, text: Bytes) -> Result<(), Error> {
        let post = self.endpoint.http.post(self.url.clone()).headers(self.endpoint.headers.clone());
        let post = post.header(CONTENT_TYPE, "application/json").body(text).timeout(Duration::from_secs(30));
        let response = post.send().await.map_err(|error| Error::Unreachable(body::error_chain(error)))?;
        match response.status().as_u16() {
            200..=299 => Ok(()),
            status @ (401 | 403) => Err(Error::Unauthorised(status)),
            status => Err(Error::Http { status, body: body::excerpt(&body::read_error(response).await) }),
        }
    }
}

#[async_trait]
impl Transport for LegacySseTransport {
    async fn request(&self, request: Request) -> Result<Reply, Error> {
        let expected = self.pending.register(request.id)?;
        self.to.send(request.text).await?;
        expected.wait().await
    }

    async fn send(&self, text: Bytes, _: Option<&str>) -> Result<(), Error> {
        self.to.send(text).await
    }

    async fn closed(&self) -> Error {
        self.pending.closed().await
    }

    async fn close(&self) {
        self.reading.abort();
        self.pending.close_with(&Error::Lost("it was closed".into()));
    }
}

impl Drop for LegacySseTransport {
    fn drop(&mut self) {
        self.reading.abort();
        self.pending.close_with(&Error::Lost("it was closed".into()));
    }
}
