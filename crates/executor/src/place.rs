//! Places: how many runs a server drives at once, and a place for a run that is about to be
//! admitted. Such a run is this server's from the transaction that admits it on, and does not wait
//! in the queue for a runner to take it.

use std::sync::Arc;

use emergent_domain::run::Run;
use emergent_graph::Writer;
use emergent_store::Tx;
use tokio::{
    runtime::Handle,
    sync::{Notify, OwnedSemaphorePermit, Semaphore},
};

use crate::{
    Executor, Result,
    drive::{self, Loaded},
    sessions::{self, Lines, News},
};

/// A place among the runs that are driven at once. A run that waits for others leaves it.
pub(crate) struct Slot {
    places: Arc<Semaphore>,
    held: Option<OwnedSemaphorePermit>,
    freed: Arc<Notify>,
}

impl Slot {
    pub fn leave(&mut self) {
        if self.held.take().is_some() {
            self.freed.notify_one();
        }
    }

    pub async fn enter(&mut self) {
        if self.held.is_none() {
            // The semaphore is never closed.
            self.held = Arc::clone(&self.places).acquire_owned().await.ok();
        }
    }

    /// With the same runner, and not entered.
    pub fn another(&self) -> Self {
        Self::of(&self.places, &self.freed, None)
    }

    fn of(places: &Arc<Semaphore>, freed: &Arc<Notify>, held: Option<OwnedSemaphorePermit>) -> Self {
        Self { places: Arc::clone(places), held, freed: Arc::clone(freed) }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.leave();
    }
}

/// A runner under one name, with its places.
#[derive(Clone)]
pub(crate) struct Runner {
    pub owner: Arc<str>,
    places: Arc<Semaphore>,
    pub freed: Arc<Notify>,
    /// Whose threads drive its runs, whoever admits them.
    threads: Handle,
}

impl Runner {
    pub fn new(owner: Arc<str>, places: usize) -> Self {
        let (places, freed) = (Arc::new(Semaphore::new(places)), Arc::default());
        Self { owner, places, freed, threads: Handle::current() }
    }

    pub fn is_full(&self) -> bool {
        self.places.available_permits() == 0
    }

    /// So many that are free, or all that are.
    pub fn slots(&self, most: usize) -> Vec<Slot> {
        let free = || Arc::clone(&self.places).try_acquire_owned().ok();
        let slot = |held| Slot::of(&self.places, &self.freed, Some(held));
        std::iter::from_fn(free).take(most).map(slot).collect()
    }

    /// For a run that was not let in by the front door; to be entered.
    pub fn slot(&self) -> Slot {
        Slot::of(&self.places, &self.freed, None)
    }
}

/// A place that is kept for a run.
pub struct Place {
    owner: Arc<str>,
    slot: Slot,
}

/// A run that was admitted.
pub(crate) struct Admitted {
    pub run: Run,
    /// What it was told, for its session.
    pub lines: Option<Lines>,
    /// What it goes on from, when it was started in the transaction that admitted it.
    pub ready: Option<Loaded>,
}

/// Gives places to runs while they are being admitted, in one transaction, and keeps what they are
/// told until it is written.
#[derive(Default)]
pub struct Doorman {
    owner: Option<Arc<str>>,
    places: usize,
    seated: Vec<(Run, Option<Loaded>)>,
    lines: Vec<Lines>,
}

impl Doorman {
    /// Who drives the next run, while there are places.
    pub(crate) fn next(&self) -> Option<Arc<str>> {
        self.owner.clone().filter(|_| self.seated.len() < self.places)
    }

    pub(crate) fn admitted(&mut self, Admitted { run, lines, ready }: Admitted) {
        self.lines.extend(lines);
        if run.owner.is_some() {
            self.seated.push((run, ready));
        }
    }

    /// Writes what is new in the graph, and with it what the runs that were admitted are told.
    pub fn write(&mut self, tx: &mut Tx<'_>, writer: &Writer, news: News) -> emergent_graph::Result<()> {
        sessions::write_all(tx, writer, news, self.lines.drain(..))
    }
}

impl Executor {
    /// So many places, or as many as there are; none while no runner is at work here.
    pub fn places(&self, wanted: usize) -> Vec<Place> {
        let runner = self.runner().lock();
        let Some(runner) = &*runner else { return Vec::new() };
        let place = |slot: Slot| Place { owner: Arc::clone(&runner.owner), slot };
        runner.slots(wanted).into_iter().map(place).collect()
    }

    /// Writes, and then drives what was admitted into places. It goes on when whoever asked for it is
    /// gone meanwhile: a run that is this runner's and that nobody drives would stand still.
    pub async fn write_and_drive<T, E>(
        &self,
        places: Vec<Place>,
        work: impl Fn(&mut Tx<'_>, &mut Doorman) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<emergent_store::Error> + Send + 'static,
    {
        let executor = self.clone();
        let writing = async move {
            let (owner, count) = (places.first().map(|place| Arc::clone(&place.owner)), places.len());
            let work = move |tx: &mut Tx<'_>| {
                let mut doorman = Doorman { owner: owner.clone(), places: count, ..Doorman::default() };
                let done = work(tx, &mut doorman)?;
                Ok::<_, E>((done, doorman.seated))
            };
            let (done, seated) = executor.db().write(work).await?;
            executor.drive(seated, places);
            Ok(done)
        };
        let closed = |_| Err(emergent_store::Error::Closed.into());
        tokio::spawn(writing).await.unwrap_or_else(closed)
    }

    /// A runner that lost its lease or left meanwhile drives nothing any more: what it was given is
    /// taken over like everything it had.
    fn drive(&self, seated: Vec<(Run, Option<Loaded>)>, places: Vec<Place>) {
        let runner = self.runner().lock();
        let Some(runner) = runner.as_ref() else { return };
        let _threads = runner.threads.enter();
        for ((run, ready), place) in seated.into_iter().zip(places) {
            if place.owner == runner.owner {
                drive::spawn(self, run, place.owner, place.slot, ready);
            }
        }
    }
}
