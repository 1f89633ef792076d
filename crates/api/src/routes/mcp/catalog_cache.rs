//! What was offered a moment ago, to be offered again: lists are written out once a second, not
//! once a request. A server of others that does not answer must not hold up what has nothing to do
//! with it, so nobody waits long for a list that is being read anew.

use std::{sync::Arc, time::Duration};

use emergent_domain::ids::ProjectId;
use emergent_executor::Executor;
use emergent_mcp::server::Fault;
use hashlink::LruCache;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::{
    catalog::{Catalog, ScopeSet, ToolSelection},
    host::McpCaller,
};

pub(super) const TTL: Duration = Duration::from_secs(1);
/// How long to wait for a newer list when there is an old one, and when there is none.
const REFRESH_WAIT: Duration = Duration::from_millis(200);
const FIRST_WAIT: Duration = Duration::from_secs(2);
/// With more kinds of tokens than this, the list that nobody asked for the longest is written out again.
const MAX_ENTRIES: usize = 1_000;

type Key = (ProjectId, ScopeSet);

#[derive(Clone)]
pub(super) struct CatalogCache {
    executor: Executor,
    entries: Arc<Mutex<LruCache<Key, CachedCatalog>>>,
}

struct CachedCatalog {
    offering: Arc<Catalog>,
    since: Instant,
    refreshing: bool,
}

impl CatalogCache {
    pub fn new(executor: Executor) -> Self {
        Self { executor, entries: Arc::new(Mutex::new(LruCache::new(MAX_ENTRIES))) }
    }

    pub async fn get(&self, who: &McpCaller) -> Result<Arc<Catalog>, Fault> {
        let key = (who.project, ScopeSet::from_scopes(&who.token.scopes));
        let old = match self.entries.lock().get_mut(&key) {
            Some(kept) if kept.refreshing || kept.since.elapsed() < TTL => {
                return Ok(Arc::clone(&kept.offering));
            }
            Some(kept) => {
                kept.refreshing = true;
                Some(Arc::clone(&kept.offering))
            }
            None => None,
        };
        let (shelf, reader) = (self.clone(), who.clone());
        // A task of its own: what takes longer than this request waits is there for the next.
        #[expect(
            clippy::disallowed_methods,
            reason = "awaited here; what takes longer fills the cache, and one reads at a time where there is a list"
        )]
        let reading = tokio::spawn(async move { shelf.refresh(key, &reader).await });
        let patience = if old.is_some() { REFRESH_WAIT } else { FIRST_WAIT };
        match (tokio::time::timeout(patience, reading).await, old) {
            (Ok(read), _) => read.map_err(Fault::internal)?,
            (Err(_), Some(old)) => Ok(old),
            (Err(_), None) => {
                Catalog::load(&self.executor, who, ToolSelection::LocalOnly).await.map(Arc::new)
            }
        }
    }

    async fn refresh(&self, key: Key, who: &McpCaller) -> Result<Arc<Catalog>, Fault> {
        let since = Instant::now();
        let _over = RefreshGuard { entries: &self.entries, key };
        let read = Catalog::load(&self.executor, who, ToolSelection::All).await.map(Arc::new);
        // One that failed is tried again; the old one stays for those who ask meanwhile.
        if let Ok(offering) = &read {
            let fresh = CachedCatalog { offering: Arc::clone(offering), since, refreshing: false };
            self.entries.lock().insert(key, fresh);
        }
        read
    }
}

/// However a reading ends, by a panic too, the next one may begin.
struct RefreshGuard<'a> {
    entries: &'a Mutex<LruCache<Key, CachedCatalog>>,
    key: Key,
}

impl Drop for RefreshGuard<'_> {
    fn drop(&mut self) {
        if let Some(kept) = self.entries.lock().peek_mut(&self.key) {
            kept.refreshing = false;
        }
    }
}
