//! A cache whose entries are valid for one second, for the token and the project of each request. A change
//! through this server clears the cache; a change through another server takes effect within that second.

use std::{borrow::Borrow, hash::Hash, time::Duration};

use hashlink::LruCache;
use parking_lot::Mutex;
use tokio::time::Instant;

const TTL: Duration = Duration::from_secs(1);
/// The maximum number of entries; the least recently used one is dropped first.
const MAX_ENTRIES: usize = 10_000;

/// The cache, which is shared between tasks.
pub(crate) struct TtlCache<K, V>(Mutex<Entries<K, V>>);

struct Entries<K, V> {
    values: LruCache<K, (V, Instant)>,
    /// The number of times the cache was cleared. A value that was read before the last time must not be
    /// inserted.
    generation: u64,
}

/// A read of the database that has begun. The age of its result counts from the start of the read.
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
        let mut entries = self.0.lock();
        let (value, read_at) = entries.values.get(key)?;
        (read_at.elapsed() < TTL).then(|| value.clone())
    }

    /// Call this before a value is read, and pass the result to [`TtlCache::insert`].
    pub(crate) fn start_read(&self) -> PendingRead {
        PendingRead { since: Instant::now(), generation: self.0.lock().generation }
    }

    /// Inserts a value, unless the cache was cleared after its read began.
    pub(crate) fn insert(&self, key: K, value: V, read: PendingRead) {
        let mut entries = self.0.lock();
        if entries.generation != read.generation {
            return;
        }
        entries.values.insert(key, (value, read.since));
    }

    /// Removes all entries, and rejects the results of reads that have begun.
    pub(crate) fn clear(&self) {
        let mut entries = self.0.lock();
        entries.values.clear();
        entries.generation += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_was_read_before_the_cache_was_cleared_is_not_inserted() {
        let cache = TtlCache::default();
        let early_read = cache.start_read();
        cache.insert("a", 1, cache.start_read());
        assert_eq!(cache.get("a"), Some(1));
        cache.clear();
        assert_eq!(cache.get("a"), None);
        cache.insert("a", 1, early_read);
        assert_eq!(cache.get("a"), None);
    }
}
