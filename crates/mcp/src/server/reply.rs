//! The response to a request, independent of HTTP: JSON, or an event stream if messages precede the
//! result or the result takes long.

use std::{collections::VecDeque, pin::Pin, time::Duration};

use bytes::Bytes;
use futures_util::{StreamExt, stream, stream::BoxStream};
use serde_json::value::RawValue;
use tokio::sync::mpsc;

use super::{Era, Fault, response};
use crate::message::RpcError;

/// A response that takes longer becomes a stream, so that no proxy times out.
const STREAM_AFTER: Duration = Duration::from_secs(5);
/// A stream without messages sends a comment at this interval, so that no proxy closes it.
pub(super) const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// A response before it is turned into HTTP.
pub struct Reply {
    pub status: u16,
    /// The value of the header `Mcp-Session-Id`.
    pub session: Option<String>,
    /// The value of the header `WWW-Authenticate`.
    pub challenge: Option<String>,
    pub body: ReplyBody,
}

pub enum ReplyBody {
    Empty,
    Json(Bytes),
    /// The frames of an event stream that ends with the result. Dropping it cancels the request.
    Events(BoxStream<'static, Bytes>),
    /// The frames of change notifications, for as long as the client listens.
    Changes(BoxStream<'static, Bytes>),
}

impl Reply {
    pub(super) fn json(status: u16, text: Bytes) -> Self {
        Self { status, session: None, challenge: None, body: ReplyBody::Json(text) }
    }

    pub(super) fn empty(status: u16) -> Self {
        Self { status, session: None, challenge: None, body: ReplyBody::Empty }
    }

    pub(super) fn events(frames: BoxStream<'static, Bytes>) -> Self {
        Self { status: 200, session: None, challenge: None, body: ReplyBody::Events(frames) }
    }

    pub(super) fn changes(frames: BoxStream<'static, Bytes>) -> Self {
        Self { status: 200, session: None, challenge: None, body: ReplyBody::Changes(frames) }
    }

    pub(super) fn error(status: u16, id: Option<&RawValue>, error: &RpcError) -> Self {
        Self::json(status, response::error_text(id, error))
    }

    pub(super) fn fault(id: &RawValue, era: Era, fault: &Fault) -> Self {
        let (status, error) = fault.to_rpc_error(era);
        Self { challenge: fault.challenge(), ..Self::error(status, Some(id), &error) }
    }
}

/// The work that ends in a reply; `None` if the client cancelled its request.
pub(super) type ReplyFuture = Pin<Box<dyn Future<Output = Option<Reply>> + Send>>;

/// Returns the result as plain JSON if it comes first. A frame before it, or a long wait, turns the reply
/// into an event stream that ends with the result.
pub(super) async fn reply_or_stream(mut work: ReplyFuture, mut frames: mpsc::Receiver<Bytes>) -> Reply {
    let mut ready = VecDeque::new();
    tokio::select! {
        biased;
        outcome = &mut work => {
            // Frames that were sent just before the result are delivered before it.
            while let Ok(frame) = frames.try_recv() {
                ready.push_back(frame);
            }
            match outcome {
                None => return Reply::empty(202),
                Some(reply) if ready.is_empty() => return reply,
                Some(reply) => ready.extend(reply.as_frame()),
            }
            return Reply::events(stream::iter(ready).boxed());
        }
        Some(frame) = frames.recv() => ready.push_back(frame),
        () = tokio::time::sleep(STREAM_AFTER) => ready.push_back(response::KEEP_ALIVE_FRAME),
    }
    let reply_stream = ReplyStream { work: Some(work), frames, ready };
    let next_frame =
        |mut reply_stream: ReplyStream| async move { Some((reply_stream.next().await?, reply_stream)) };
    Reply::events(stream::unfold(reply_stream, next_frame).boxed())
}

/// The rest of a reply that has become an event stream.
struct ReplyStream {
    /// `None` once the result is there.
    work: Option<ReplyFuture>,
    frames: mpsc::Receiver<Bytes>,
    /// Frames to send before anything is awaited.
    ready: VecDeque<Bytes>,
}

impl ReplyStream {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(frame) = self.ready.pop_front() {
                return Some(frame);
            }
            let work = self.work.as_mut()?;
            tokio::select! {
                biased;
                Some(frame) = self.frames.recv() => return Some(frame),
                outcome = work => {
                    self.work = None;
                    while let Ok(frame) = self.frames.try_recv() {
                        self.ready.push_back(frame);
                    }
                    self.ready.extend(outcome.and_then(|reply| reply.as_frame()));
                }
                () = tokio::time::sleep(KEEP_ALIVE) => return Some(response::KEEP_ALIVE_FRAME),
            }
        }
    }
}

impl Reply {
    /// Returns the reply as the last frame of a stream, whose status has already been sent; `None` if it has
    /// no JSON.
    fn as_frame(&self) -> Option<Bytes> {
        match &self.body {
            ReplyBody::Json(text) => Some(response::sse_frame(text)),
            _ => None,
        }
    }
}
