//! How many event streams are open. A stream is answered once it begins, so it is no longer among
//! the requests being answered; it is looked after for as long as it stays all the same.

use std::sync::Arc;

use futures_util::{Stream, StreamExt};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::ApiError;

pub(crate) struct Streams {
    places: Arc<Semaphore>,
    most: usize,
}

/// A stream that counts, until it is dropped.
pub(crate) struct Place(#[allow(dead_code, reason = "held, not used")] OwnedSemaphorePermit);

impl Streams {
    pub(crate) fn new(most: usize) -> Self {
        Self { places: Arc::new(Semaphore::new(most)), most }
    }

    /// A place for one more, or the refusal that names the limit.
    pub(crate) fn place(&self) -> Result<Place, ApiError> {
        let place = Arc::clone(&self.places).try_acquire_owned();
        place.map(Place).map_err(|_| ApiError::too_many_streams(self.most))
    }

    pub(crate) fn open(&self) -> usize {
        self.most.saturating_sub(self.places.available_permits())
    }
}

/// The same stream; what is held counts for as long as it is there.
pub(crate) fn holding<S: Stream>(stream: S, held: impl Send + 'static) -> impl Stream<Item = S::Item> {
    stream.inspect(move |_| {
        let _held = &held;
    })
}
