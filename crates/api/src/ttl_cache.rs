//! A cache whose entries are valid for one second, for the token and the project of each request. A change
//! through this server removes the entries it concerns, and no others: whoever may change one token must not
//! make the database look up those of everybody. A change through another server takes effect within that
//! second.

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
    /// The number of times entries were removed. A value that was read before the last time must not be
    /// inserted, because it may be one of them.
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

    /// Inserts a value, unless entries were removed after its read began.
    pub(crate) fn insert(&self, key: K, value: V, read: PendingRead) {
        let mut entries = self.0.lock();
        if entries.generation != read.generation {
            return;
        }
        entries.values.insert(key, (value, read.since));
    }

    /// Whether there is an entry, even one that is too old to be used.
    pub(crate) fn has_entry<Q>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.0.lock().values.contains_key(key)
    }

    pub(crate) fn remove<Q>(&self, key: &Q)
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.0.lock().values.remove(key);
    }

    /// Removes the entries with these values, and rejects the results of reads that have begun.
    pub(crate) fn remove_where(&self, is_stale: impl Fn(&V) -> bool) {
        let mut entries = self.0.lock();
        entries.values.retain(|_, (value, _)| !is_stale(value));
        entries.generation += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_stale_values_are_removed_and_none_that_was_read_before_is_inserted() {
        let cache = TtlCache::default();
        let early_read = cache.start_read();
        cache.insert("a", 1, cache.start_read());
        cache.insert("b", 2, cache.start_read());
        cache.remove_where(|value| *value == 1);
        assert_eq!((cache.get("a"), cache.get("b")), (None, Some(2)));
        cache.insert("a", 1, early_read);
        assert_eq!(cache.get("a"), None);
    }
}
