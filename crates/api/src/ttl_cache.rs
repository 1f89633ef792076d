//! What was read a moment ago. Every request asks who its token is and which project is meant;
//! both change rarely, so the answer of the last second is used again. A change made through this
//! server is seen at once, one made through another server within that second.

use std::{borrow::Borrow, hash::Hash, time::Duration};

use hashlink::LruCache;
use parking_lot::Mutex;
use tokio::time::Instant;

const TTL: Duration = Duration::from_secs(1);
/// With more callers than this, those who have not called for the longest time are read again.
const MAX_ENTRIES: usize = 10_000;

pub(crate) struct TtlCache<K, V>(Mutex<Entries<K, V>>);

struct Entries<K, V> {
    values: LruCache<K, (V, Instant)>,
    /// Counts what was forgotten: a read that began before must not bring it back.
    generation: u64,
}

/// A read that has begun. Its age counts from here, not from when its answer comes.
pub(crate) struct PendingRead {
    since: Instant,
    generation: u64,
}

impl<K: Eq + Hash, V> Default for TtlCache<K, V> {
    fn default() -> Self {
        Self(Mutex::new(Entries { values: LruCache::new(MAX_ENTRIES), generation: 0 }))
    }
}

impl<K: Eq + Hash, V: Clone> TtlCache<K, V> {
    pub(crate) fn get<Q>(&self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        let mut known = self.0.lock();
        let (value, read) = known.values.get(key)?;
        (read.elapsed() < TTL).then(|| value.clone())
    }

    /// Whether a value was kept for this key, however long ago.
    pub(crate) fn was_known<Q>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.0.lock().values.contains_key(key)
    }

    pub(crate) fn start_read(&self) -> PendingRead {
        PendingRead { since: Instant::now(), generation: self.0.lock().generation }
    }

    pub(crate) fn insert(&self, key: K, value: V, reading: PendingRead) {
        let mut known = self.0.lock();
        if known.generation != reading.generation {
            return;
        }
        known.values.insert(key, (value, reading.since));
    }

    pub(crate) fn clear(&self) {
        let mut known = self.0.lock();
        known.values.clear();
        known.generation += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_read_before_a_change_is_not_kept_after_it() {
        let fresh = TtlCache::default();
        let early = fresh.start_read();
        fresh.insert("a", 1, fresh.start_read());
        assert_eq!(fresh.get("a"), Some(1));
        fresh.clear();
        assert_eq!(fresh.get("a"), None);
        fresh.insert("a", 1, early);
        assert_eq!(fresh.get("a"), None);
    }
}
