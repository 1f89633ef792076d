//! Bodies with a deadline, and bodies that keep their connection from counting as idle.

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

#[derive(Debug, thiserror::Error)]
pub enum BodyError {
    #[error("no part of the body arrived for {} seconds", .0.as_secs())]
    TooSlow(Duration),
    #[error(transparent)]
    Http(#[from] hyper::Error),
}

/// A request's body that ends with an error when its next part does not come in time.
pub struct TimedBody {
    body: Incoming,
    patience: Duration,
    /// Made when a part is first waited for: most bodies are there already, or empty.
    deadline: Option<Pin<Box<Sleep>>>,
}

impl TimedBody {
    pub fn new(body: Incoming, patience: Duration) -> Self {
        Self { body, patience, deadline: None }
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
                deadline.as_mut().reset(Instant::now() + this.patience);
            }
            return Poll::Ready(frame.map(|frame| frame.map_err(BodyError::from)));
        }
        let patience = this.patience;
        let deadline = this.deadline.get_or_insert_with(|| Box::pin(sleep(patience)));
        ready!(deadline.as_mut().poll(context));
        Poll::Ready(Some(Err(BodyError::TooSlow(patience))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A response's body. Its request counts as in progress until the body is dropped.
pub struct BusyBody {
    body: Body,
    #[expect(dead_code, reason = "held, not used")]
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
