//! Tells when a resource no longer reads as it did. A change of the graph says when to look; what
//! counts is what the resource says then, whatever made it say so.

use std::{
    collections::{BTreeMap, VecDeque},
    hash::{DefaultHasher, Hasher},
    time::Duration,
};

use emergent_executor::Executor;
use emergent_mcp::server::{Fault, SubscribedResources};
use emergent_store::{events, wake::Waiter};
use futures_util::{StreamExt, stream, stream::BoxStream};
use tokio::sync::watch;

use super::{host::McpCaller, resources};

/// For what nobody wakes for: template packs, and a wake of another server that was lost.
const POLL_INTERVAL: Duration = Duration::from_secs(5);
/// However much changes, resources are not read more often than this.
const MIN_INTERVAL: Duration = Duration::from_secs(1);
/// What is not there reads like this.
const MISSING_HASH: u64 = 0;

/// What a resource reads like now; refused when it is not there.
pub(super) async fn subscribe(executor: &Executor, who: &McpCaller, uri: &str) -> Result<u64, Fault> {
    Ok(hash_text(resources::read(executor, who, uri).await?.as_bytes()))
}

pub(super) fn updates(
    executor: &Executor,
    who: McpCaller,
    of: watch::Receiver<SubscribedResources>,
) -> BoxStream<'static, String> {
    let waiter = executor.graph().db().waiter(&events::feed_channel(who.project));
    let executor = executor.clone();
    let updates = ResourceWatch {
        executor,
        caller: who,
        subscribed: of,
        waiter,
        seen: BTreeMap::new(),
        ready: VecDeque::new(),
    };
    stream::unfold(updates, |mut updates| async move { Some((updates.next().await?, updates)) }).boxed()
}

struct ResourceWatch {
    executor: Executor,
    caller: McpCaller,
    subscribed: watch::Receiver<SubscribedResources>,
    waiter: Waiter,
    /// What each read like last.
    seen: BTreeMap<String, u64>,
    ready: VecDeque<String>,
}

impl ResourceWatch {
    /// None when nobody can ask for more any more.
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

    async fn poll(&mut self) {
        let wanted = self.subscribed.borrow_and_update().clone();
        self.seen.retain(|uri, _| wanted.contains_key(uri));
        for (uri, first) in wanted {
            let now = match resources::read(&self.executor, &self.caller, &uri).await {
                Ok(fields) => hash_text(fields.as_bytes()),
                Err(Fault::ResourceNotFound { .. }) => MISSING_HASH,
                // Nobody knows; the next look may.
                Err(_) => continue,
            };
            let before = self.seen.insert(uri.clone(), now).unwrap_or(first);
            if before != now {
                self.ready.push_back(uri);
            }
        }
    }

    async fn wait(&mut self) -> Option<()> {
        if self.subscribed.borrow().is_empty() {
            return self.subscribed.changed().await.ok();
        }
        tokio::select! {
            () = self.waiter.wait(POLL_INTERVAL) => tokio::time::sleep(MIN_INTERVAL).await,
            more = self.subscribed.changed() => more.ok()?,
        }
        Some(())
    }
}

fn hash_text(text: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(text);
    hasher.finish().max(MISSING_HASH + 1)
}
