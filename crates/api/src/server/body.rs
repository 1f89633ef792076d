//! Wrappers of HTTP bodies: a request body with a deadline for each part, and response bodies that count their
//! request as in progress and notice whether the client accepts them.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use axum::body::{Body, Bytes, HttpBody};
use http_body::{Frame, SizeHint};
use hyper::body::Incoming;
use tokio::time::{Instant, Sleep, sleep};

use super::connections::Busy;

/// The failure of reading a request body.
#[derive(Debug, thiserror::Error)]
pub enum BodyError {
    #[error("no part of the body arrived for {} seconds", .0.as_secs())]
    TooSlow(Duration),
    #[error(transparent)]
    Http(#[from] hyper::Error),
}

/// A request body that fails if its next part does not arrive within `part_timeout`.
pub struct TimedBody {
    body: Incoming,
    part_timeout: Duration,
    /// Created when a part is first waited for. Most bodies never need one, because they arrive with the
    /// header or are empty.
    deadline: Option<Pin<Box<Sleep>>>,
}

impl TimedBody {
    pub fn new(body: Incoming, part_timeout: Duration) -> Self {
        Self { body, part_timeout, deadline: None }
    }
}

impl HttpBody for TimedBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = &mut *self;
        if let Poll::Ready(frame) = Pin::new(&mut this.body).poll_frame(context) {
            if let Some(deadline) = &mut this.deadline {
                deadline.as_mut().reset(Instant::now() + this.part_timeout);
            }
            return Poll::Ready(frame.map(|frame| frame.map_err(BodyError::from)));
        }
        let part_timeout = this.part_timeout;
        let deadline = this.deadline.get_or_insert_with(|| Box::pin(sleep(part_timeout)));
        ready!(deadline.as_mut().poll(context));
        Poll::Ready(Some(Err(BodyError::TooSlow(part_timeout))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A response body. Its request counts as in progress until the body is dropped.
pub struct BusyBody {
    body: Body,
    #[expect(dead_code, reason = "dropping it ends the count")]
    busy: Busy,
}

impl BusyBody {
    pub fn new(body: Body, busy: Busy) -> Self {
        Self { body, busy }
    }
}

impl HttpBody for BusyBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The maximum size of the parts of a response over HTTP/2. Each part has to be accepted before the deadline, so a
/// slow client can receive small parts but not a large one.
const MAX_PART: usize = 64 << 10;

/// A response body over HTTP/2, which is passed on in small parts. While a part is not accepted by the client, the
/// connection knows since when.
pub struct WatchedBody {
    body: Body,
    busy: Busy,
    /// The remainder of a large part.
    remainder: Bytes,
}

impl WatchedBody {
    pub fn new(body: Body, mut busy: Busy) -> Self {
        busy.begin_sending();
        Self { body, busy, remainder: Bytes::new() }
    }
}

impl HttpBody for WatchedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = &mut *self;
        if this.remainder.is_empty() {
            let frame = match Pin::new(&mut this.body).poll_frame(context) {
                Poll::Ready(frame) => frame,
                Poll::Pending => {
                    // The client has accepted everything so far.
                    this.busy.end_sending();
                    return Poll::Pending;
                }
            };
            this.busy.begin_sending();
            match frame {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => this.remainder = data,
                    Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
                },
                end => return Poll::Ready(end),
            }
        }
        this.busy.begin_sending();
        let part = this.remainder.split_to(this.remainder.len().min(MAX_PART));
        Poll::Ready(Some(Ok(Frame::data(part))))
    }

    fn is_end_stream(&self) -> bool {
        self.remainder.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (mut hint, remainder) = (self.body.size_hint(), self.remainder.len() as u64);
        if let Some(upper) = hint.upper() {
            hint.set_upper(upper + remainder);
        }
        hint.set_lower(hint.lower() + remainder);
        hint
    }
}
