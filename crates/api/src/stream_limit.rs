//! Limits the number of open event streams. A stream counts as answered once it starts, so it is no
//! longer among the concurrent requests; but it uses resources as long as it is open.

use std::sync::Arc;

use futures_util::{Stream, StreamExt};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::ApiError;

pub(crate) struct StreamLimit {
    permits: Arc<Semaphore>,
    max: usize,
}

/// Counts one stream as open until it is dropped.
pub(crate) struct StreamPermit(#[allow(dead_code, reason = "held, not used")] OwnedSemaphorePermit);

impl StreamLimit {
    pub(crate) fn new(max: usize) -> Self {
        Self { permits: Arc::new(Semaphore::new(max)), max }
    }

    /// Returns a permit for one more stream, or the error that names the limit.
    pub(crate) fn acquire(&self) -> Result<StreamPermit, ApiError> {
        let permit = Arc::clone(&self.permits).try_acquire_owned();
        permit.map(StreamPermit).map_err(|_| ApiError::too_many_streams(self.max))
    }

    pub(crate) fn open_count(&self) -> usize {
        self.max.saturating_sub(self.permits.available_permits())
    }
}

/// Returns the same stream, which keeps `guard` until it is dropped.
pub(crate) fn with_guard<S: Stream>(stream: S, guard: impl Send + 'static) -> impl Stream<Item = S::Item> {
    stream.inspect(move |_| {
        let _held = &guard;
    })
}
