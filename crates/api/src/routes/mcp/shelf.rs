//! What was offered a moment ago, to be offered again: lists are written out once a second, not
//! once a request. A server of others that does not answer must not hold up what has nothing to do
//! with it, so nobody waits long for a list that is being read anew.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use emergent_domain::ids::ProjectId;
use emergent_executor::Executor;
use emergent_mcp::server::Fault;
use parking_lot::Mutex;

use super::{
    host::Who,
    offering::{Offering, ScopeSet, Whose},
};

pub(super) const FRESH: Duration = Duration::from_secs(1);
/// How long to wait for a newer list when there is an old one, and when there is none.
const FOR_NEWER: Duration = Duration::from_millis(200);
const FOR_FIRST: Duration = Duration::from_secs(2);
/// More kinds of tokens than this, and what is known is dropped.
const MOST: usize = 1_000;

type Key = (ProjectId, ScopeSet);

#[derive(Clone)]
pub(super) struct Shelf {
    executor: Executor,
    kept: Arc<Mutex<HashMap<Key, Kept>>>,
}

struct Kept {
    offering: Arc<Offering>,
    since: Instant,
    being_read: bool,
}

impl Shelf {
    pub fn new(executor: Executor) -> Self {
        Self { executor, kept: Arc::default() }
    }

    pub async fn get(&self, who: &Who) -> Result<Arc<Offering>, Fault> {
        let key = (who.project, ScopeSet::of(&who.token.scopes));
        let old = match self.kept.lock().get_mut(&key) {
            Some(kept) if kept.being_read || kept.since.elapsed() < FRESH => {
                return Ok(Arc::clone(&kept.offering));
            }
            Some(kept) => {
                kept.being_read = true;
                Some(Arc::clone(&kept.offering))
            }
            None => None,
        };
        let (shelf, reader) = (self.clone(), who.clone());
        // A task of its own: what takes longer than this request waits is there for the next.
        let reading = tokio::spawn(async move { shelf.read(key, &reader).await });
        let patience = if old.is_some() { FOR_NEWER } else { FOR_FIRST };
        match (tokio::time::timeout(patience, reading).await, old) {
            (Ok(read), _) => read.map_err(Fault::internal)?,
            (Err(_), Some(old)) => Ok(old),
            (Err(_), None) => Offering::read(&self.executor, who, Whose::Ours).await.map(Arc::new),
        }
    }

    async fn read(&self, key: Key, who: &Who) -> Result<Arc<Offering>, Fault> {
        let since = Instant::now();
        let _over = Over { kept: &self.kept, key };
        let read = Offering::read(&self.executor, who, Whose::Everybodys).await.map(Arc::new);
        // One that failed is tried again; the old one stays for those who ask meanwhile.
        if let Ok(offering) = &read {
            let mut all = self.kept.lock();
            if all.len() >= MOST {
                all.clear();
            }
            all.insert(key, Kept { offering: Arc::clone(offering), since, being_read: false });
        }
        read
    }
}

/// However a reading ends, by a panic too, the next one may begin.
struct Over<'a> {
    kept: &'a Mutex<HashMap<Key, Kept>>,
    key: Key,
}

impl Drop for Over<'_> {
    fn drop(&mut self) {
        if let Some(kept) = self.kept.lock().get_mut(&self.key) {
            kept.being_read = false;
        }
    }
}
