//! Caches reads for one second. Every request looks up its token and its project, and both change
//! rarely. A change through this server is visible at once, a change through another server within that
//! second.

use std::{
    borrow::Borrow,
    collections::HashMap,
    hash::Hash,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

const TTL: Duration = Duration::from_secs(1);
/// If more callers than this appear within a second, the cache is cleared.
const MAX_ENTRIES: usize = 10_000;

pub(crate) struct TtlCache<K, V>(Mutex<Entries<K, V>>);

struct Entries<K, V> {
    values: HashMap<K, (V, Instant)>,
    /// Incremented by every invalidation: a read that started before must not restore the old value.
    generation: u64,
}

/// A read in progress. The age of its result counts from its start.
pub(crate) struct PendingRead {
    since: Instant,
    generation: u64,
}

impl<K, V> Default for TtlCache<K, V> {
    fn default() -> Self {
        Self(Mutex::new(Entries { values: HashMap::new(), generation: 0 }))
    }
}

impl<K: Eq + Hash, V: Clone> TtlCache<K, V> {
    pub(crate) fn get<Q>(&self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        let entries = self.0.lock();
        let (value, read) = entries.values.get(key)?;
        (read.elapsed() < TTL).then(|| value.clone())
    }

    pub(crate) fn start_read(&self) -> PendingRead {
        PendingRead { since: Instant::now(), generation: self.0.lock().generation }
    }

    pub(crate) fn insert(&self, key: K, value: V, reading: PendingRead) {
        let mut entries = self.0.lock();
        if entries.generation != reading.generation {
            return;
        }
        if entries.values.len() >= MAX_ENTRIES {
            entries.values.retain(|_, (_, read)| read.elapsed() < TTL);
        }
        if entries.values.len() >= MAX_ENTRIES {
            entries.values.clear();
        }
        entries.values.insert(key, (value, reading.since));
    }

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
