//! What was read a moment ago. Every request asks who its token is and which project is meant;
//! both change rarely, so the answer of the last second is used again. A change made through this
//! server is seen at once, one made through another server within that second.

use std::{
    borrow::Borrow,
    collections::HashMap,
    hash::Hash,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

const KEPT: Duration = Duration::from_secs(1);
/// More than this many callers within a second, and what is known is dropped.
const MOST: usize = 10_000;

pub(crate) struct Fresh<K, V>(Mutex<Known<K, V>>);

struct Known<K, V> {
    values: HashMap<K, (V, Instant)>,
    /// Counts what was forgotten: a read that began before must not bring it back.
    round: u64,
}

/// A read that has begun. Its age counts from here, not from when its answer comes.
pub(crate) struct Reading {
    since: Instant,
    round: u64,
}

impl<K, V> Default for Fresh<K, V> {
    fn default() -> Self {
        Self(Mutex::new(Known { values: HashMap::new(), round: 0 }))
    }
}

impl<K: Eq + Hash, V: Clone> Fresh<K, V> {
    pub(crate) fn get<Q>(&self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        let known = self.0.lock();
        let (value, read) = known.values.get(key)?;
        (read.elapsed() < KEPT).then(|| value.clone())
    }

    pub(crate) fn reading(&self) -> Reading {
        Reading { since: Instant::now(), round: self.0.lock().round }
    }

    pub(crate) fn keep(&self, key: K, value: V, reading: Reading) {
        let mut known = self.0.lock();
        if known.round != reading.round {
            return;
        }
        if known.values.len() >= MOST {
            known.values.retain(|_, (_, read)| read.elapsed() < KEPT);
        }
        if known.values.len() >= MOST {
            known.values.clear();
        }
        known.values.insert(key, (value, reading.since));
    }

    pub(crate) fn forget(&self) {
        let mut known = self.0.lock();
        known.values.clear();
        known.round += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_read_before_a_change_is_not_kept_after_it() {
        let fresh = Fresh::default();
        let early = fresh.reading();
        fresh.keep("a", 1, fresh.reading());
        assert_eq!(fresh.get("a"), Some(1));
        fresh.forget();
        assert_eq!(fresh.get("a"), None);
        fresh.keep("a", 1, early);
        assert_eq!(fresh.get("a"), None);
    }
}
