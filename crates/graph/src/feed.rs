//! The change feed of a project: read from a place on, or followed.

use std::{collections::VecDeque, time::Duration};

use emergent_domain::{
    change::{Change, FeedPosition},
    ids::ProjectId,
};
use emergent_net::backoff::Backoff;
use emergent_store::{Db, Engine, events, feed, wake::Waiter};
use futures_util::{Stream, stream};

use crate::{Graph, error::Result};

/// How often to look without being woken.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// How soon to look again when a wake came before its change could be read.
const REPOLL: Backoff = Backoff::new(Duration::from_millis(5), POLL_INTERVAL);
const PAGE_SIZE: usize = 500;

impl Graph {
    /// The changes after a position, oldest first.
    pub async fn changes(
        &self,
        project: ProjectId,
        after: FeedPosition,
        limit: usize,
    ) -> Result<Vec<Change>> {
        Ok(self.db().read(move |tx| feed::read_after(tx, project, after, limit)).await?.items)
    }

    /// The place after everything that can be read now: to follow only what comes.
    pub async fn latest_position(&self, project: ProjectId) -> Result<FeedPosition> {
        Ok(self.db().read(move |tx| feed::latest(tx, project)).await?)
    }

    /// Every change after a position, as it is committed: each once, in order. Ends after an error.
    pub fn follow(
        &self,
        project: ProjectId,
        after: FeedPosition,
    ) -> impl Stream<Item = Result<Change>> + Send + use<> {
        let follower = Follower {
            db: self.db().clone(),
            project,
            at: after,
            // From before the first look, so that nothing falls between looking and listening.
            waiter: self.db().waiter(&events::feed_channel(project)),
            read: VecDeque::new(),
            empty_polls: 0,
            failed: false,
        };
        stream::unfold(follower, |mut follower| async move {
            let next = follower.next().await?;
            Some((next, follower))
        })
    }
}

struct Follower {
    db: Db,
    project: ProjectId,
    /// Where the next page begins.
    at: FeedPosition,
    waiter: Waiter,
    read: VecDeque<Change>,
    /// Looks since the last wake that found nothing.
    empty_polls: u32,
    failed: bool,
}

impl Follower {
    async fn next(&mut self) -> Option<Result<Change>> {
        if self.failed {
            return None;
        }
        loop {
            if let Some(change) = self.read.pop_front() {
                return Some(Ok(change));
            }
            let (project, at) = (self.project, self.at);
            match self.db.read(move |tx| feed::read_after(tx, project, at, PAGE_SIZE)).await {
                Ok(changes) => {
                    self.at = changes.position;
                    self.read = changes.items.into();
                }
                Err(error) => {
                    self.failed = true;
                    return Some(Err(error.into()));
                }
            }
            if self.read.is_empty() {
                self.pause().await;
            } else {
                self.empty_polls = 0;
            }
        }
    }

    /// On PostgreSQL a commit wakes before its change can be read, if an older transaction is
    /// still open: so the first looks after a wake come soon, then ever later.
    async fn pause(&mut self) {
        let net = match self.db.engine() {
            Engine::Sqlite => POLL_INTERVAL,
            Engine::Postgres => REPOLL.delay(self.empty_polls),
        };
        let woken = tokio::time::timeout(net, self.waiter.wait(POLL_INTERVAL * 3_600)).await.is_ok();
        self.empty_polls = if woken { 0 } else { self.empty_polls + 1 };
    }
}
