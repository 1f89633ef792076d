//! Following a run: what lasts is read from the database, what is only told live comes from the
//! process that drives it. A follower that reconnects after its last event misses nothing and sees
//! nothing twice.

use std::{collections::VecDeque, sync::Arc};

use emergent_domain::{
    ids::{ProjectId, RunId},
    run_event::{RunEvent, RunEventBody},
};
use emergent_store::{runs, wake::Waiter};
use futures_util::{Stream, stream};
use tokio::{sync::broadcast, time::Duration};

use crate::{Executor, Result};

/// How often to look for what another server recorded.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
const PAGE_SIZE: usize = 200;

struct Follower {
    executor: Executor,
    project: ProjectId,
    run: RunId,
    /// The place of the last event that was passed on.
    last: i64,
    live: broadcast::Receiver<Arc<RunEvent>>,
    ended: Waiter,
    ready: VecDeque<RunEvent>,
    state: FollowState,
}

#[derive(PartialEq)]
enum FollowState {
    /// The database has to be read before anything live is passed on.
    CatchingUp,
    Streaming,
    Ended,
}

impl Executor {
    /// Every event of a run after a place, as it happens; ends after `run_ended`.
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
            // Before the first look, so that nothing falls between looking and listening.
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

    async fn catch_up(&mut self) -> Result<()> {
        let events = self.executor.run_events(self.project, self.run, self.last, PAGE_SIZE).await?;
        if events.len() < PAGE_SIZE {
            self.state = FollowState::Streaming;
        }
        if events.is_empty() {
            // Also for a client that had seen the end already.
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
            heard = self.live.recv() => match heard {
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
