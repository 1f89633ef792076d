//! Caches catalogs: lists are serialised once a second, not once per request. An external server that
//! does not respond must not delay unrelated tools, so a request waits only briefly for a list that is
//! being refreshed.

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
    catalog::{Catalog, ScopeSet, ToolSelection},
    host::McpCaller,
};

pub(super) const TTL: Duration = Duration::from_secs(1);
/// How long a request waits for a newer list if there is an old one, and if there is none.
const REFRESH_WAIT: Duration = Duration::from_millis(200);
const FIRST_WAIT: Duration = Duration::from_secs(2);
/// If there are more kinds of tokens than this, the cache is cleared.
const MAX_ENTRIES: usize = 1_000;

type Key = (ProjectId, ScopeSet);

#[derive(Clone)]
pub(super) struct CatalogCache {
    executor: Executor,
    entries: Arc<Mutex<HashMap<Key, CachedCatalog>>>,
}

struct CachedCatalog {
    offering: Arc<Catalog>,
    since: Instant,
    refreshing: bool,
}

impl CatalogCache {
    pub fn new(executor: Executor) -> Self {
        Self { executor, entries: Arc::default() }
    }

    pub async fn get(&self, who: &McpCaller) -> Result<Arc<Catalog>, Fault> {
        let key = (who.project, ScopeSet::from_scopes(&who.token.scopes));
        let old = match self.entries.lock().get_mut(&key) {
            Some(cached) if cached.refreshing || cached.since.elapsed() < TTL => {
                return Ok(Arc::clone(&cached.offering));
            }
            Some(cached) => {
                cached.refreshing = true;
                Some(Arc::clone(&cached.offering))
            }
            None => None,
        };
        let (shelf, reader) = (self.clone(), who.clone());
        // The refresh runs in its own task: if it takes longer than this request waits, the next request gets
        // its result.
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
        // A failed refresh is repeated; until then the old catalog is used.
        if let Ok(offering) = &read {
            let mut all = self.entries.lock();
            if all.len() >= MAX_ENTRIES {
                all.clear();
            }
            all.insert(key, CachedCatalog { offering: Arc::clone(offering), since, refreshing: false });
        }
        read
    }
}

/// Allows the next refresh however this one ends, also after a panic.
struct RefreshGuard<'a> {
    entries: &'a Mutex<HashMap<Key, CachedCatalog>>,
    key: Key,
}

impl Drop for RefreshGuard<'_> {
    fn drop(&mut self) {
        if let Some(cached) = self.entries.lock().get_mut(&self.key) {
            cached.refreshing = false;
        }
    }
}
