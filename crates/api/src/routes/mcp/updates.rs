//! Tells when a resource no longer reads as it did. A change of the graph says when to look; what
//! counts is what the resource says then, whatever made it say so.

use std::{
    collections::{BTreeMap, VecDeque},
    hash::{DefaultHasher, Hasher},
    time::Duration,
};

use emergent_executor::Executor;
use emergent_mcp::server::{Fault, Subscribed};
use emergent_store::{events, wake::Waiter};
use futures_util::{StreamExt, stream, stream::BoxStream};
use tokio::sync::watch;

use super::{host::Who, resources};

/// For what nobody wakes for: template packs, and a wake of another server that was lost.
const LOOK: Duration = Duration::from_secs(5);
/// However much changes, resources are not read more often than this.
const PAUSE: Duration = Duration::from_secs(1);
/// What is not there reads like this.
const NOTHING: u64 = 0;

/// What a resource reads like now; refused when it is not there.
pub(super) async fn subscribe(executor: &Executor, who: &Who, uri: &str) -> Result<u64, Fault> {
    Ok(mark(resources::read(executor, who, uri).await?.text()))
}

pub(super) fn updates(
    executor: &Executor,
    who: Who,
    of: watch::Receiver<Subscribed>,
) -> BoxStream<'static, String> {
    let waiter = executor.graph().db().waiter(&events::channel(who.project));
    let executor = executor.clone();
    let updates = Updates { executor, who, of, waiter, seen: BTreeMap::new(), ready: VecDeque::new() };
    stream::unfold(updates, |mut updates| async move { Some((updates.next().await?, updates)) }).boxed()
}

struct Updates {
    executor: Executor,
    who: Who,
    of: watch::Receiver<Subscribed>,
    waiter: Waiter,
    /// What each read like last.
    seen: BTreeMap<String, u64>,
    ready: VecDeque<String>,
}

impl Updates {
    /// None when nobody can ask for more any more.
    async fn next(&mut self) -> Option<String> {
        loop {
            if let Some(uri) = self.ready.pop_front() {
                return Some(uri);
            }
            self.look().await;
            if self.ready.is_empty() {
                self.wait().await?;
            }
        }
    }

    async fn look(&mut self) {
        let wanted = self.of.borrow_and_update().clone();
        self.seen.retain(|uri, _| wanted.contains_key(uri));
        for (uri, first) in wanted {
            let now = match resources::read(&self.executor, &self.who, &uri).await {
                Ok(fields) => mark(fields.text()),
                Err(Fault::NoResource { .. }) => NOTHING,
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
        if self.of.borrow().is_empty() {
            return self.of.changed().await.ok();
        }
        tokio::select! {
            () = self.waiter.wait(LOOK) => tokio::time::sleep(PAUSE).await,
            more = self.of.changed() => more.ok()?,
        }
        Some(())
    }
}

fn mark(text: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(text);
    hasher.finish().max(NOTHING + 1)
}
