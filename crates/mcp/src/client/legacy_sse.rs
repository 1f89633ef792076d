//! HTTP with server-sent events, as of 2024-11-05: one GET stream brings every message, and tells
//! first where to POST ours.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use reqwest::{
    Url,
    header::{ACCEPT, CONTENT_TYPE},
};
use tokio::task::AbortHandle;

use super::{
    Error, Options, body,
    body::Events,
    http::Endpoint,
    inbox::Inbox,
    pending::Pending,
    transport::{Reply, Request, Transport},
};
use crate::message::{Kind, Message};

/// Events before the one that says where to POST.
const MOST_BEFORE: usize = 10;

pub struct LegacySse {
    to: Post,
    pending: Arc<Pending>,
    reading: AbortHandle,
}

#[derive(Clone)]
struct Post {
    at: Endpoint,
    url: Url,
}

impl LegacySse {
    pub async fn open(at: Endpoint, inbox: Arc<Inbox>, options: &Options) -> Result<Self, Error> {
        let get = at.http.get(at.url.clone()).headers(at.headers.clone()).header(ACCEPT, "text/event-stream");
        let response = get.send().await.map_err(|error| Error::Unreachable(body::cause(error)))?;
        let status = response.status().as_u16();
        match status {
            200..=299 if body::is_stream(&response) => {}
            200..=299 => {
                return Err(Error::Garbage("the address answers with something else than events".into()));
            }
            401 | 403 => return Err(Error::Unauthorised(status)),
            _ => return Err(Error::Http { status, body: body::words(&body::of_error(response).await) }),
        }
        let mut events = Events::new(response, options.most_bytes);
        let url = where_to_post(&mut events, &at.url).await?;
        let (to, pending) = (Post { at, url }, Pending::new());
        let reading = tokio::spawn({
            let (to, pending) = (to.clone(), Arc::clone(&pending));
            async move {
                let why = read(&mut events, &to, &pending, &inbox).await;
                pending.end(&why);
            }
        });
        Ok(Self { to, pending, reading: reading.abort_handle() })
    }
}

async fn where_to_post(events: &mut Events, from: &Url) -> Result<Url, Error> {
    for _ in 0..MOST_BEFORE {
        let Some(event) = events.next().await? else { break };
        if event.event.as_deref() != Some("endpoint") {
            continue;
        }
        let url = from.join(event.data.unwrap_or_default().trim());
        let url = url.map_err(|error| Error::Garbage(format!("no address to post to: {error}")))?;
        // Our credentials go there: nobody but the server itself gets to name another place.
        if url.origin() != from.origin() {
            return Err(Error::Garbage("the address to post to is another server's".into()));
        }
        return Ok(url);
    }
    Err(Error::Garbage("the stream does not say where to post".into()))
}

async fn read(events: &mut Events, to: &Post, pending: &Pending, inbox: &Inbox) -> Error {
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
            Ok(message) if message.kind() == Kind::Response => pending.answer(&message),
            Ok(message) => match inbox.take(&message) {
                Ok(Some(answer)) => {
                    if let Some(place) = inbox.may_answer() {
                        let to = to.clone();
                        tokio::spawn(async move {
                            let _ = to.send(answer.into()).await;
                            drop(place);
                        });
                    }
                }
                Ok(None) => {}
                Err(flood) => return flood,
            },
            Err(error) => return Error::Garbage(error.message),
        }
    }
}

impl Post {
    async fn send(&self, text: Bytes) -> Result<(), Error> {
        let post = self.at.http.post(self.url.clone()).headers(self.at.headers.clone());
        let post = post.header(CONTENT_TYPE, "application/json").body(text).timeout(Duration::from_secs(30));
        let response = post.send().await.map_err(|error| Error::Unreachable(body::cause(error)))?;
        match response.status().as_u16() {
            200..=299 => Ok(()),
            status @ (401 | 403) => Err(Error::Unauthorised(status)),
            status => Err(Error::Http { status, body: body::words(&body::of_error(response).await) }),
        }
    }
}

#[async_trait]
impl Transport for LegacySse {
    async fn request(&self, request: Request) -> Result<Reply, Error> {
        let expected = self.pending.expect(request.id)?;
        self.to.send(request.text).await?;
        expected.answer().await
    }

    async fn send(&self, text: Bytes, _: Option<&str>) -> Result<(), Error> {
        self.to.send(text).await
    }

    async fn closed(&self) -> Error {
        self.pending.closed().await
    }

    async fn close(&self) {
        self.reading.abort();
        self.pending.end(&Error::Lost("it was closed".into()));
    }
}

impl Drop for LegacySse {
    fn drop(&mut self) {
        self.reading.abort();
        self.pending.end(&Error::Lost("it was closed".into()));
    }
}
