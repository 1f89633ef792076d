//! Limits the memory of answers that their clients have not read yet.
//!
//! An answer is built in memory, and stays there until its client has received it. A client that requests many
//! large answers and reads none must not use up the memory of the server.

use std::{
    pin::Pin,
    task::{Context, Poll, Waker, ready},
};

use axum::{
    body::{Body, Bytes, HttpBody},
    response::{IntoResponse, Response},
};
use emergent_store::requester::Requester;
use http_body::Frame;
use serde_json::json;

use crate::{
    ApiError,
    byte_budget::{ByteBudget, Exceeded, HeldBytes},
};

/// Smaller answers are not counted: the limit of requests is sufficient for them.
const MIN_COUNTED: usize = 64 << 10;
/// Smaller frames of streams are not counted. A connection holds few of them.
const MIN_COUNTED_FRAME: usize = 8 << 10;

/// The bytes of answers in memory, in total and by requester.
pub(crate) struct AnswerMemory {
    budget: ByteBudget,
}

impl AnswerMemory {
    pub(crate) fn new(max_total: usize) -> Self {
        Self { budget: ByteBudget::new(max_total) }
    }

    /// Counts the answer until its client has received it. If the limit is reached, the answer is dropped and
    /// replaced by an error.
    pub(crate) fn count(&self, mut answer: Response, requester: Requester) -> Response {
        let is_counted = answer.body().size_hint().exact().is_some_and(|size| size >= MIN_COUNTED as u64);
        let Some(data) = is_counted.then(|| take_data(answer.body_mut())).flatten() else { return answer };
        match self.budget.hold(requester, data.len()) {
            Ok(held) => {
                *answer.body_mut() = Body::from(Bytes::from_owner(HeldData { data, _held: held }));
                answer
            }
            Err(exceeded) => unread_answers(&exceeded).into_response(),
        }
    }

    /// Counts each large frame of an event stream until its client has received it. If the limit is reached, the
    /// stream ends with an error. Its client may continue after the last event that it has received.
    pub(crate) fn count_frames(&self, frames: Body, requester: Requester) -> Body {
        Body::new(CountedFrames { frames, budget: self.budget.clone(), requester, has_ended: false })
    }
}

fn unread_answers(exceeded: &Exceeded) -> ApiError {
    ApiError::unread_answers(exceeded.owner, exceeded.limit)
}

/// The body of an event stream. Its large frames are counted.
struct CountedFrames {
    frames: Body,
    budget: ByteBudget,
    requester: Requester,
    has_ended: bool,
}

impl HttpBody for CountedFrames {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = &mut *self;
        if this.has_ended {
            return Poll::Ready(None);
        }
        let frame = match ready!(Pin::new(&mut this.frames).poll_frame(context)) {
            Some(Ok(frame)) => frame,
            end => return Poll::Ready(end),
        };
        let data = match frame.into_data() {
            Ok(data) if data.len() >= MIN_COUNTED_FRAME => data,
            Ok(small) => return Poll::Ready(Some(Ok(Frame::data(small)))),
            Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
        };
        let data = match this.budget.hold(this.requester, data.len()) {
            Ok(held) => Bytes::from_owner(HeldData { data, _held: held }),
            Err(exceeded) => {
                this.has_ended = true;
                this.frames = Body::empty();
                let error = unread_answers(&exceeded).into_body();
                Bytes::from(format!("data: {}\n\n", json!({ "type": "error", "error": error })))
            }
        };
        Poll::Ready(Some(Ok(Frame::data(data))))
    }
}

/// Takes the data of a body that is completely in memory; `None` leaves the body unchanged.
fn take_data(body: &mut Body) -> Option<Bytes> {
    let mut context = Context::from_waker(Waker::noop());
    match Pin::new(body).poll_frame(&mut context) {
        Poll::Ready(Some(Ok(frame))) => frame.into_data().ok(),
        _ => None,
    }
}

/// The data of an answer, which is counted until the last part of it was sent.
struct HeldData {
    data: Bytes,
    _held: HeldBytes,
}

impl AsRef<[u8]> for HeldData {
    fn as_ref(&self) -> &[u8] {
        &self.data
    }
}

#[cfg(test)]
mod tests {
    use axum::body::to_bytes;
    use emergent_domain::ids::ProjectId;

    use super::*;

    fn answer(bytes: usize) -> Response {
        Response::new(Body::from(vec![b'x'; bytes]))
    }

    #[tokio::test]
    async fn unread_answers_of_one_project_leave_room_for_others() {
        let memory = AnswerMemory::new(4 * MIN_COUNTED);
        let (one, two) = (Requester::Project(ProjectId::new()), Requester::Project(ProjectId::new()));
        let unread: Vec<Response> = (0..2).map(|_| memory.count(answer(MIN_COUNTED), one)).collect();
        assert!(unread.iter().all(|answer| answer.status() == 200));
        assert_eq!(memory.count(answer(MIN_COUNTED), one).status(), 429);
        assert_eq!(memory.count(answer(100), one).status(), 200, "small answers are not counted");
        let other = memory.count(answer(MIN_COUNTED), two);
        assert_eq!(to_bytes(other.into_body(), usize::MAX).await.unwrap().len(), MIN_COUNTED);
        drop(unread);
        assert!(memory.budget.is_unused());
        assert_eq!(memory.count(answer(9 * MIN_COUNTED), one).status(), 200, "a single large answer is sent");
    }

    #[tokio::test]
    async fn large_frames_of_a_stream_that_nobody_reads_are_counted() {
        let memory = AnswerMemory::new(4 * MIN_COUNTED);
        let project = Requester::Project(ProjectId::new());
        let stream = || memory.count_frames(Body::from(vec![b'x'; MIN_COUNTED]), project);
        let mut streams = [stream(), stream(), stream()];
        let mut frames = Vec::new();
        for stream in &mut streams {
            let frame = std::future::poll_fn(|context| Pin::new(&mut *stream).poll_frame(context)).await;
            frames.push(frame.unwrap().unwrap().into_data().unwrap());
        }
        assert_eq!((frames[0].len(), frames[1].len()), (MIN_COUNTED, MIN_COUNTED));
        assert!(frames[2].starts_with(b"data: ") && frames[2].ends_with(b"\n\n"), "{:?}", frames[2]);
        let rest = to_bytes(streams.into_iter().next_back().unwrap(), usize::MAX).await.unwrap();
        assert!(rest.is_empty(), "the stream has ended");
        drop(frames);
        assert!(memory.budget.is_unused());
    }
}
