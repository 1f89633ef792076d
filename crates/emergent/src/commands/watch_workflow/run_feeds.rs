//! The events of the active runs of a workflow, as one stream.

use std::collections::HashSet;

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
    client: &'a Client,
    seen: HashSet<Uuid>,
    streams: SelectAll<BoxStream<'a, RunUpdate>>,
}

impl<'a> RunFeeds<'a> {
    pub fn new(client: &'a Client) -> Self {
        Self { client, seen: HashSet::new(), streams: SelectAll::new() }
    }

    pub fn is_empty(&self) -> bool {
        self.streams.is_empty()
    }

    /// Follows a run, once. Returns false when it is followed already, or too many are.
    pub fn follow(&mut self, run: Uuid) -> bool {
        if self.streams.len() >= MAX_FOLLOWED || !self.seen.insert(run) {
            return false;
        }
        self.streams.push(updates(self.client, run).boxed());
        true
    }

    /// The next update of any run; `None` when none is followed.
    pub async fn next(&mut self) -> Option<RunUpdate> {
        self.streams.next().await
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
                        RunStatus::Queued | RunStatus::Running => {
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

/// Whether a script answers instead of a model in this run; false when that cannot be found out.
pub async fn is_rehearsal(client: &Client, run: Uuid) -> bool {
    load(client, run).await.is_ok_and(|detail| detail.facts.rehearsal)
}
