//! The change feed of a project: reading from a position, and following new changes.

use std::{collections::VecDeque, time::Duration};

use emergent_domain::{
    change::{Change, FeedPosition},
    ids::ProjectId,
};
use emergent_net::backoff::Backoff;
use emergent_store::{Db, Engine, feed, wake::Waiter};
use futures_util::{Stream, stream};

use crate::{Graph, error::Result};

/// The poll interval while no wake-up arrives.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// The delay before the next poll if a wake-up arrived before its change was visible.
const REPOLL: Backoff = Backoff::new(Duration::from_millis(5), POLL_INTERVAL);
/// The changes that are in memory while a follower does not read.
const PAGE_SIZE: usize = 100;

impl Graph {
    /// Returns the changes after a position, oldest first.
    pub async fn changes(
        &self,
        project: ProjectId,
        after: FeedPosition,
        limit: usize,
    ) -> Result<Vec<Change>> {
        Ok(self.db().read(move |tx| feed::read_after(tx, project, after, limit)).await?.items)
    }

    /// Returns the position after all changes that are visible now, for callers that only want new
    /// changes.
    pub async fn latest_position(&self, project: ProjectId) -> Result<FeedPosition> {
        Ok(self.db().read(move |tx| feed::latest(tx, project)).await?)
    }

    /// Streams every change after a position as it is committed, each exactly once and in order.
    /// The stream ends after an error.
    pub fn follow(
        &self,
        project: ProjectId,
        after: FeedPosition,
    ) -> impl Stream<Item = Result<Change>> + Send + use<> {
        let follower = Follower {
            db: self.db().clone(),
            project,
            at: after,
            // The waiter is registered before the first poll, so that no change is missed between
            // polling and waiting.
            waiter: self.db().waiter(&feed::feed_channel(project)),
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
    /// The position after which the next page starts.
    at: FeedPosition,
    waiter: Waiter,
    read: VecDeque<Change>,
    /// The number of polls since the last wake-up that returned nothing.
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

    /// On PostgreSQL a commit can send its wake-up before its change is visible, while an older
    /// transaction is still open. The first polls after a wake-up are therefore close together, and
    /// later ones are further apart.
    async fn pause(&mut self) {
        let net = match self.db.engine() {
            Engine::Sqlite => POLL_INTERVAL,
            Engine::Postgres => REPOLL.delay(self.empty_polls),
        };
        let woken = tokio::time::timeout(net, self.waiter.wait(POLL_INTERVAL * 3_600)).await.is_ok();
        self.empty_polls = if woken { 0 } else { self.empty_polls + 1 };
    }
}
