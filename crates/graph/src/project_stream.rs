//! The stream of a project: changes of its graph and new statuses of its runs and workflows, each once and in one
//! order, from every server.
//!
//! The followers of a project share one task that reads the database, so that a change costs one read however many
//! follow. The task ends with its last follower. A follower that starts at an older position, or that falls
//! behind, reads the database itself until it has caught up.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, OnceLock, Weak},
    time::Duration,
};

use emergent_domain::{
    ids::ProjectId,
    project_event::{ProjectEvent, StreamPosition},
};
use emergent_net::backoff::Backoff;
use emergent_store::{
    Db, Engine, feed,
    project_events::{self, ProjectEvents},
    requester::{Requester, on_behalf_of},
    wake::Waiter,
};
use futures_util::{Stream, stream};
use parking_lot::Mutex;
use tokio::{sync::broadcast, task::JoinHandle};
use tracing::warn;

use crate::{Graph, error::Result};

/// The poll interval while no wake-up arrives.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// The delay before the next poll if a wake-up arrived before its event was visible, and after a failed read.
const REPOLL: Backoff = Backoff::new(Duration::from_millis(5), POLL_INTERVAL);
/// The events of one read.
const PAGE_SIZE: usize = 100;
/// A follower that falls behind by more events than this reads the database.
const CHANNEL_CAPACITY: usize = 256;

/// The readers of the projects that are followed in this process.
#[derive(Default)]
pub(crate) struct ProjectStreams(Mutex<HashMap<ProjectId, Weak<Reader>>>);

/// The task that reads the events of one project, and its followers' channel.
struct Reader {
    events: broadcast::Sender<Arc<SharedEvent>>,
    task: JoinHandle<()>,
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl ProjectStreams {
    /// Returns the reader of a project, and starts it at `from` if nobody follows the project.
    fn reader(&self, db: &Db, project: ProjectId, from: StreamPosition) -> Arc<Reader> {
        let mut readers = self.0.lock();
        readers.retain(|_, reader| reader.strong_count() > 0);
        if let Some(reader) = readers.get(&project).and_then(Weak::upgrade) {
            return reader;
        }
        let (events, _) = broadcast::channel(CHANNEL_CAPACITY);
        let work = read_and_publish(db.clone(), project, from, events.clone());
        #[expect(clippy::disallowed_methods, reason = "aborted when the last follower is dropped")]
        let task = tokio::spawn(on_behalf_of(Requester::Project(project), work));
        let reader = Arc::new(Reader { events, task });
        readers.insert(project, Arc::downgrade(&reader));
        reader
    }
}

/// Reads new events as they become visible, and sends them to the followers.
async fn read_and_publish(
    db: Db,
    project: ProjectId,
    from: StreamPosition,
    events: broadcast::Sender<Arc<SharedEvent>>,
) {
    let mut wakes = Wakes::new(&db, project);
    let (mut at, mut failures) = (from, 0);
    loop {
        match read_page(&db, project, at).await {
            Ok(page) => {
                (at, failures) = (page.position, 0);
                if page.items.is_empty() {
                    wakes.wait().await;
                } else {
                    wakes.reset();
                }
                for event in page.items {
                    // Sending fails only without followers, and then this task is about to be aborted.
                    let _ = events.send(Arc::new(SharedEvent::from(event)));
                }
            }
            Err(error) => {
                warn!(project.id = %project, %error, "cannot read the events of a project; trying again");
                failures += 1;
                tokio::time::sleep(REPOLL.delay(failures)).await;
            }
        }
    }
}

async fn read_page(db: &Db, project: ProjectId, after: StreamPosition) -> Result<ProjectEvents> {
    Ok(db.read(move |tx| project_events::read_after(tx, project, after, PAGE_SIZE)).await?)
}

/// Waits until there may be new events of a project.
struct Wakes {
    graph: Waiter,
    statuses: Waiter,
    /// On SQLite a wake-up comes after the commit. On PostgreSQL it can come before the event is visible, while
    /// an older transaction is still open; the first polls after it are close together.
    comes_early: bool,
    empty_polls: u32,
}

impl Wakes {
    /// The waiters are registered before the first read, so that nothing is missed in between.
    fn new(db: &Db, project: ProjectId) -> Self {
        Self {
            graph: db.waiter(&feed::feed_channel(project)),
            statuses: db.waiter(&project_events::channel(project)),
            comes_early: db.engine() == Engine::Postgres,
            empty_polls: 0,
        }
    }

    fn reset(&mut self) {
        self.empty_polls = 0;
    }

    async fn wait(&mut self) {
        let limit = if self.comes_early { REPOLL.delay(self.empty_polls) } else { POLL_INTERVAL };
        let woken = tokio::select! {
            woken = self.graph.wait_for_wake(limit) => woken,
            woken = self.statuses.wait_for_wake(limit) => woken,
        };
        self.empty_polls = if woken { 0 } else { self.empty_polls.saturating_add(1) };
    }
}

/// An event with the text that is sent for it. All followers of the reader have the same one, so that an event is
/// serialised once, however many follow.
#[derive(Debug)]
pub struct SharedEvent {
    event: ProjectEvent,
    text: OnceLock<Option<String>>,
}

impl From<ProjectEvent> for SharedEvent {
    fn from(event: ProjectEvent) -> Self {
        Self { event, text: OnceLock::new() }
    }
}

impl SharedEvent {
    pub fn event(&self) -> &ProjectEvent {
        &self.event
    }

    /// Returns the text of the event. The first caller serialises it; `None` if that failed. All callers have to use
    /// the same format.
    pub fn text(&self, serialise: impl FnOnce(&ProjectEvent) -> Option<String>) -> Option<&str> {
        self.text.get_or_init(|| serialise(&self.event)).as_deref()
    }
}

/// An entry of the stream and the position after it. The position depends on where the follower started.
#[derive(Debug, Clone)]
pub struct StreamEntry {
    pub event: Arc<SharedEvent>,
    pub position: StreamPosition,
}

struct Follower {
    db: Db,
    project: ProjectId,
    at: StreamPosition,
    #[expect(dead_code, reason = "dropping the last one ends the task")]
    reader: Arc<Reader>,
    live: broadcast::Receiver<Arc<SharedEvent>>,
    ready: VecDeque<Arc<SharedEvent>>,
    /// Whether the database has to be read before events of the reader are returned.
    is_behind: bool,
    failed: bool,
}

impl Follower {
    async fn next(&mut self) -> Option<Result<StreamEntry>> {
        while !self.failed {
            if let Some(event) = self.ready.pop_front() {
                self.at = self.at.after(event.event());
                return Some(Ok(StreamEntry { event, position: self.at }));
            }
            if self.is_behind {
                if let Err(error) = self.catch_up().await {
                    self.failed = true;
                    return Some(Err(error));
                }
                continue;
            }
            match self.live.recv().await {
                Ok(event) if self.at.includes(event.event()) => {}
                Ok(event) => self.ready.push_back(event),
                Err(broadcast::error::RecvError::Lagged(_)) => self.is_behind = true,
                Err(broadcast::error::RecvError::Closed) => return None,
            }
        }
        None
    }

    /// Reads the next page. The channel was subscribed to before, so what comes after the last page is in it.
    async fn catch_up(&mut self) -> Result<()> {
        let page = read_page(&self.db, self.project, self.at).await?;
        if page.items.is_empty() {
            self.is_behind = false;
            self.at = page.position;
        }
        self.ready.extend(page.items.into_iter().map(|event| Arc::new(event.into())));
        Ok(())
    }
}

impl Graph {
    /// Returns the position after everything in a project that is visible now.
    pub async fn latest_stream_position(&self, project: ProjectId) -> Result<StreamPosition> {
        Ok(self.db().read(move |tx| project_events::latest(tx, project)).await?)
    }

    /// Whether everything after a position is still stored.
    pub async fn has_events_after(&self, after: StreamPosition) -> Result<bool> {
        Ok(self.db().read(move |tx| project_events::is_complete_after(tx, after)).await?)
    }

    /// Streams everything that happens in a project after a position. The stream ends after an error.
    pub async fn follow_project(
        &self,
        project: ProjectId,
        after: StreamPosition,
    ) -> Result<impl Stream<Item = Result<StreamEntry>> + Send + use<>> {
        // A reader starts here at the latest, so what it leaves out is visible to the follower that catches up.
        let now = self.latest_stream_position(project).await?;
        let reader = self.project_streams().reader(self.db(), project, now);
        let follower = Follower {
            db: self.db().clone(),
            project,
            at: after,
            live: reader.events.subscribe(),
            reader,
            ready: VecDeque::new(),
            is_behind: true,
            failed: false,
        };
        Ok(stream::unfold(follower, |mut follower| async move {
            let next = follower.next().await?;
            Some((next, follower))
        }))
    }
}
