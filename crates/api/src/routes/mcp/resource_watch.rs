//! Notifies when the content of a subscribed resource has changed. A change of the graph says when to
//! check; the notification is sent only if the content differs.

use std::{
    collections::{BTreeMap, VecDeque},
    hash::{DefaultHasher, Hasher},
    time::Duration,
};

use emergent_executor::Executor;
use emergent_mcp::server::{Fault, SubscribedResources};
use emergent_store::{feed, wake::Waiter};
use futures_util::{StreamExt, stream, stream::BoxStream};
use tokio::sync::watch;

use super::{host::McpCaller, resources};

/// How often resources are checked for changes without a wake-up: template packs, and a lost wake-up of
/// another server.
const POLL_INTERVAL: Duration = Duration::from_secs(5);
/// Resources are not read more often than this, however much changes.
const MIN_INTERVAL: Duration = Duration::from_secs(1);
/// The hash of a resource that does not exist.
const MISSING_HASH: u64 = 0;

/// Returns the hash of a resource's current content; fails if the resource does not exist.
pub(super) async fn subscribe(executor: &Executor, caller: &McpCaller, uri: &str) -> Result<u64, Fault> {
    Ok(hash_text(resources::read(executor, caller, uri).await?.as_bytes()))
}

/// Streams the URIs of subscribed resources that have changed.
pub(super) fn updates(
    executor: &Executor,
    caller: McpCaller,
    subscribed: watch::Receiver<SubscribedResources>,
) -> BoxStream<'static, String> {
    let waiter = executor.graph().db().waiter(&feed::feed_channel(caller.project));
    let executor = executor.clone();
    let updates =
        ResourceWatch { executor, caller, subscribed, waiter, seen: BTreeMap::new(), ready: VecDeque::new() };
    stream::unfold(updates, |mut updates| async move { Some((updates.next().await?, updates)) }).boxed()
}

/// The state of one stream of updates.
struct ResourceWatch {
    executor: Executor,
    caller: McpCaller,
    subscribed: watch::Receiver<SubscribedResources>,
    waiter: Waiter,
    /// The hash of each resource when it was last read.
    seen: BTreeMap<String, u64>,
    ready: VecDeque<String>,
}

impl ResourceWatch {
    /// Returns `None` when no more subscriptions are possible.
    async fn next(&mut self) -> Option<String> {
        loop {
            if let Some(uri) = self.ready.pop_front() {
                return Some(uri);
            }
            self.poll().await;
            if self.ready.is_empty() {
                self.wait().await?;
            }
        }
    }

    /// Reads all subscribed resources, and queues those that have changed.
    async fn poll(&mut self) {
        let subscribed = self.subscribed.borrow_and_update().clone();
        self.seen.retain(|uri, _| subscribed.contains_key(uri));
        for (uri, hash_when_subscribed) in subscribed {
            let now = match resources::read(&self.executor, &self.caller, &uri).await {
                Ok(fields) => hash_text(fields.as_bytes()),
                Err(Fault::ResourceNotFound { .. }) => MISSING_HASH,
                // The read failed, so the next check decides.
                Err(_) => continue,
            };
            let previous = self.seen.insert(uri.clone(), now).unwrap_or(hash_when_subscribed);
            if previous != now {
                self.ready.push_back(uri);
            }
        }
    }

    /// Waits for a change of the graph or of the subscriptions. Returns `None` when the subscriptions have
    /// ended.
    async fn wait(&mut self) -> Option<()> {
        if self.subscribed.borrow().is_empty() {
            return self.subscribed.changed().await.ok();
        }
        tokio::select! {
            () = self.waiter.wait(POLL_INTERVAL) => tokio::time::sleep(MIN_INTERVAL).await,
            changed = self.subscribed.changed() => changed.ok()?,
        }
        Some(())
    }
}

/// Hashes a content; the result is never [`MISSING_HASH`].
fn hash_text(text: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(text);
    hasher.finish().max(MISSING_HASH + 1)
}
