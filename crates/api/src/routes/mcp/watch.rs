//! Tells when what a token is offered has changed. A wake says when to look; what counts is
//! whether the list reads differently.

use std::{collections::VecDeque, time::Duration};

use emergent_executor::Executor;
use emergent_mcp::server::{Changed, Fault};
use emergent_store::wake::Waiter;
use futures_util::{StreamExt, stream, stream::BoxStream};

use super::{
    host::Who,
    offering::{Offering, Whose},
    resources,
};

/// For what nobody wakes for: agents, and changes made through another server whose wake was lost.
const LOOK: Duration = Duration::from_secs(5);

struct Watch {
    executor: Executor,
    who: Who,
    waiter: Waiter,
    /// The tools and the prompts as they were last read.
    seen: Option<(Vec<u8>, Vec<u8>)>,
    ready: VecDeque<Changed>,
}

pub(super) fn changes(executor: Executor, who: Who) -> BoxStream<'static, Changed> {
    let waiter = executor.graph().db().waiter(&format!("mcp:{}", who.project));
    let watch = Watch { executor, who, waiter, seen: None, ready: VecDeque::new() };
    stream::unfold(watch, |mut watch| async move { Some((watch.next().await, watch)) }).boxed()
}

impl Watch {
    async fn next(&mut self) -> Changed {
        loop {
            if let Some(change) = self.ready.pop_front() {
                return change;
            }
            match self.read().await {
                Ok(now) => {
                    if let Some((tools, prompts)) = &self.seen {
                        self.ready.extend((*tools != now.0).then_some(Changed::Tools));
                        self.ready.extend((*prompts != now.1).then_some(Changed::Prompts));
                    }
                    self.seen = Some(now);
                }
                Err(fault) => tracing::warn!(?fault, "could not see whether tools or prompts changed"),
            }
            if self.ready.is_empty() {
                self.waiter.wait(LOOK).await;
            }
        }
    }

    async fn read(&self) -> Result<(Vec<u8>, Vec<u8>), Fault> {
        let offering = Offering::read(&self.executor, &self.who, Whose::Everybodys).await?;
        let prompts = resources::prompts(&self.executor, &self.who).await?;
        Ok((offering.offer.list().text().to_vec(), prompts.text().to_vec()))
    }
}
