//! Follows a run: durable events are read from the database, live ones come from the process that
//! drives the run. A follower that reconnects after its last event misses nothing and gets nothing
//! twice.
//!
//! While a model writes an answer, a follower gets the text so far and then each part of the rest once. The parts
//! of an answer do not leave the process that drives the run: a follower on another server gets the whole answer
//! when it is recorded.

use std::collections::VecDeque;

use emergent_domain::{
    ids::{ProjectId, RunId},
    run::MessageRole,
    run_event::{RunEvent, RunEventBody, TextSoFar},
};
use emergent_store::{runs, wake::Waiter};
use futures_util::{Stream, stream};
use tokio::{sync::broadcast, time::Duration};

use crate::{
    Executor, Result,
    event_hub::{LiveAnswer, LiveEvent, Subscription},
    timeline::EventPage,
};

/// How often the database is polled for events that another server recorded.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// The recorded events that are in memory while a follower does not read.
const PAGE_SIZE: usize = 250;
/// The size of these events. A larger one is a page of its own.
const PAGE_BYTES: usize = 64 << 10;

struct Follower {
    executor: Executor,
    project: ProjectId,
    run: RunId,
    /// The `seq` of the last event that was returned.
    last: i64,
    /// The `seq` after which the database is read next. It is before `last` only for a follower that reconnects
    /// while an answer is streamed: what it has received may contain that answer.
    read_after: i64,
    /// The `seq` of the newest recorded answer that this follower has, or is about to get. Parts of answers that
    /// began before it are not returned any more.
    last_answer: i64,
    /// Live events of this process.
    live: broadcast::Receiver<LiveEvent>,
    /// The text of the current answer, which is returned after the recorded events.
    answer: Option<LiveAnswer>,
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
        // The subscription starts before the first read, so that no event is lost in between.
        let Subscription { events, answer } = self.hub().subscribe(run);
        let follower = Follower {
            executor: self.clone(),
            project,
            run,
            last: after,
            read_after: answer.as_ref().map_or(after, |answer| answer.after_seq.min(after)),
            last_answer: 0,
            live: events,
            answer,
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

impl Executor {
    /// The text of the answer that a run writes at the moment, if this process drives the run. Whoever follows the
    /// run gets it from [`Executor::follow`], in order with the parts that come after it.
    pub fn text_so_far(&self, run: RunId) -> Option<TextSoFar> {
        self.hub().text_so_far(run)
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
        let after = self.read_after.min(self.last);
        let page = self.executor.run_events_page(self.project, self.run, after, PAGE_SIZE, PAGE_BYTES);
        let EventPage { mut events, is_last: is_last_page } = page.await?;
        if is_last_page {
            self.state = FollowState::Streaming;
        }
        if events.is_empty() {
            // This also covers a client that had received the last event before.
            let run = self.executor.get_run(self.project, self.run).await?;
            if run.status.is_terminal() && run.seq <= self.last {
                self.state = FollowState::Ended;
            }
        }
        events.iter().for_each(|event| self.remember_answer(event));
        self.read_after = events.last().and_then(|event| event.seq).unwrap_or(self.last).max(after);
        events.retain(|event| event.seq.is_none_or(|seq| seq > self.last));
        self.ready.extend(events);
        if is_last_page && self.state == FollowState::Streaming {
            self.return_answer();
        }
        Ok(())
    }

    fn remember_answer(&mut self, event: &RunEvent) {
        if let (Some(seq), RunEventBody::Message(message)) = (event.seq, &event.body)
            && message.role == MessageRole::Assistant
        {
            self.last_answer = self.last_answer.max(seq);
        }
    }

    /// Returns the text of the answer of the subscription, unless the answer is recorded by now.
    fn return_answer(&mut self) {
        let Some(LiveAnswer { so_far, after_seq, .. }) = self.answer.take() else { return };
        if self.last_answer <= after_seq {
            let (run, at) = (self.run, self.executor.clock().now());
            self.ready.push_back(RunEvent { run, seq: None, at, body: RunEventBody::TextSoFar(so_far) });
        }
    }

    /// Starts a new subscription after live events were lost. The text of the current answer takes their place.
    fn subscribe_again(&mut self) {
        let Subscription { events, answer } = self.executor.hub().subscribe(self.run);
        (self.live, self.answer) = (events, answer);
        self.state = FollowState::CatchingUp;
    }

    async fn wait_for_live_event(&mut self) {
        tokio::select! {
            biased;
            received = self.live.recv() => match received {
                Ok(LiveEvent { event, after_seq }) => self.receive(&event, after_seq),
                Err(_) => self.subscribe_again(),
            },
            () = self.ended.wait(POLL_INTERVAL) => self.state = FollowState::CatchingUp,
        }
    }

    fn receive(&mut self, event: &RunEvent, after_seq: Option<i64>) {
        match event.seq {
            // A part of an answer that is recorded by now.
            None if after_seq.is_some_and(|after_seq| self.last_answer > after_seq) => {}
            None => self.ready.push_back(event.clone()),
            Some(seq) if seq <= self.last => {}
            Some(seq) if seq == self.last + 1 => {
                self.remember_answer(event);
                self.read_after = seq;
                self.ready.push_back(event.clone());
            }
            Some(_) => self.state = FollowState::CatchingUp,
        }
    }
}
