//! Tells when what a token is offered has changed. A wake says when to look; what counts is
//! whether the list reads differently. However many listen, the lists are read once: the shelf has
//! them.

use std::{collections::VecDeque, time::Duration};

use emergent_executor::Executor;
use emergent_mcp::server::Changed;
use emergent_store::wake::Waiter;
use futures_util::{StreamExt, stream, stream::BoxStream};
use tokio::time::Instant;

use super::{
    host::Who,
    offering::Marks,
    shelf::{FRESH, Shelf},
};

/// For what nobody wakes for: agents, and changes made through another server whose wake was lost.
const LOOK: Duration = Duration::from_secs(5);

struct Watch {
    shelf: Shelf,
    who: Who,
    waiter: Waiter,
    patience: Duration,
    /// The lists as they were last read.
    seen: Option<Marks>,
    ready: VecDeque<Changed>,
}

pub(super) fn changes(executor: &Executor, shelf: Shelf, who: Who) -> BoxStream<'static, Changed> {
    let waiter = executor.graph().db().waiter(&format!("mcp:{}", who.project));
    let watch = Watch { shelf, who, waiter, patience: LOOK, seen: None, ready: VecDeque::new() };
    stream::unfold(watch, |mut watch| async move { Some((watch.next().await, watch)) }).boxed()
}

impl Watch {
    async fn next(&mut self) -> Changed {
        loop {
            if let Some(change) = self.ready.pop_front() {
                return change;
            }
            match self.shelf.get(&self.who).await {
                Ok(offering) => {
                    let now = offering.marks;
                    if let Some(seen) = self.seen.replace(now) {
                        self.ready.extend((seen.tools != now.tools).then_some(Changed::Tools));
                        self.ready.extend((seen.prompts != now.prompts).then_some(Changed::Prompts));
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
        self.waiter.wait(self.patience).await;
        // What is on the shelf may be from just before the wake: then a second look tells.
        let woken = start.elapsed() < self.patience;
        self.patience = if woken { FRESH } else { LOOK };
    }
}
