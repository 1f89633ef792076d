//! Tells when what a token is offered has changed. A wake says when to look; what counts is
//! whether the list reads differently. However many listen, the lists are read once: the shelf has
//! them.

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

/// For what nobody wakes for: agents, and changes made through another server whose wake was lost.
const POLL_INTERVAL: Duration = Duration::from_secs(5);

struct CatalogWatch {
    cache: CatalogCache,
    caller: McpCaller,
    waiter: Waiter,
    poll_interval: Duration,
    /// The lists as they were last read.
    seen: Option<ListHashes>,
    ready: VecDeque<ListKind>,
}

pub(super) fn list_changes(
    executor: &Executor,
    shelf: CatalogCache,
    who: McpCaller,
) -> BoxStream<'static, ListKind> {
    let waiter = executor.graph().db().waiter(&format!("mcp:{}", who.project));
    let watch = CatalogWatch {
        cache: shelf,
        caller: who,
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
                Ok(offering) => {
                    let now = offering.hashes;
                    if let Some(seen) = self.seen.replace(now) {
                        self.ready.extend((seen.tools != now.tools).then_some(ListKind::Tools));
                        self.ready.extend((seen.prompts != now.prompts).then_some(ListKind::Prompts));
                    }
                }
                Err(fault) => tracing::warn!(?fault, "could not see whether tools or prompts changed"),
            }
            if self.ready.is_empty() {
                self.wait().await;
            }
        }
    }

    async fn wait(&mut self) {
        let start = Instant::now();
        self.waiter.wait(self.poll_interval).await;
        // What is on the shelf may be from just before the wake: then a second look tells.
        let woken = start.elapsed() < self.poll_interval;
        self.poll_interval = if woken { TTL } else { POLL_INTERVAL };
    }
}
