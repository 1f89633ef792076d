//! Follows a run: durable events are read from the database, live ones come from the process that
//! drives the run. A follower that reconnects after its last event misses nothing and gets nothing
//! twice.

use std::{collections::VecDeque, sync::Arc};

use emergent_domain::{
    ids::{ProjectId, RunId},
    run_event::{RunEvent, RunEventBody},
};
use emergent_store::{runs, wake::Waiter};
use futures_util::{Stream, stream};
use tokio::{sync::broadcast, time::Duration};

use crate::{Executor, Result};

/// How often the database is polled for events that another server recorded.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// The recorded events that are in memory while a follower does not read.
const PAGE_SIZE: usize = 25;

struct Follower {
    executor: Executor,
    project: ProjectId,
    run: RunId,
    /// The `seq` of the last event that was returned.
    last: i64,
    /// Live events of this process.
    live: broadcast::Receiver<Arc<RunEvent>>,
    /// Wakes when the run has ended on any server.
    ended: Waiter,
    /// Events that are to be returned next.
    ready: VecDeque<RunEvent>,
    state: FollowState,
}

#[derive(PartialEq)]
enum FollowState {
    /// The database has to be read before any live event is returned.
    CatchingUp,
    Streaming,
    Ended,
}

impl Executor {
    /// Streams all events of a run after a `seq`, as they happen; the stream closes after `run_ended`.
    pub fn follow(
        &self,
        project: ProjectId,
        run: RunId,
        after: i64,
    ) -> impl Stream<Item = Result<RunEvent>> + Send + use<> {
        let follower = Follower {
            executor: self.clone(),
            project,
            run,
            last: after,
            // The subscription starts before the first read, so that no event is lost in between.
            live: self.hub().subscribe(run),
            ended: self.db().waiter(&runs::ended_channel(run)),
            ready: VecDeque::new(),
            state: FollowState::CatchingUp,
        };
        stream::unfold(follower, |mut follower| async move {
            let next = follower.next().await?;
            if next.is_err() {
                follower.state = FollowState::Ended;
            }
            Some((next, follower))
        })
    }
}

impl Follower {
    async fn next(&mut self) -> Option<Result<RunEvent>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                self.last = event.seq.unwrap_or(self.last);
                if matches!(event.body, RunEventBody::Ended { .. }) {
                    self.state = FollowState::Ended;
                }
                return Some(Ok(event));
            }
            match self.state {
                FollowState::Ended => return None,
                FollowState::CatchingUp => {
                    if let Err(error) = self.catch_up().await {
                        return Some(Err(error));
                    }
                }
                FollowState::Streaming => self.wait_for_live_event().await,
            }
        }
    }

    /// Reads the next page of recorded events.
    async fn catch_up(&mut self) -> Result<()> {
        let events = self.executor.run_events(self.project, self.run, self.last, PAGE_SIZE).await?;
        if events.len() < PAGE_SIZE {
            self.state = FollowState::Streaming;
        }
        if events.is_empty() {
            // This also covers a client that had received the last event before.
            let run = self.executor.get_run(self.project, self.run).await?;
            if run.status.is_terminal() && run.seq <= self.last {
                self.state = FollowState::Ended;
            }
        }
        self.ready.extend(events);
        Ok(())
    }

    async fn wait_for_live_event(&mut self) {
        tokio::select! {
            biased;
            received = self.live.recv() => match received {
                Ok(event) => match event.seq {
                    None => self.ready.push_back(event.as_ref().clone()),
                    Some(seq) if seq <= self.last => {}
                    Some(seq) if seq == self.last + 1 => self.ready.push_back(event.as_ref().clone()),
                    Some(_) => self.state = FollowState::CatchingUp,
                },
                Err(_) => self.state = FollowState::CatchingUp,
            },
            () = self.ended.wait(POLL_INTERVAL) => self.state = FollowState::CatchingUp,
        }
    }
}
