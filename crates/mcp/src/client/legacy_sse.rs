//! The transport "HTTP with server-sent events" of 2024-11-05. One GET stream carries all messages of the
//! server; its first event names the URL for our POST requests.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use reqwest::{
    Url,
    header::{ACCEPT, CONTENT_TYPE},
};
use tokio::task::AbortHandle;

use super::{
    ClientOptions, Error, LargeMessages, body,
    body::Events,
    http::Endpoint,
    inbox::{Inbox, ServerReply},
    pending::PendingReplies,
    transport::{Incoming, Reply, Request, Transport, receive},
};

/// The maximum number of events before the one that names the URL.
const MAX_EVENTS_BEFORE_ENDPOINT: usize = 10;

const POST_TIMEOUT: Duration = Duration::from_secs(30);

/// An open connection.
pub struct LegacySseTransport {
    post: PostTarget,
    pending: Arc<PendingReplies>,
    /// The task that reads the stream.
    reading: AbortHandle,
}

/// Where messages to the server are posted.
#[derive(Clone)]
struct PostTarget {
    endpoint: Endpoint,
    /// The URL that the server named; `endpoint.url` is the URL of the stream.
    url: Url,
}

impl LegacySseTransport {
    /// Opens the stream and waits for the URL to post to.
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
        let large = options.large_messages.clone();
        let mut events = Events::new(response, options.max_message_bytes, large.clone());
        let url = read_post_url(&mut events, &endpoint.url).await?;
        let (post, pending) = (PostTarget { endpoint, url }, PendingReplies::new());
        #[expect(
            clippy::disallowed_methods,
            reason = "the transport keeps the handle, and aborts the task when it is closed or dropped"
        )]
        let reading = tokio::spawn({
            let (post, pending) = (post.clone(), Arc::clone(&pending));
            async move {
                let error = read_loop(&mut events, &post, &pending, &inbox, &large).await;
                pending.close_with(&error);
            }
        });
        Ok(Self { post, pending, reading: reading.abort_handle() })
    }
}

/// Waits for the event that names the URL to post to. `stream_url` is the URL of the stream itself.
async fn read_post_url(events: &mut Events, stream_url: &Url) -> Result<Url, Error> {
    for _ in 0..MAX_EVENTS_BEFORE_ENDPOINT {
        let Some(event) = events.next().await? else { break };
        if event.event.as_deref() != Some("endpoint") {
            continue;
        }
        let url = stream_url.join(event.data.unwrap_or_default().trim());
        let url =
            url.map_err(|error| Error::InvalidMessage(format!("an invalid URL to post to: {error}")))?;
        // Our credentials are sent to this URL, so it must have the origin of the server itself.
        if url.origin() != stream_url.origin() {
            return Err(Error::InvalidMessage("the URL to post to has another origin".into()));
        }
        return Ok(url);
    }
    Err(Error::InvalidMessage("the stream does not name a URL to post to".into()))
}

/// Reads messages until the stream ends; returns the reason.
async fn read_loop(
    events: &mut Events,
    post: &PostTarget,
    pending: &PendingReplies,
    inbox: &Arc<Inbox>,
    large: &LargeMessages,
) -> Error {
    loop {
        let event = match events.next().await {
            Ok(Some(event)) => event,
            Ok(None) => return Error::Lost("the stream ended".into()),
            Err(error) => return error,
        };
        let (held, data) = (events.take_held(), event.data.unwrap_or_default());
        if data.is_empty() || !matches!(event.event.as_deref(), None | Some("message")) {
            continue;
        }
        let (bytes, handler) = (data.len(), Arc::clone(inbox));
        let received = large.process(bytes, move || receive(data.as_bytes(), &handler, None, None)).await;
        match received.map_err(Error::from).and_then(|received| received.map_err(Error::InvalidMessage)) {
            Ok(Incoming::Response { id, reply }) => {
                pending.resolve(id, reply.map(|reply| Reply { held, ..reply }));
            }
            Ok(Incoming::Handled(handled)) => match handled {
                Ok(Some(reply)) => send_reply(post, inbox, reply),
                Ok(None) => {}
                Err(flood) => return flood,
            },
            Err(error) => return error,
        }
    }
}

/// Sends the response to a request of the server, in a task of its own.
#[expect(
    clippy::disallowed_methods,
    reason = "not awaited; permits limit the number of such tasks, and a timeout or their call limits their duration"
)]
fn send_reply(post: &PostTarget, inbox: &Inbox, reply: ServerReply) {
    let post = post.clone();
    match reply {
        ServerReply::Ready(response) => {
            let Some(permit) = inbox.try_reply_permit() else { return };
            tokio::spawn(async move {
                let _ = post.send(response.into()).await;
                drop(permit);
            });
        }
        ServerReply::Later(reply) => {
            tokio::spawn(async move {
                if let Some(response) = reply.await {
                    let _ = post.send(response.into()).await;
                }
            });
        }
    }
}

impl PostTarget {
    async fn send(&self, text: Bytes) -> Result<(), Error> {
        let post = self.endpoint.http.post(self.url.clone()).headers(self.endpoint.headers.clone());
        let post = post.header(CONTENT_TYPE, "application/json").body(text).timeout(POST_TIMEOUT);
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
        let pending_reply = self.pending.register(request.id)?;
        self.post.send(request.text).await?;
        pending_reply.wait().await
    }

    async fn send(&self, text: Bytes, _: Option<&str>) -> Result<(), Error> {
        self.post.send(text).await
    }

    async fn closed(&self) -> Error {
        self.pending.closed().await
    }

    async fn close(&self) {
        self.reading.abort();
        self.pending.close_with(&Error::Lost("the connection was closed".into()));
    }
}

impl Drop for LegacySseTransport {
    fn drop(&mut self) {
        self.reading.abort();
        self.pending.close_with(&Error::Lost("the connection was closed".into()));
    }
}
