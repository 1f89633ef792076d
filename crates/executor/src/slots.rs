//! Run slots: the limit on how many runs one server drives at the same time. A slot can be acquired before
//! a run is admitted; the admitting transaction then makes this server the owner of the run, so the run
//! does not wait in the queue until a runner claims it.

use std::sync::Arc;

use tokio::{
    runtime::Handle,
    sync::{Notify, OwnedSemaphorePermit, Semaphore},
};

use crate::Executor;

/// The capacity to drive one run. A run releases its slot while it waits for other runs.
pub(crate) struct RunSlot {
    semaphore: Arc<Semaphore>,
    permit: Option<OwnedSemaphorePermit>,
    freed: Arc<Notify>,
}

impl RunSlot {
    /// Releases the slot, if it is acquired, and notifies the runner.
    pub fn release(&mut self) {
        if self.permit.take().is_some() {
            self.freed.notify_one();
        }
    }

    /// Waits until the slot is acquired. An acquired slot stays as it is.
    pub async fn acquire(&mut self) {
        if self.permit.is_none() {
            // `acquire_owned` fails only on a closed semaphore, and this one is never closed.
            self.permit = Arc::clone(&self.semaphore).acquire_owned().await.ok();
        }
    }

    /// Returns another slot of the same runner that is not acquired yet.
    pub fn unacquired(&self) -> Self {
        Self::new(&self.semaphore, &self.freed, None)
    }

    fn new(semaphore: &Arc<Semaphore>, freed: &Arc<Notify>, permit: Option<OwnedSemaphorePermit>) -> Self {
        Self { semaphore: Arc::clone(semaphore), permit, freed: Arc::clone(freed) }
    }
}

impl Drop for RunSlot {
    fn drop(&mut self) {
        self.release();
    }
}

/// The runner of this process as other tasks see it: its owner name and its slots.
#[derive(Clone)]
pub(crate) struct RunnerHandle {
    pub owner: Arc<str>,
    slots: Arc<Semaphore>,
    pub freed: Arc<Notify>,
    /// The runtime that drives all runs of the runner, also those that another runtime admits.
    pub runtime: Handle,
}

impl RunnerHandle {
    pub fn new(owner: Arc<str>, slot_count: usize) -> Self {
        let (slots, freed) = (Arc::new(Semaphore::new(slot_count)), Arc::default());
        Self { owner, slots, freed, runtime: Handle::current() }
    }

    pub fn is_full(&self) -> bool {
        self.slots.available_permits() == 0
    }

    /// Acquires up to `limit` free slots without waiting.
    pub fn try_acquire_slots(&self, limit: usize) -> Vec<RunSlot> {
        let free = || Arc::clone(&self.slots).try_acquire_owned().ok();
        let slot = |permit| RunSlot::new(&self.slots, &self.freed, Some(permit));
        std::iter::from_fn(free).take(limit).map(slot).collect()
    }

    /// Returns a slot that is not acquired yet. Used for a run that this runner owns but does not drive;
    /// the caller acquires the slot before it starts the driver.
    pub fn unacquired_slot(&self) -> RunSlot {
        RunSlot::new(&self.slots, &self.freed, None)
    }
}

/// An acquired slot together with the runner it belongs to.
pub struct OwnedSlot {
    pub(crate) owner: Arc<str>,
    pub(crate) slot: RunSlot,
}

impl Executor {
    /// Acquires up to `limit` free slots without waiting. Returns none while this process has no runner
    /// with a lease.
    pub fn try_acquire_slots(&self, limit: usize) -> Vec<OwnedSlot> {
        let runner = self.runner().lock();
        let Some(runner) = &*runner else { return Vec::new() };
        let owned = |slot: RunSlot| OwnedSlot { owner: Arc::clone(&runner.owner), slot };
        runner.try_acquire_slots(limit).into_iter().map(owned).collect()
    }
}
