//! Large messages of other systems: how many of them are in memory at once, and where they are processed. Parsing
//! megabytes takes long, so it happens on a few blocking threads and not on those that serve requests.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A message of more bytes is processed on a blocking thread.
const MAX_INLINE_BYTES: usize = 64 << 10;
/// A message of more bytes needs a place in memory before the rest of it is read.
pub const MAX_UNCOUNTED_BYTES: usize = 256 << 10;
/// How many large messages are in memory at once.
const MAX_HELD: usize = 32;
/// How many of them belong to the same share, such as the servers of one project.
const MAX_HELD_PER_SHARE: usize = 8;

/// A large message was not processed, because the server stops. The text has no subject, because callers put the name of
/// the other system before it.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("sent a large message that could not be processed")]
pub struct NotProcessed;

/// The limits for large messages. Clones have the same share of them; see [`LargeMessages::new_share`].
#[derive(Clone)]
pub struct LargeMessages {
    held: Arc<Semaphore>,
    held_by_share: Arc<Semaphore>,
    workers: Arc<Semaphore>,
}

/// The place of one large message in memory. It is kept as long as the message, or what was parsed from it.
#[derive(Debug)]
pub struct HeldMessage {
    _share: OwnedSemaphorePermit,
    _all: OwnedSemaphorePermit,
}

impl Default for LargeMessages {
    fn default() -> Self {
        // Half of the processors stay free for requests.
        let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self {
            held: Arc::new(Semaphore::new(MAX_HELD)),
            held_by_share: Arc::new(Semaphore::new(MAX_HELD_PER_SHARE)),
            workers: Arc::new(Semaphore::new((processors / 2).max(1))),
        }
    }
}

impl LargeMessages {
    /// The same limits with another share, so that one project cannot take the places of all.
    #[must_use]
    pub fn new_share(&self) -> Self {
        Self { held_by_share: Arc::new(Semaphore::new(MAX_HELD_PER_SHARE)), ..self.clone() }
    }

    /// Waits for the place of one large message.
    pub async fn hold(&self) -> Result<HeldMessage, NotProcessed> {
        let share = Arc::clone(&self.held_by_share).acquire_owned().await.map_err(|_| NotProcessed)?;
        let all = Arc::clone(&self.held).acquire_owned().await.map_err(|_| NotProcessed)?;
        Ok(HeldMessage { _share: share, _all: all })
    }

    /// Processes a message of this many bytes: at once if it is small, or else on a blocking thread.
    pub async fn process<T: Send + 'static>(
        &self,
        bytes: usize,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, NotProcessed> {
        if bytes <= MAX_INLINE_BYTES {
            return Ok(work());
        }
        let worker = Arc::clone(&self.workers).acquire_owned().await.map_err(|_| NotProcessed)?;
        #[expect(clippy::disallowed_methods, reason = "awaited here; the workers limit how many there are")]
        let done = tokio::task::spawn_blocking(move || {
            // The worker is busy until the end, even if the caller was dropped.
            let _worker = worker;
            work()
        });
        done.await.map_err(|_| NotProcessed)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn one_share_leaves_places_to_others() {
        let large = LargeMessages::default();
        let mut held = Vec::new();
        for _ in 0..MAX_HELD_PER_SHARE {
            held.push(large.hold().await.unwrap());
        }
        assert!(timeout(Duration::from_millis(20), large.hold()).await.is_err(), "its share is used up");
        let other = large.new_share();
        held.push(other.hold().await.unwrap());
        held.remove(0);
        held.push(large.hold().await.unwrap());
    }

    #[tokio::test]
    async fn large_messages_are_processed_on_other_threads() {
        let (large, here) = (LargeMessages::default(), std::thread::current().id());
        let thread = || std::thread::current().id();
        assert_eq!(large.process(MAX_INLINE_BYTES, thread).await.unwrap(), here);
        assert_ne!(large.process(MAX_INLINE_BYTES + 1, thread).await.unwrap(), here);
    }
}
