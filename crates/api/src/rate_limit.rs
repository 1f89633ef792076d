//! Limits how often something happens within a time, for each key: a token, an address, or a token and an agent. The
//! memory is bounded: with too many keys, the one that was used longest ago starts again at zero.

use std::{hash::Hash, time::Duration};

use hashlink::LruCache;
use parking_lot::Mutex;
use tokio::time::Instant;

/// How many keys are remembered.
const MAX_KEYS: usize = 10_000;

/// Counts per key, in windows that begin with the first count.
pub(crate) struct RateLimit<K> {
    windows: Mutex<LruCache<K, Window>>,
    max: usize,
    length: Duration,
}

struct Window {
    since: Instant,
    count: usize,
}

impl<K: Eq + Hash> RateLimit<K> {
    /// Allows `max` in a window of this length.
    pub(crate) fn new(max: usize, length: Duration) -> Self {
        Self { windows: Mutex::new(LruCache::new(MAX_KEYS)), max, length }
    }

    /// The maximum in one window.
    pub(crate) fn max(&self) -> usize {
        self.max
    }

    /// Counts one for this key. The error says how long the key has to wait; then nothing is counted.
    pub(crate) fn take(&self, key: K) -> Result<(), Duration> {
        let mut windows = self.windows.lock();
        match windows.get_mut(&key) {
            Some(window) if window.since.elapsed() < self.length => {
                if window.count >= self.max {
                    return Err(self.length.saturating_sub(window.since.elapsed()));
                }
                window.count += 1;
            }
            _ => {
                windows.insert(key, Window { since: Instant::now(), count: 1 });
            }
        }
        Ok(())
    }

    /// Takes back one count of this key.
    pub(crate) fn give_back(&self, key: &K) {
        if let Some(window) = self.windows.lock().get_mut(key) {
            window.count = window.count.saturating_sub(1);
        }
    }

    /// Returns how long this key has to wait; `None` if one more is allowed now. Nothing is counted.
    pub(crate) fn must_wait(&self, key: &K) -> Option<Duration> {
        let mut windows = self.windows.lock();
        let window = windows.get(key)?;
        let remaining = self.length.saturating_sub(window.since.elapsed());
        (window.count >= self.max && !remaining.is_zero()).then_some(remaining)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_key_that_is_used_too_often_waits_and_others_do_not() {
        let length = Duration::from_secs(60);
        let rate = RateLimit::new(3, length);
        for _ in 0..3 {
            assert_eq!((rate.must_wait(&"busy"), rate.take("busy")), (None, Ok(())));
        }
        tokio::time::advance(Duration::from_secs(20)).await;
        assert_eq!(rate.take("busy"), Err(Duration::from_secs(40)));
        assert_eq!(rate.must_wait(&"busy"), Some(Duration::from_secs(40)));
        assert_eq!((rate.must_wait(&"other"), rate.take("other")), (None, Ok(())));
        tokio::time::advance(Duration::from_secs(40)).await;
        assert_eq!((rate.must_wait(&"busy"), rate.take("busy")), (None, Ok(())));
    }

    #[test]
    fn the_number_of_keys_in_memory_is_bounded() {
        let rate = RateLimit::new(1, Duration::from_secs(60));
        for key in 0..2 * MAX_KEYS {
            assert_eq!(rate.take(key), Ok(()));
        }
        assert_eq!(rate.windows.lock().len(), MAX_KEYS);
        assert!(rate.take(2 * MAX_KEYS - 1).is_err(), "the newest are remembered");
    }
}
