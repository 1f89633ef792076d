//! Run slots: the limit on how many runs one server drives at the same time, and on how many of them belong
//! to one project. A slot can be acquired before a run is admitted; the admitting transaction then makes this
//! server the owner of the run, so the run does not wait in the queue until a runner claims it.

use std::{collections::HashMap, sync::Arc};

use emergent_domain::ids::ProjectId;
use parking_lot::Mutex;
use tokio::{
    runtime::Handle,
    sync::{Notify, OwnedSemaphorePermit, Semaphore},
};

use crate::{Executor, fair_queue::WaitingProjects};

/// The slots of one runner. Runs in progress are not interrupted for others, so a project can use only a part
/// of the slots: the rest is free when another project needs it.
pub(crate) struct Slots {
    all: Arc<Semaphore>,
    /// The most slots of one project.
    per_project: usize,
    /// The slots of each project that uses or waits for one.
    projects: Mutex<HashMap<ProjectId, Arc<Semaphore>>>,
    /// Notified when a slot is released.
    pub freed: Notify,
}

/// One of the slots of a runner, and one of the part that the project may use. Dropping it releases both.
struct Permits {
    // Fields are dropped in this order: the project is the last, because it notifies the runner.
    _slot: OwnedSemaphorePermit,
    _project: ProjectPermit,
}

/// One of the part of a project, or the wait for it. Whoever drops it, also in the middle of a wait, leaves
/// nothing behind: the project is forgotten when it was the last, and the runner learns that there is capacity.
struct ProjectPermit {
    slots: Arc<Slots>,
    project: ProjectId,
    permit: Option<OwnedSemaphorePermit>,
}

impl ProjectPermit {
    fn unacquired(slots: &Arc<Slots>, project: ProjectId) -> Self {
        Self { slots: Arc::clone(slots), project, permit: None }
    }
}

impl Drop for ProjectPermit {
    fn drop(&mut self) {
        let was_acquired = self.permit.take().is_some();
        self.slots.remove_idle(self.project);
        if was_acquired {
            self.slots.freed.notify_one();
        }
    }
}

impl Slots {
    fn new(count: usize, per_project: usize) -> Self {
        let all = Arc::new(Semaphore::new(count));
        Self { all, per_project: per_project.min(count), projects: Mutex::default(), freed: Notify::new() }
    }

    /// How many slots are free.
    pub fn free(&self) -> usize {
        self.all.available_permits()
    }

    /// How many slots a project uses.
    pub fn in_use(&self, project: ProjectId) -> usize {
        self.per_project - self.left_for(project)
    }

    /// How many more slots a project may use, if they are free.
    pub fn left_for(&self, project: ProjectId) -> usize {
        self.projects.lock().get(&project).map_or(self.per_project, |permits| permits.available_permits())
    }

    /// Acquires a slot for a run of a project, if one is free and the project may use it.
    pub fn try_acquire(self: &Arc<Self>, project: ProjectId) -> Option<RunSlot> {
        let permits = self.try_permits(project)?;
        Some(RunSlot { slots: Arc::clone(self), project, permits: Some(permits) })
    }

    fn try_permits(self: &Arc<Self>, project: ProjectId) -> Option<Permits> {
        let mut permit = ProjectPermit::unacquired(self, project);
        let part = self.permits_of(project).try_acquire_owned().ok()?;
        // If no slot is free, the part is released without a notification: nothing has changed.
        let slot = Arc::clone(&self.all).try_acquire_owned().ok()?;
        permit.permit = Some(part);
        Some(Permits { _slot: slot, _project: permit })
    }

    /// Waits for a slot. `None` is not returned in practice: the semaphores are never closed.
    async fn permits(self: &Arc<Self>, project: ProjectId) -> Option<Permits> {
        // The project comes first: a run that waits for the part of its project must not hold a slot.
        let mut permit = ProjectPermit::unacquired(self, project);
        permit.permit = Some(self.permits_of(project).acquire_owned().await.ok()?);
        let slot = Arc::clone(&self.all).acquire_owned().await.ok()?;
        Some(Permits { _slot: slot, _project: permit })
    }

    fn permits_of(&self, project: ProjectId) -> Arc<Semaphore> {
        let mut projects = self.projects.lock();
        let permits = projects.entry(project).or_insert_with(|| Arc::new(Semaphore::new(self.per_project)));
        Arc::clone(permits)
    }

    /// Forgets a project that neither uses nor waits for a slot.
    fn remove_idle(&self, project: ProjectId) {
        let mut projects = self.projects.lock();
        // Whoever uses or waits for a slot has a reference of its own.
        if projects.get(&project).is_some_and(|permits| Arc::strong_count(permits) == 1) {
            projects.remove(&project);
        }
    }
}

/// The capacity to drive one run of a project. A run releases its slot while it waits for other runs.
pub(crate) struct RunSlot {
    slots: Arc<Slots>,
    project: ProjectId,
    permits: Option<Permits>,
}

impl RunSlot {
    /// Releases the slot, if it is acquired. The runner is notified.
    pub fn release(&mut self) {
        self.permits = None;
    }

    /// Waits until the slot is acquired. An acquired slot stays as it is.
    pub async fn acquire(&mut self) {
        if self.permits.is_none() {
            self.permits = self.slots.permits(self.project).await;
        }
    }

    /// Returns another slot of the same runner and project that is not acquired yet.
    pub fn unacquired(&self) -> Self {
        Self { slots: Arc::clone(&self.slots), project: self.project, permits: None }
    }
}

/// The runner of this process as other tasks see it: its owner name and its slots.
#[derive(Clone)]
pub(crate) struct RunnerHandle {
    pub owner: Arc<str>,
    pub slots: Arc<Slots>,
    /// The projects whose queued runs wait.
    pub waiting: Arc<Mutex<WaitingProjects>>,
    /// The runtime that drives all runs of the runner, also those that another runtime admits.
    pub runtime: Handle,
}

impl RunnerHandle {
    pub fn new(owner: Arc<str>, slot_count: usize, per_project: usize) -> Self {
        let slots = Arc::new(Slots::new(slot_count, per_project));
        Self { owner, slots, waiting: Arc::default(), runtime: Handle::current() }
    }

    /// Acquires up to `limit` free slots for a project without waiting. None while an older run of the project
    /// or a run of another project waits for a slot: the runner decides which run is next.
    fn try_acquire_slots(&self, project: ProjectId, limit: usize) -> Vec<RunSlot> {
        if self.waiting.lock().is_before(project) {
            return Vec::new();
        }
        std::iter::from_fn(|| self.slots.try_acquire(project)).take(limit).collect()
    }

    /// Returns a slot that is not acquired yet. Used for a run that this runner owns but does not drive;
    /// the caller acquires the slot before it starts the driver.
    pub fn unacquired_slot(&self, project: ProjectId) -> RunSlot {
        RunSlot { slots: Arc::clone(&self.slots), project, permits: None }
    }
}

/// An acquired slot together with the runner it belongs to.
pub struct OwnedSlot {
    pub(crate) owner: Arc<str>,
    pub(crate) slot: RunSlot,
}

impl Executor {
    /// Acquires up to `limit` free slots for runs of a project without waiting. Returns none while this
    /// process has no runner with a lease.
    pub fn try_acquire_slots(&self, project: ProjectId, limit: usize) -> Vec<OwnedSlot> {
        let runner = self.runner().lock();
        let Some(runner) = &*runner else { return Vec::new() };
        let owned = |slot: RunSlot| OwnedSlot { owner: Arc::clone(&runner.owner), slot };
        runner.try_acquire_slots(project, limit).into_iter().map(owned).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_project_uses_its_part_of_the_slots_and_others_find_the_rest() {
        let slots = Arc::new(Slots::new(8, 6));
        let (one, other) = (ProjectId::new(), ProjectId::new());
        let mut taken: Vec<RunSlot> = (0..8).map_while(|_| slots.try_acquire(one)).collect();
        assert_eq!((taken.len(), slots.in_use(one), slots.left_for(one), slots.free()), (6, 6, 0, 2));
        let theirs: Vec<RunSlot> = (0..8).map_while(|_| slots.try_acquire(other)).collect();
        assert_eq!((theirs.len(), slots.free()), (2, 0));
        let mut waits = taken[0].unacquired();
        let acquired = tokio::time::timeout(std::time::Duration::from_millis(10), waits.acquire()).await;
        assert!(acquired.is_err(), "no slot is left");
        taken[1].release();
        waits.acquire().await;
        assert_eq!((slots.in_use(one), slots.free()), (6, 0));
        drop((taken, theirs, waits));
        assert_eq!(slots.free(), 8);
        assert!(slots.projects.lock().is_empty(), "projects without a slot use no memory");
    }

    #[tokio::test]
    async fn a_wait_for_a_slot_that_is_given_up_leaves_nothing_behind() {
        let slots = Arc::new(Slots::new(2, 1));
        let (one, two, third) = (ProjectId::new(), ProjectId::new(), ProjectId::new());
        let taken = (slots.try_acquire(one).unwrap(), slots.try_acquire(two).unwrap());
        // The first waits for a slot, and has the part of its project; the second waits for that part.
        for project in [third, one] {
            let mut waits = RunSlot { slots: Arc::clone(&slots), project, permits: None };
            let acquired = tokio::time::timeout(std::time::Duration::from_millis(10), waits.acquire()).await;
            assert!(acquired.is_err(), "no slot is free");
        }
        assert_eq!((slots.left_for(third), slots.projects.lock().len()), (1, 2));
        let freed = tokio::time::timeout(std::time::Duration::from_millis(10), slots.freed.notified()).await;
        assert!(freed.is_ok(), "the part of the project is free again, and the runner learns of it");
        drop(taken);
        assert!(slots.projects.lock().is_empty());
    }
}
