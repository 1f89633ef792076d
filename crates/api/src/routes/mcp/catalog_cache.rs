//! Caches catalogs, so that the lists of tools are built at most once a second instead of once a request. An
//! external server that does not respond must not delay requests for other tools, so a request waits only
//! briefly for a new catalog.

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

/// How long a catalog is used before it is loaded again.
pub(super) const TTL: Duration = Duration::from_secs(1);
/// How long a request waits for a new catalog if there is an old one.
const REFRESH_WAIT: Duration = Duration::from_millis(200);
/// How long a request waits for a catalog if there is none.
const FIRST_WAIT: Duration = Duration::from_secs(2);
/// The maximum number of cached catalogs; the least recently used one is dropped first.
const MAX_ENTRIES: usize = 1_000;

type Key = (ProjectId, ScopeSet);

/// Catalogs by project and scopes. Clones share the cache.
#[derive(Clone)]
pub(super) struct CatalogCache {
    executor: Executor,
    entries: Arc<Mutex<LruCache<Key, CachedCatalog>>>,
}

struct CachedCatalog {
    catalog: Arc<Catalog>,
    /// When loading it began.
    since: Instant,
    /// True while a task loads a newer one.
    refreshing: bool,
}

impl CatalogCache {
    pub fn new(executor: Executor) -> Self {
        Self { executor, entries: Arc::new(Mutex::new(LruCache::new(MAX_ENTRIES))) }
    }

    /// Returns the caller's catalog: the cached one while it is fresh or another task loads a new one,
    /// otherwise a new one. If that takes too long, it is the old catalog, or one of only the local tools.
    pub async fn get(&self, caller: &McpCaller) -> Result<Arc<Catalog>, Fault> {
        let key = (caller.project, ScopeSet::from_scopes(&caller.token.scopes));
        let old = match self.entries.lock().get_mut(&key) {
            Some(cached) if cached.refreshing || cached.since.elapsed() < TTL => {
                return Ok(Arc::clone(&cached.catalog));
            }
            Some(cached) => {
                cached.refreshing = true;
                Some(Arc::clone(&cached.catalog))
            }
            None => None,
        };
        let (cache, task_caller) = (self.clone(), caller.clone());
        // The catalog is loaded in its own task: if that takes longer than this request waits, the next
        // request gets it.
        #[expect(
            clippy::disallowed_methods,
            reason = "awaited here, or else it fills the cache; one task at a time replaces an old catalog"
        )]
        let loading = tokio::spawn(async move { cache.refresh(key, &task_caller).await });
        let max_wait = if old.is_some() { REFRESH_WAIT } else { FIRST_WAIT };
        match (tokio::time::timeout(max_wait, loading).await, old) {
            (Ok(loaded), _) => loaded.map_err(Fault::internal)?,
            (Err(_), Some(old)) => Ok(old),
            (Err(_), None) => {
                Catalog::load(&self.executor, caller, ToolSelection::LocalOnly).await.map(Arc::new)
            }
        }
    }

    /// Loads the complete catalog into the cache.
    async fn refresh(&self, key: Key, caller: &McpCaller) -> Result<Arc<Catalog>, Fault> {
        let since = Instant::now();
        let _guard = RefreshGuard { entries: &self.entries, key };
        let loaded = Catalog::load(&self.executor, caller, ToolSelection::All).await.map(Arc::new);
        // After a failure, the old catalog stays, and the next request tries again.
        if let Ok(catalog) = &loaded {
            let entry = CachedCatalog { catalog: Arc::clone(catalog), since, refreshing: false };
            self.entries.lock().insert(key, entry);
        }
        loaded
    }
}

/// Clears `refreshing` however a refresh ends, also by a panic, so that the next one can begin.
struct RefreshGuard<'a> {
    entries: &'a Mutex<LruCache<Key, CachedCatalog>>,
    key: Key,
}

impl Drop for RefreshGuard<'_> {
    fn drop(&mut self) {
        if let Some(cached) = self.entries.lock().peek_mut(&self.key) {
            cached.refreshing = false;
        }
    }
}
