//! The events of the active runs of a workflow, as one stream.

use std::collections::{HashSet, VecDeque};

use emergent_domain::run::RunStatus;
use emergent_wire::{
    run_detail::RunDetailView,
    run_event::{BodyView, RunEventView},
};
use futures_util::{
    StreamExt,
    stream::{self, BoxStream, SelectAll},
};
use uuid::Uuid;

use crate::{
    client::Client,
    commands::watch_run::{Event, Events},
    error::Result,
};

/// How many runs are followed at a time. Each is a stream of the server, which limits them.
const MAX_FOLLOWED: usize = 8;

/// What one of the runs did.
pub enum RunUpdate {
    /// The run was loaded; its events follow.
    Loaded {
        rehearsal: bool,
    },
    Event {
        run: Uuid,
        event: Box<Event<RunEventView>>,
    },
    /// There are no more events, because the run has ended or cannot be read.
    Closed {
        run: Uuid,
    },
}

/// Follows runs until they end.
pub struct RunFeeds<'a> {
    /// Opens the updates of a run, of which `Closed` is the last.
    source: Box<dyn Fn(Uuid) -> BoxStream<'a, RunUpdate> + Send + 'a>,
    seen: HashSet<Uuid>,
    /// Runs that are followed as soon as another one has ended, the oldest first.
    waiting: VecDeque<Uuid>,
    streams: SelectAll<BoxStream<'a, RunUpdate>>,
    /// How many runs are followed now. A stream stays in `streams` for a while after its last update.
    followed: usize,
}

impl<'a> RunFeeds<'a> {
    pub fn new(client: &'a Client) -> Self {
        Self::with_source(move |run| updates(client, run).boxed())
    }

    fn with_source(source: impl Fn(Uuid) -> BoxStream<'a, RunUpdate> + Send + 'a) -> Self {
        Self {
            source: Box::new(source),
            seen: HashSet::new(),
            waiting: VecDeque::new(),
            streams: SelectAll::new(),
            followed: 0,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.streams.is_empty()
    }

    /// Follows a run, once: now, or when fewer others are followed. Returns false when it is known already.
    pub fn follow(&mut self, run: Uuid) -> bool {
        if !self.seen.insert(run) {
            return false;
        }
        self.waiting.push_back(run);
        self.follow_waiting();
        true
    }

    fn follow_waiting(&mut self) {
        while self.followed < MAX_FOLLOWED {
            let Some(run) = self.waiting.pop_front() else { return };
            self.streams.push((self.source)(run));
            self.followed += 1;
        }
    }

    /// The next update of any run; `None` when none is followed.
    pub async fn next(&mut self) -> Option<RunUpdate> {
        let update = self.streams.next().await?;
        if matches!(update, RunUpdate::Closed { .. }) {
            self.followed -= 1;
            self.follow_waiting();
        }
        Some(update)
    }
}

/// Where the stream of one run is.
enum Feed<'a> {
    Start,
    Open(Box<Events<'a>>),
    Last,
    Over,
}

fn updates(client: &Client, run: Uuid) -> impl futures_util::Stream<Item = RunUpdate> + Send + '_ {
    stream::unfold(Feed::Start, move |feed| async move {
        match feed {
            Feed::Start => match load(client, run).await {
                Ok(detail) => {
                    let rehearsal = detail.facts.rehearsal;
                    // What an ended run did is not live any more; the workflow's own events describe it.
                    let next = match detail.facts.status {
                        RunStatus::Queued | RunStatus::Running | RunStatus::Waiting => {
                            let path = format!("/api/admin/agents/{}/runs/{run}", detail.facts.agent_id);
                            Feed::Open(Box::new(Events::new(client, &path)))
                        }
                        _ => Feed::Last,
                    };
                    Some((RunUpdate::Loaded { rehearsal }, next))
                }
                // The token may lack the scope. The graph is drawn without it.
                Err(_) => Some((RunUpdate::Closed { run }, Feed::Over)),
            },
            Feed::Open(mut events) => match events.next::<RunEventView>().await {
                Ok(event) => {
                    let is_last = matches!(
                        event.parsed.as_ref().map(|event| &event.body),
                        Some(BodyView::RunEnded { .. })
                    );
                    let next = if is_last { Feed::Last } else { Feed::Open(events) };
                    Some((RunUpdate::Event { run, event: Box::new(event) }, next))
                }
                Err(_) => Some((RunUpdate::Closed { run }, Feed::Over)),
            },
            Feed::Last => Some((RunUpdate::Closed { run }, Feed::Over)),
            Feed::Over => None,
        }
    })
}

async fn load(client: &Client, run: Uuid) -> Result<RunDetailView> {
    client.get(&format!("/api/admin/runs/{run}")).await?.data().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn runs_beyond_the_limit_are_followed_when_others_end() {
        let runs: Vec<Uuid> = (0..3 * MAX_FOLLOWED as u128).map(Uuid::from_u128).collect();
        let loaded =
            |run| stream::iter([RunUpdate::Loaded { rehearsal: false }, RunUpdate::Closed { run }]).boxed();
        let mut feeds = RunFeeds::with_source(loaded);
        assert!(runs.iter().all(|run| feeds.follow(*run)));
        assert!(!feeds.follow(runs[0]), "once");
        let (mut open, mut most_open, mut closed) = (0, 0, HashSet::new());
        while let Some(update) = feeds.next().await {
            match update {
                RunUpdate::Loaded { .. } => open += 1,
                RunUpdate::Closed { run } => {
                    open -= 1;
                    closed.insert(run);
                }
                RunUpdate::Event { .. } => {}
            }
            most_open = most_open.max(open);
        }
        assert_eq!(closed.len(), runs.len(), "each is followed in the end");
        assert!(most_open <= MAX_FOLLOWED, "{most_open}");
    }
}
