//! Limits the memory of answers that their clients have not read yet.
//!
//! An answer is built in memory, and stays there until its client has received it. A client that requests many
//! large answers and reads none must not use up the memory of the server.

use std::{
    collections::HashMap,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use axum::{
    body::{Body, Bytes, HttpBody},
    response::{IntoResponse, Response},
};
use emergent_store::requester::Requester;
use parking_lot::Mutex;

use crate::ApiError;

/// Smaller answers are not counted: the limit of requests is sufficient for them.
const MIN_COUNTED: usize = 64 << 10;

/// The bytes of answers in memory, in total and by requester.
pub(crate) struct AnswerMemory {
    max_total: usize,
    used: Arc<Mutex<Used>>,
}

#[derive(Default)]
struct Used {
    total: usize,
    by_requester: HashMap<Requester, usize>,
}

impl AnswerMemory {
    pub(crate) fn new(max_total: usize) -> Self {
        Self { max_total, used: Arc::default() }
    }

    /// Counts the answer until its client has received it. If the limit is reached, the answer is dropped and
    /// replaced by an error.
    pub(crate) fn count(&self, mut answer: Response, requester: Requester) -> Response {
        let is_counted = answer.body().size_hint().exact().is_some_and(|size| size >= MIN_COUNTED as u64);
        let Some(data) = is_counted.then(|| take_data(answer.body_mut())).flatten() else { return answer };
        match self.hold(requester, data.len()) {
            Ok(held) => {
                *answer.body_mut() = Body::from(Bytes::from_owner(HeldData { data, _held: held }));
                answer
            }
            Err(limit_reached) => limit_reached.into_response(),
        }
    }

    /// Counts bytes for a requester. One requester may use half of the total.
    fn hold(&self, requester: Requester, bytes: usize) -> Result<HeldBytes, ApiError> {
        let mut used = self.used.lock();
        let own = used.by_requester.get(&requester).copied().unwrap_or_default();
        let max_own = self.max_total / 2;
        let limit = match (own + bytes > max_own, used.total + bytes > self.max_total) {
            // The first answer of a requester is never refused for its own limit.
            (true, _) if own > 0 => Some(("of this project", max_own)),
            (_, true) if used.total > 0 => Some(("in all", self.max_total)),
            _ => None,
        };
        if let Some((owner, limit)) = limit {
            return Err(ApiError::unread_answers(owner, limit));
        }
        used.total += bytes;
        *used.by_requester.entry(requester).or_default() += bytes;
        Ok(HeldBytes { used: Arc::clone(&self.used), requester, bytes })
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

/// Counted bytes. Dropping it ends the count.
struct HeldBytes {
    used: Arc<Mutex<Used>>,
    requester: Requester,
    bytes: usize,
}

impl Drop for HeldBytes {
    fn drop(&mut self) {
        let mut used = self.used.lock();
        used.total -= self.bytes;
        if let Some(own) = used.by_requester.get_mut(&self.requester) {
            *own -= self.bytes;
            if *own == 0 {
                used.by_requester.remove(&self.requester);
            }
        }
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
        assert_eq!(memory.used.lock().total, 0);
        assert!(memory.used.lock().by_requester.is_empty());
        assert_eq!(memory.count(answer(9 * MIN_COUNTED), one).status(), 200, "a single large answer is sent");
    }
}
