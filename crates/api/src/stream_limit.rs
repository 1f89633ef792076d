//! How many event streams are open. A stream is answered once it begins, so it is no longer among
//! the requests being answered; it is looked after for as long as it stays all the same.

use std::sync::Arc;

use futures_util::{Stream, StreamExt};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::ApiError;

pub(crate) struct StreamLimit {
    permits: Arc<Semaphore>,
    max: usize,
}

/// A stream that counts, until it is dropped.
pub(crate) struct StreamPermit(#[allow(dead_code, reason = "held, not used")] OwnedSemaphorePermit);

impl StreamLimit {
    pub(crate) fn new(max: usize) -> Self {
        Self { permits: Arc::new(Semaphore::new(max)), max }
    }

    /// A place for one more, or the refusal that names the limit.
    pub(crate) fn acquire(&self) -> Result<StreamPermit, ApiError> {
        let place = Arc::clone(&self.permits).try_acquire_owned();
        place.map(StreamPermit).map_err(|_| ApiError::too_many_streams(self.max))
    }

    pub(crate) fn open_count(&self) -> usize {
        self.max.saturating_sub(self.permits.available_permits())
    }
}

/// The same stream; what is held counts for as long as it is there.
pub(crate) fn with_guard<S: Stream>(stream: S, held: impl Send + 'static) -> impl Stream<Item = S::Item> {
    stream.inspect(move |_| {
        let _held = &held;
    })
}
