//! Places: how many runs a server drives at once, and a place for a run that is about to be
//! admitted. Such a run is this server's from the transaction that admits it on, and does not wait
//! in the queue for a runner to take it.

use std::sync::Arc;

use emergent_domain::run::Run;
use emergent_graph::WriteContext;
use emergent_store::Tx;
use tokio::{
    runtime::Handle,
    sync::{Notify, OwnedSemaphorePermit, Semaphore},
};

use crate::{
    Executor, Result,
    run_task::{self, LoadedRun},
    sessions::{self, GraphDrafts, SessionMessages},
};

/// A place among the runs that are driven at once. A run that waits for others leaves it.
pub(crate) struct RunSlot {
    semaphore: Arc<Semaphore>,
    permit: Option<OwnedSemaphorePermit>,
    freed: Arc<Notify>,
}

impl RunSlot {
    pub fn release(&mut self) {
        if self.permit.take().is_some() {
            self.freed.notify_one();
        }
    }

    pub async fn acquire(&mut self) {
        if self.permit.is_none() {
            // The semaphore is never closed.
            self.permit = Arc::clone(&self.semaphore).acquire_owned().await.ok();
        }
    }

    /// With the same runner, and not entered.
    pub fn unacquired(&self) -> Self {
        Self::new(&self.semaphore, &self.freed, None)
    }

    fn new(places: &Arc<Semaphore>, freed: &Arc<Notify>, permit: Option<OwnedSemaphorePermit>) -> Self {
        Self { semaphore: Arc::clone(places), permit, freed: Arc::clone(freed) }
    }
}

impl Drop for RunSlot {
    fn drop(&mut self) {
        self.release();
    }
}

/// A runner under one name, with its places.
#[derive(Clone)]
pub(crate) struct RunnerHandle {
    pub owner: Arc<str>,
    slots: Arc<Semaphore>,
    pub freed: Arc<Notify>,
    /// Whose threads drive its runs, whoever admits them.
    runtime: Handle,
}

impl RunnerHandle {
    pub fn new(owner: Arc<str>, places: usize) -> Self {
        let (slots, freed) = (Arc::new(Semaphore::new(places)), Arc::default());
        Self { owner, slots, freed, runtime: Handle::current() }
    }

    pub fn is_full(&self) -> bool {
        self.slots.available_permits() == 0
    }

    /// So many that are free, or all that are.
    pub fn try_acquire_slots(&self, most: usize) -> Vec<RunSlot> {
        let free = || Arc::clone(&self.slots).try_acquire_owned().ok();
        let slot = |held| RunSlot::new(&self.slots, &self.freed, Some(held));
        std::iter::from_fn(free).take(most).map(slot).collect()
    }

    /// For a run that was not let in by the front door; to be entered.
    pub fn unacquired_slot(&self) -> RunSlot {
        RunSlot::new(&self.slots, &self.freed, None)
    }
}

/// A place that is kept for a run.
pub struct OwnedSlot {
    owner: Arc<str>,
    slot: RunSlot,
}

/// A run that was admitted.
pub(crate) struct AdmittedRun {
    pub run: Run,
    /// What it was told, for its session.
    pub session_messages: Option<SessionMessages>,
    /// What it goes on from, when it was started in the transaction that admitted it.
    pub loaded: Option<LoadedRun>,
}

/// Gives places to runs while they are being admitted, in one transaction, and keeps what they are
/// told until it is written.
#[derive(Default)]
pub struct AdmissionBatch {
    owner: Option<Arc<str>>,
    free_slots: usize,
    started: Vec<(Run, Option<LoadedRun>)>,
    session_messages: Vec<SessionMessages>,
}

impl AdmissionBatch {
    /// Who drives the next run, while there are places.
    pub(crate) fn next_owner(&self) -> Option<Arc<str>> {
        self.owner.clone().filter(|_| self.started.len() < self.free_slots)
    }

    pub(crate) fn push(&mut self, AdmittedRun { run, session_messages: lines, loaded: ready }: AdmittedRun) {
        self.session_messages.extend(lines);
        if run.owner.is_some() {
            self.started.push((run, ready));
        }
    }

    /// Writes what is new in the graph, and with it what the runs that were admitted are told.
    pub fn write_drafts(
        &mut self,
        tx: &mut Tx<'_>,
        writer: &WriteContext,
        news: GraphDrafts,
    ) -> emergent_graph::Result<()> {
        sessions::write_drafts(tx, writer, news, self.session_messages.drain(..))
    }
}

impl Executor {
    /// So many places, or as many as there are; none while no runner is at work here.
    pub fn try_acquire_slots(&self, wanted: usize) -> Vec<OwnedSlot> {
        let runner = self.runner().lock();
        let Some(runner) = &*runner else { return Vec::new() };
        let place = |slot: RunSlot| OwnedSlot { owner: Arc::clone(&runner.owner), slot };
        runner.try_acquire_slots(wanted).into_iter().map(place).collect()
    }

    /// Writes, and then drives what was admitted into places. It goes on when whoever asked for it is
    /// gone meanwhile: a run that is this runner's and that nobody drives would stand still.
    pub async fn commit_and_drive<T, E>(
        &self,
        places: Vec<OwnedSlot>,
        work: impl Fn(&mut Tx<'_>, &mut AdmissionBatch) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<emergent_store::Error> + Send + 'static,
    {
        let executor = self.clone();
        let writing = async move {
            let (owner, count) = (places.first().map(|place| Arc::clone(&place.owner)), places.len());
            let work = move |tx: &mut Tx<'_>| {
                let mut doorman =
                    AdmissionBatch { owner: owner.clone(), free_slots: count, ..AdmissionBatch::default() };
                let done = work(tx, &mut doorman)?;
                Ok::<_, E>((done, doorman.started))
            };
            let (done, seated) = executor.db().write(work).await?;
            executor.drive_started(seated, places);
            Ok(done)
        };
        let closed = |_| Err(emergent_store::Error::Closed.into());
        tokio::spawn(writing).await.unwrap_or_else(closed)
    }

    /// A runner that lost its lease or left meanwhile drives nothing any more: what it was given is
    /// taken over like everything it had.
    fn drive_started(&self, seated: Vec<(Run, Option<LoadedRun>)>, places: Vec<OwnedSlot>) {
        let runner = self.runner().lock();
        let Some(runner) = runner.as_ref() else { return };
        let _threads = runner.runtime.enter();
        for ((run, ready), place) in seated.into_iter().zip(places) {
            if place.owner == runner.owner {
                run_task::spawn(self, run, place.owner, place.slot, ready);
            }
        }
    }
}
