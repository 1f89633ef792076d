//! Notifies when the catalog of a token has changed. A wake-up says when to check; the notification is
//! sent only if a list differs. However many clients listen, the lists are read once, through the
//! cache.

use std::{collections::VecDeque, time::Duration};

use emergent_executor::Executor;
use emergent_mcp::server::ListKind;
use emergent_store::wake::Waiter;
use futures_util::{StreamExt, stream, stream::BoxStream};
use tokio::time::Instant;

use super::{
    catalog::ListHashes,
    catalog_cache::{CatalogCache, TTL},
    host::McpCaller,
};

/// How often the lists are checked for changes without a wake-up: agents, and a lost wake-up of another
/// server.
const POLL_INTERVAL: Duration = Duration::from_secs(5);

/// The state of one stream of list changes.
struct CatalogWatch {
    cache: CatalogCache,
    caller: McpCaller,
    waiter: Waiter,
    poll_interval: Duration,
    /// The hashes of the lists when they were last read.
    seen: Option<ListHashes>,
    ready: VecDeque<ListKind>,
}

/// Streams the changes of the caller's lists of tools and prompts.
pub(super) fn list_changes(
    executor: &Executor,
    cache: CatalogCache,
    caller: McpCaller,
) -> BoxStream<'static, ListKind> {
    let waiter = executor.graph().db().waiter(&format!("mcp:{}", caller.project));
    let watch = CatalogWatch {
        cache,
        caller,
        waiter,
        poll_interval: POLL_INTERVAL,
        seen: None,
        ready: VecDeque::new(),
    };
    stream::unfold(watch, |mut watch| async move { Some((watch.next().await, watch)) }).boxed()
}

impl CatalogWatch {
    async fn next(&mut self) -> ListKind {
        loop {
            if let Some(change) = self.ready.pop_front() {
                return change;
            }
            match self.cache.get(&self.caller).await {
                Ok(catalog) => {
                    let now = catalog.hashes;
                    if let Some(seen) = self.seen.replace(now) {
                        self.ready.extend((seen.tools != now.tools).then_some(ListKind::Tools));
                        self.ready.extend((seen.prompts != now.prompts).then_some(ListKind::Prompts));
                    }
                }
                Err(fault) => tracing::warn!(?fault, "could not check whether tools or prompts changed"),
            }
            if self.ready.is_empty() {
                self.wait().await;
            }
        }
    }

    async fn wait(&mut self) {
        let start = Instant::now();
        self.waiter.wait(self.poll_interval).await;
        // The cached lists may be older than the wake-up, so a second check follows.
        let woken = start.elapsed() < self.poll_interval;
        self.poll_interval = if woken { TTL } else { POLL_INTERVAL };
    }
}
