//! The transport "streamable HTTP". Every request is a POST, whose response is JSON or an event stream. In
//! the legacy era there is also a session, and a GET stream for messages that the server sends on its own.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use emergent_net::{backoff::Backoff, trace_context};
use parking_lot::RwLock;
use reqwest::{
    Client, Method, RequestBuilder, Response, Url,
    header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue},
};
use tokio::{sync::oneshot, task::AbortHandle};

use super::{
    ClientOptions, Error, LargeMessages, body,
    body::Events,
    inbox::{Inbox, ServerReply},
    transport::{Incoming, Reply, Request, Transport, receive, reply_from},
};
use crate::message::Message;

const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
/// How often a broken stream is resumed before its call fails.
const MAX_RESUMES: u32 = 5;
/// The delay before a stream is resumed, if the server requests none.
const DEFAULT_RETRY: Duration = Duration::from_secs(1);
/// The minimum delay before the GET stream is opened again, even if the server requests a shorter one.
const MIN_RETRY: Duration = Duration::from_millis(500);
/// The maximum delay that a server can request.
const MAX_RETRY: Duration = Duration::from_secs(30);
/// How long the request that ends a session may take.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a new connection waits until its GET stream is open.
const STREAM_OPEN_TIMEOUT: Duration = Duration::from_secs(2);
/// How long the POST of a response to a server's request may take.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);

/// The address of a server, and the headers of every request to it.
#[derive(Clone)]
pub struct Endpoint {
    /// The HTTP client, which also decides which addresses may be reached.
    pub http: Client,
    pub url: Url,
    /// Secret values are marked as sensitive.
    pub headers: HeaderMap,
}

/// The session of the legacy era; both fields are `None` without one.
#[derive(Default, Clone)]
struct Session {
    id: Option<HeaderValue>,
    version: Option<String>,
}

/// A transport to one server.
pub struct HttpTransport(Arc<Shared>);

/// The state that requests and the task of the GET stream share.
struct Shared {
    endpoint: Endpoint,
    inbox: Arc<Inbox>,
    max_message_bytes: usize,
    large: LargeMessages,
    session: RwLock<Session>,
    /// The task that reads the GET stream of a session.
    listening: parking_lot::Mutex<Option<AbortHandle>>,
    /// The reason why the connection was closed; `None` while it is open.
    closed: tokio::sync::watch::Sender<Option<Error>>,
}

impl HttpTransport {
    pub fn new(endpoint: Endpoint, inbox: Arc<Inbox>, options: &ClientOptions) -> Self {
        Self(Arc::new(Shared {
            endpoint,
            inbox,
            max_message_bytes: options.max_message_bytes,
            large: options.large_messages.clone(),
            session: RwLock::default(),
            listening: parking_lot::Mutex::default(),
            closed: tokio::sync::watch::channel(None).0,
        }))
    }
}

impl Shared {
    fn new_request(&self, method: Method) -> RequestBuilder {
        self.endpoint.http.request(method, self.endpoint.url.clone()).headers(self.endpoint.headers.clone())
    }

    /// Adds the headers of the session. `version` takes precedence over the version of the session; without
    /// either, the request has no version.
    fn with_session(&self, mut request: RequestBuilder, version: Option<&str>) -> RequestBuilder {
        let session = self.session.read();
        if let Some(version) = version.or(session.version.as_deref()) {
            request = request.header(VERSION, version);
        }
        match &session.id {
            Some(id) => request.header(SESSION, id.clone()),
            None => request,
        }
    }

    fn post(&self, text: Bytes, version: Option<&str>) -> RequestBuilder {
        let request = self
            .new_request(Method::POST)
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json, text/event-stream")
            .body(text);
        self.with_session(request, version)
    }

    async fn request(self: &Arc<Self>, request: Request) -> Result<Reply, Error> {
        let mut post = self.post(request.text, request.version.as_deref());
        if request.modern {
            post = post.header(METHOD, &request.method);
        }
        for (name, value) in &request.headers {
            post = post.header(name, value);
        }
        if let Some(context) = trace_context::outgoing() {
            post = post.header(trace_context::TRACEPARENT, context);
        }
        let response = post.send().await.map_err(|error| Error::Unreachable(body::error_chain(error)))?;
        let status = response.status().as_u16();
        match status {
            200..=299 => {}
            401 | 403 => return Err(Error::Unauthorised(status)),
            404 if !request.modern && self.session.read().id.is_some() => return Err(Error::SessionGone),
            _ => return error_reply(response).await,
        }
        if request.method == "initialize" {
            self.session.write().id = response.headers().get(SESSION).cloned();
        }
        if body::is_stream(&response) {
            return self.read_reply_stream(response, request.id, request.modern).await;
        }
        let body = body::read_all(response, self.max_message_bytes, &self.large).await?;
        if body.bytes.is_empty() {
            return Err(Error::InvalidMessage(format!("an empty response to `{}`", request.method)));
        }
        let body_bytes = body.bytes.len();
        let parse = move || {
            let message = Message::parse(&body.bytes)
                .map_err(|error| Error::InvalidMessage(body::quoted(error.message)))?;
            let reply = reply_from(&message, Some(status))?;
            Ok(Reply { held: body.held, ..reply })
        };
        self.large.process(body_bytes, parse).await?
    }

    fn events(&self, response: Response) -> Events {
        Events::new(response, self.max_message_bytes, self.large.clone())
    }

    /// Reads a stream until the response to `id`. A broken stream of the legacy era is resumed after its last
    /// event, if the server's events have ids.
    async fn read_reply_stream(
        self: &Arc<Self>,
        response: Response,
        id: u64,
        modern: bool,
    ) -> Result<Reply, Error> {
        let mut events = self.events(response);
        let (mut last_id, mut retry) = (None, DEFAULT_RETRY);
        for _ in 0..=MAX_RESUMES {
            let stream_error = loop {
                match events.next().await {
                    Ok(Some(event)) => {
                        last_id = event.id.or(last_id);
                        retry = event.retry.unwrap_or(retry).min(MAX_RETRY);
                        let held = events.take_held();
                        if let Some(reply) =
                            self.handle_event(event.data.unwrap_or_default(), Some(id)).await?
                        {
                            return Ok(Reply { held, ..reply });
                        }
                    }
                    Ok(None) => break Error::Lost("the stream ended before the response".into()),
                    Err(lost @ Error::Lost(_)) => break lost,
                    Err(other) => return Err(other),
                }
            };
            let Some(last) = last_id.as_deref().filter(|_| !modern) else { return Err(stream_error) };
            tokio::time::sleep(retry).await;
            let get = self
                .new_request(Method::GET)
                .header(ACCEPT, "text/event-stream")
                .header("last-event-id", last);
            let response = self.with_session(get, None).send().await;
            let response = response.map_err(|error| Error::Unreachable(body::error_chain(error)))?;
            if !response.status().is_success() || !body::is_stream(&response) {
                return Err(stream_error);
            }
            events = self.events(response);
        }
        Err(Error::Lost(format!("the stream broke {} times", MAX_RESUMES + 1)))
    }

    /// Handles the data of one event. Returns the response to `id`; other responses are dropped, and requests
    /// and notifications of the server are handled.
    async fn handle_event(self: &Arc<Self>, data: String, id: Option<u64>) -> Result<Option<Reply>, Error> {
        if data.is_empty() {
            return Ok(None);
        }
        let (bytes, inbox) = (data.len(), Arc::clone(&self.inbox));
        let received =
            self.large.process(bytes, move || receive(data.as_bytes(), &inbox, Some(200), id)).await?;
        let response = match received.map_err(Error::InvalidMessage)? {
            Incoming::Response { id: response_id, reply } => {
                // An error without an id can only be about the request that this stream belongs to.
                let is_error = reply.as_ref().is_ok_and(|reply| reply.outcome.is_err());
                let is_expected = id.is_some() && (response_id == id || (response_id.is_none() && is_error));
                return if is_expected { reply.map(Some) } else { Ok(None) };
            }
            Incoming::Handled(response) => response?,
        };
        match response {
            Some(ServerReply::Ready(response)) => {
                if let Some(permit) = self.inbox.try_reply_permit() {
                    let shared = Arc::clone(self);
                    #[expect(
                        clippy::disallowed_methods,
                        reason = "not awaited; permits limit the number of such tasks, and a timeout their duration"
                    )]
                    tokio::spawn(async move {
                        shared.post_response(response).await;
                        drop(permit);
                    });
                }
            }
            Some(ServerReply::Later(reply)) => {
                let shared = Arc::clone(self);
                #[expect(
                    clippy::disallowed_methods,
                    reason = "it ends with the call that the request belongs to, and the number of such requests is limited"
                )]
                tokio::spawn(async move {
                    if let Some(response) = reply.await {
                        shared.post_response(response).await;
                    }
                });
            }
            None => {}
        }
        Ok(None)
    }

    /// Sends the response to a request of the server.
    async fn post_response(&self, response: Vec<u8>) {
        let sent = self.post(response.into(), None).timeout(RESPONSE_TIMEOUT).send().await;
        if let Err(error) = sent {
            tracing::debug!(
                "could not send the response to a server's request: {}",
                body::error_chain(error)
            );
        }
    }

    /// Reads the GET stream of a legacy session until it breaks too often. Many servers have no such stream,
    /// which is not an error. `opened` is notified once the server has responded.
    async fn listen(self: Arc<Self>, opened: oneshot::Sender<()>) {
        let (mut last_id, mut retry) = (None::<String>, DEFAULT_RETRY);
        let mut opened = Some(opened);
        let mut failures = 0;
        while failures < MAX_RESUMES {
            let mut get = self.new_request(Method::GET).header(ACCEPT, "text/event-stream");
            if let Some(last) = &last_id {
                get = get.header("last-event-id", last);
            }
            let result = self.with_session(get, None).send().await;
            opened.take().map(|opened| opened.send(()));
            let response = match result {
                Ok(response) if response.status().is_success() && body::is_stream(&response) => response,
                Ok(_) if last_id.is_none() => return,
                _ => {
                    failures += 1;
                    tokio::time::sleep(Backoff::new(retry, Duration::MAX).delay(failures)).await;
                    continue;
                }
            };
            let mut events = self.events(response);
            loop {
                match events.next().await {
                    Ok(Some(event)) => {
                        failures = 0;
                        last_id = event.id.or(last_id);
                        retry = event.retry.unwrap_or(retry).clamp(MIN_RETRY, MAX_RETRY);
                        let _held = events.take_held();
                        let handled = self.handle_event(event.data.unwrap_or_default(), None).await;
                        if let Err(error) = handled {
                            self.closed.send_replace(Some(error));
                            return;
                        }
                    }
                    Ok(None) | Err(Error::Lost(_)) => break,
                    Err(error) => {
                        self.closed.send_replace(Some(error));
                        return;
                    }
                }
            }
            failures += 1;
            tokio::time::sleep(retry).await;
        }
    }
}

/// Returns the JSON-RPC error in the body of an error response, or an error with the status if there is none.
async fn error_reply(response: Response) -> Result<Reply, Error> {
    let status = response.status().as_u16();
    let body = body::read_error(response).await;
    if let Ok(message) = Message::parse(&body)
        && let Some(error) = message.error
        && status < 500
    {
        return Ok(Reply { status: Some(status), outcome: Err(error), held: None });
    }
    Err(Error::Http { status, body: body::excerpt(&body) })
}

#[async_trait]
impl Transport for HttpTransport {
    async fn request(&self, request: Request) -> Result<Reply, Error> {
        self.0.request(request).await
    }

    async fn send(&self, text: Bytes, version: Option<&str>) -> Result<(), Error> {
        let sent = self.0.post(text, version).send().await;
        let response = sent.map_err(|error| Error::Unreachable(body::error_chain(error)))?;
        match response.status().as_u16() {
            200..=299 => Ok(()),
            status => Err(Error::Http { status, body: body::excerpt(&body::read_error(response).await) }),
        }
    }

    fn cancels_on_drop(&self) -> bool {
        true
    }

    async fn on_initialized(&self, version: &str) {
        self.0.session.write().version = Some(version.to_owned());
        let (opened, open) = oneshot::channel();
        #[expect(
            clippy::disallowed_methods,
            reason = "the transport keeps the handle, and aborts the task with the session"
        )]
        let listening = tokio::spawn(Arc::clone(&self.0).listen(opened)).abort_handle();
        if let Some(old) = self.0.listening.lock().replace(listening) {
            old.abort();
        }
        // Requests of the server during a call arrive on this stream, so it has to be open before the first
        // call.
        let _ = tokio::time::timeout(STREAM_OPEN_TIMEOUT, open).await;
    }

    fn reset_session(&self) {
        *self.0.session.write() = Session::default();
        if let Some(old) = self.0.listening.lock().take() {
            old.abort();
        }
    }

    async fn closed(&self) -> Error {
        let mut closed = self.0.closed.subscribe();
        let error = closed.wait_for(Option::is_some).await;
        error.ok().and_then(|error| error.clone()).unwrap_or_else(connection_closed)
    }

    async fn close(&self) {
        let session = self.0.session.read().clone();
        if session.id.is_some() {
            let end_session =
                self.0.with_session(self.0.new_request(Method::DELETE), None).timeout(CLOSE_TIMEOUT);
            // The server may not support this (405), or may be unreachable.
            let _ = end_session.send().await;
        }
        self.reset_session();
        self.0.closed.send_if_modified(|closed| {
            closed.get_or_insert_with(connection_closed);
            true
        });
    }
}

fn connection_closed() -> Error {
    Error::Lost("the connection was closed".into())
}

impl Drop for HttpTransport {
    fn drop(&mut self) {
        self.reset_session();
    }
}
