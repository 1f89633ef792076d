//! Streamable HTTP: every request is a POST, answered by JSON or by a stream of events. In the old
//! era there is a session besides, and a stream of its own for what the server has to say.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use emergent_net::backoff::Backoff;
use parking_lot::RwLock;
use reqwest::{
    Client, Method, RequestBuilder, Response, Url,
    header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue},
};
use tokio::{sync::oneshot, task::AbortHandle};

use super::{
    ClientOptions, Error, body,
    body::Events,
    inbox::Inbox,
    transport::{Reply, Request, Transport, reply_from},
};
use crate::message::{Kind, Message};

const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
/// How often a broken stream is taken up again before its call is given up.
const MAX_RESUMES: u32 = 5;
const DEFAULT_RETRY: Duration = Duration::from_secs(1);
/// A stream that ends at once is not asked for more often than this, whatever its server wishes.
const MIN_RETRY: Duration = Duration::from_millis(500);
const MAX_RETRY: Duration = Duration::from_secs(30);
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a connection waits for the stream of what the server has to say.
const STREAM_OPEN_TIMEOUT: Duration = Duration::from_secs(2);

/// A server's address and what goes with every request to it.
#[derive(Clone)]
pub struct Endpoint {
    /// Set up by the caller, who also says which addresses may be reached.
    pub http: Client,
    pub url: Url,
    /// Values may be secret, and are marked so.
    pub headers: HeaderMap,
}

#[derive(Default, Clone)]
struct Session {
    id: Option<HeaderValue>,
    version: Option<String>,
}

pub struct HttpTransport(Arc<Shared>);

struct Shared {
    at: Endpoint,
    inbox: Arc<Inbox>,
    limit: usize,
    session: RwLock<Session>,
    listening: parking_lot::Mutex<Option<AbortHandle>>,
    closed: tokio::sync::watch::Sender<Option<Error>>,
}

impl HttpTransport {
    pub fn new(at: Endpoint, inbox: Arc<Inbox>, options: &ClientOptions) -> Self {
        Self(Arc::new(Shared {
            at,
            inbox,
            limit: options.max_message_bytes,
            session: RwLock::default(),
            listening: parking_lot::Mutex::default(),
            closed: tokio::sync::watch::channel(None).0,
        }))
    }
}

impl Shared {
    fn new_request(&self, method: Method) -> RequestBuilder {
        self.at.http.request(method, self.at.url.clone()).headers(self.at.headers.clone())
    }

    /// With what the session asks for; `None`: the version is agreed on later.
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
        let body = body::read_all(response, self.limit).await?;
        if body.is_empty() {
            return Err(Error::InvalidMessage(format!("an empty answer to `{}`", request.method)));
        }
        let message = Message::parse(&body).map_err(|error| Error::InvalidMessage(error.message))?;
        reply_from(&message, Some(status))
    }

    /// Reads until the answer to `id`. A stream of the old era that breaks off is taken up again
    /// where it was, if the server gave it places.
    async fn read_reply_stream(
        self: &Arc<Self>,
        response: Response,
        id: u64,
        modern: bool,
    ) -> Result<Reply, Error> {
        let mut events = Events::new(response, self.limit);
        let (mut last_id, mut retry) = (None, DEFAULT_RETRY);
        for _ in 0..=MAX_RESUMES {
            let broke = loop {
                match events.next().await {
                    Ok(Some(event)) => {
                        last_id = event.id.or(last_id);
                        retry = event.retry.unwrap_or(retry).min(MAX_RETRY);
                        if let Some(reply) =
                            self.handle_event(event.data.as_deref().unwrap_or_default(), Some(id))?
                        {
                            return Ok(reply);
                        }
                    }
                    Ok(None) => break Error::Lost("the stream ended before the answer".into()),
                    Err(lost @ Error::Lost(_)) => break lost,
                    Err(other) => return Err(other),
                }
            };
            let Some(last) = last_id.as_deref().filter(|_| !modern) else { return Err(broke) };
            tokio::time::sleep(retry).await;
            let get = self
                .new_request(Method::GET)
                .header(ACCEPT, "text/event-stream")
                .header("last-event-id", last);
            let response = self.with_session(get, None).send().await;
            let response = response.map_err(|error| Error::Unreachable(body::error_chain(error)))?;
            if !response.status().is_success() || !body::is_stream(&response) {
                return Err(broke);
            }
            events = Events::new(response, self.limit);
        }
        Err(Error::Lost("the stream broke off again and again".into()))
    }

    /// One event: the reply to `id` is returned, everything else is dealt with.
    fn handle_event(self: &Arc<Self>, data: &str, id: Option<u64>) -> Result<Option<Reply>, Error> {
        if data.is_empty() {
            return Ok(None);
        }
        let message =
            Message::parse(data.as_bytes()).map_err(|error| Error::InvalidMessage(error.message))?;
        if message.kind() == Kind::Response {
            let of = message.id.and_then(|id| id.get().parse::<u64>().ok());
            // An error without an id can only mean the request this stream belongs to.
            let ours = id.is_some() && (of == id || (message.id.is_none() && message.error.is_some()));
            return ours.then(|| reply_from(&message, Some(200))).transpose();
        }
        if let Some(answer) = self.inbox.handle(&message)?
            && let Some(place) = self.inbox.try_reply_permit()
        {
            let shared = Arc::clone(self);
            #[expect(
                clippy::disallowed_methods,
                reason = "nobody awaits it, but a permit limits how many there are, and a timeout how long"
            )]
            tokio::spawn(async move {
                let sent = shared.post(answer.into(), None).timeout(Duration::from_secs(30)).send().await;
                if let Err(error) = sent {
                    tracing::debug!(
                        "an answer to a server's question was not sent: {}",
                        body::error_chain(error)
                    );
                }
                drop(place);
            });
        }
        Ok(None)
    }

    /// The old era's stream for what the server says by itself. Many have none, which is fine.
    async fn listen(self: Arc<Self>, opened: oneshot::Sender<()>) {
        let (mut last_id, mut retry) = (None::<String>, DEFAULT_RETRY);
        let mut opened = Some(opened);
        let mut failures = 0;
        while failures < MAX_RESUMES {
            let mut get = self.new_request(Method::GET).header(ACCEPT, "text/event-stream");
            if let Some(last) = &last_id {
                get = get.header("last-event-id", last);
            }
            let answered = self.with_session(get, None).send().await;
            opened.take().map(|opened| opened.send(()));
            let response = match answered {
                Ok(response) if response.status().is_success() && body::is_stream(&response) => response,
                Ok(_) if last_id.is_none() => return,
                _ => {
                    failures += 1;
                    tokio::time::sleep(Backoff::new(retry, Duration::MAX).delay(failures)).await;
                    continue;
                }
            };
            let mut events = Events::new(response, self.limit);
            loop {
                match events.next().await {
                    Ok(Some(event)) => {
                        failures = 0;
                        last_id = event.id.or(last_id);
                        retry = event.retry.unwrap_or(retry).clamp(MIN_RETRY, MAX_RETRY);
                        if let Err(error) = self.handle_event(event.data.as_deref().unwrap_or_default(), None)
                        {
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

/// What an error's status and body say.
async fn error_reply(response: Response) -> Result<Reply, Error> {
    let status = response.status().as_u16();
    let body = body::read_error(response).await;
    if let Ok(message) = Message::parse(&body)
        && let Some(error) = message.error
        && status < 500
    {
        return Ok(Reply { status: Some(status), outcome: Err(error) });
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
        // What a server asks in the middle of a call comes by this stream: a call that is quicker
        // than it would never hear the question.
        let _ = tokio::time::timeout(STREAM_OPEN_TIMEOUT, open).await;
    }

    fn reset_session(&self) {
        *self.0.session.write() = Session::default();
        if let Some(old) = self.0.listening.lock().take() {
            old.abort();
        }
    }

    async fn closed(&self) -> Error {
        let mut over = self.0.closed.subscribe();
        let ended = over.wait_for(Option::is_some).await;
        ended.ok().and_then(|over| over.clone()).unwrap_or_else(|| Error::Lost("it was closed".into()))
    }

    async fn close(&self) {
        let session = self.0.session.read().clone();
        if session.id.is_some() {
            let goodbye =
                self.0.with_session(self.0.new_request(Method::DELETE), None).timeout(CLOSE_TIMEOUT);
            // The server may not care for goodbyes (405), or be gone.
            let _ = goodbye.send().await;
        }
        self.reset_session();
        self.0.closed.send_if_modified(|over| {
            over.get_or_insert_with(|| Error::Lost("it was closed".into()));
            true
        });
    }
}

impl Drop for HttpTransport {
    fn drop(&mut self) {
        self.reset_session();
    }
}
