//! Task slots: the limit on how many tasks of workflows run at once on this server, and on how many of them
//! belong to one project.

use std::{collections::HashMap, sync::Arc};

use emergent_domain::ids::ProjectId;
use emergent_executor::project_share;
use parking_lot::Mutex;
use tokio::sync::watch;

/// The capacity for concurrent tasks on this server.
pub(crate) struct TaskSlots {
    max: usize,
    in_use: Mutex<SlotCounts>,
    /// How often slots became free. It is only sent while `in_use` is locked, so that a driver that found no free
    /// slot learns of every slot that is freed after it looked.
    freed: watch::Sender<u64>,
}

#[derive(Default)]
struct SlotCounts {
    all: usize,
    /// Projects without slots are left out.
    projects: HashMap<ProjectId, usize>,
}

impl TaskSlots {
    pub fn new(max: usize) -> Self {
        Self { max, in_use: Mutex::default(), freed: watch::channel(0).0 }
    }

    /// How many of these slots a project can have now.
    fn available(&self, counts: &SlotCounts, project: ProjectId, wanted: usize) -> usize {
        let left_for_project = project_share(self.max).saturating_sub(counts.used_by(project));
        wanted.min(self.max.saturating_sub(counts.all)).min(left_for_project)
    }
}

impl SlotCounts {
    fn used_by(&self, project: ProjectId) -> usize {
        self.projects.get(&project).copied().unwrap_or(0)
    }

    /// Changes how many slots one workflow of a project uses.
    fn resize(&mut self, project: ProjectId, from: usize, to: usize) {
        self.set(project, (self.used_by(project) + to).saturating_sub(from));
    }

    fn set(&mut self, project: ProjectId, count: usize) {
        let before = match count {
            0 => self.projects.remove(&project),
            count => self.projects.insert(project, count),
        };
        self.all = self.all + count - before.unwrap_or(0);
    }
}

/// The slots that one workflow occupies. They are released when this is dropped.
pub(crate) struct SlotShare {
    slots: Arc<TaskSlots>,
    project: ProjectId,
    in_use: usize,
    freed: watch::Receiver<u64>,
}

impl SlotShare {
    pub fn new(slots: &Arc<TaskSlots>, project: ProjectId) -> Self {
        Self { slots: Arc::clone(slots), project, in_use: 0, freed: slots.freed.subscribe() }
    }

    /// Sets how many slots the workflow occupies to `running` and takes up to `wanted` free ones in addition. Returns how
    /// many it took. A driver usually takes back the slot of an attempt that has just ended. Other drivers are
    /// only notified if it occupies fewer slots than before: otherwise they would find nothing.
    pub fn exchange(&mut self, running: usize, wanted: usize) -> usize {
        let slots = Arc::clone(&self.slots);
        let mut counts = slots.in_use.lock();
        counts.resize(self.project, self.in_use, running);
        let acquired = slots.available(&counts, self.project, wanted);
        counts.resize(self.project, running, running + acquired);
        // Only what is freed from now on can help this workflow.
        self.freed.mark_unchanged();
        if running + acquired < self.in_use {
            self.notify_others();
        }
        self.in_use = running + acquired;
        acquired
    }

    /// Sets how many slots the workflow occupies, and releases the rest.
    pub fn shrink_to(&mut self, used: usize) {
        let slots = Arc::clone(&self.slots);
        let mut counts = slots.in_use.lock();
        counts.resize(self.project, self.in_use, used);
        if used < self.in_use {
            self.notify_others();
        }
        self.in_use = used;
    }

    /// Notifies the other drivers that wait for a slot. The caller has locked the counts.
    fn notify_others(&mut self) {
        // If the channel was closed, nobody would wait for it.
        let others_freed = self.freed.has_changed().unwrap_or(false);
        self.slots.freed.send_modify(|count| *count += 1);
        if !others_freed {
            self.freed.mark_unchanged();
        }
    }

    /// Returns as soon as another workflow has freed a slot since the last [`SlotShare::exchange`].
    pub async fn freed(&mut self) {
        if self.freed.changed().await.is_err() {
            // The channel closes only with the slots, which this share keeps.
            std::future::pending().await
        }
    }
}

impl Drop for SlotShare {
    fn drop(&mut self) {
        self.shrink_to(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How often slots became free so far.
    fn notifications(slots: &TaskSlots) -> u64 {
        *slots.freed.borrow()
    }

    #[test]
    fn one_project_leaves_a_quarter_of_the_slots_to_others() {
        let (slots, project, other_project) =
            (Arc::new(TaskSlots::new(8)), ProjectId::new(), ProjectId::new());
        let (mut one, mut other) = (SlotShare::new(&slots, project), SlotShare::new(&slots, other_project));
        assert_eq!((one.exchange(0, 10), one.exchange(6, 1)), (6, 0));
        assert_eq!((other.exchange(0, 10), other.exchange(2, 1)), (2, 0));
        one.shrink_to(4);
        assert_eq!((other.exchange(2, 10), one.exchange(4, 10)), (2, 0));
        drop((one, other));
        let counts = slots.in_use.lock();
        assert!(counts.all == 0 && counts.projects.is_empty());
    }

    #[test]
    fn a_workflow_that_takes_its_slot_back_notifies_nobody() {
        let (slots, project) = (Arc::new(TaskSlots::new(4)), ProjectId::new());
        let (mut one, mut other) = (SlotShare::new(&slots, project), SlotShare::new(&slots, project));
        assert_eq!((one.exchange(0, 5), other.exchange(0, 5)), (3, 0));
        // An attempt has ended, and the next one starts in its slot.
        assert_eq!(one.exchange(2, 5), 1);
        one.shrink_to(3);
        assert_eq!(notifications(&slots), 0);
        // Two attempts have ended, and only one task is left.
        assert_eq!(one.exchange(1, 1), 1);
        assert_eq!(notifications(&slots), 1);
        assert_eq!(other.exchange(0, 5), 1);
        drop(one);
        assert_eq!(notifications(&slots), 2);
        // Without slots, there is nothing to free.
        drop(SlotShare::new(&slots, project));
        assert_eq!(notifications(&slots), 2);
    }

    #[tokio::test]
    async fn a_workflow_learns_of_every_slot_that_others_free_after_it_looked() {
        let is_free = async |share: &mut SlotShare| {
            tokio::time::timeout(std::time::Duration::ZERO, share.freed()).await.is_ok()
        };
        let (slots, project) = (Arc::new(TaskSlots::new(4)), ProjectId::new());
        let (mut one, mut other) = (SlotShare::new(&slots, project), SlotShare::new(&slots, project));
        assert_eq!((one.exchange(0, 2), other.exchange(0, 2)), (2, 1));
        assert!(!is_free(&mut other).await);
        // What it frees itself is no reason to look again, but hides nothing that another workflow frees.
        other.shrink_to(0);
        assert!(!is_free(&mut other).await);
        assert_eq!(other.exchange(0, 2), 1);
        one.shrink_to(1);
        other.shrink_to(0);
        assert!(is_free(&mut other).await);
        assert_eq!(other.exchange(0, 2), 2);
        assert!(!is_free(&mut other).await);
    }
}
