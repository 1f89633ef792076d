//! Task slots: the limit on how many tasks of workflows run at once on this server, and on how many of them
//! belong to one project.

use std::{collections::HashMap, sync::Arc};

use emergent_domain::ids::ProjectId;
use emergent_executor::project_share;
use parking_lot::Mutex;
use tokio::sync::Notify;

/// The capacity for concurrent tasks on this server.
pub(crate) struct TaskSlots {
    max: usize,
    in_use: Mutex<SlotCounts>,
    /// Notifies drivers that wait for a free slot.
    pub freed: Notify,
}

#[derive(Default)]
struct SlotCounts {
    all: usize,
    /// Projects without slots are left out.
    projects: HashMap<ProjectId, usize>,
}

impl TaskSlots {
    pub fn new(max: usize) -> Self {
        Self { max, in_use: Mutex::default(), freed: Notify::new() }
    }

    /// Takes up to this many free slots for a project, and returns how many it took.
    fn acquire(&self, project: ProjectId, wanted: usize) -> usize {
        let mut counts = self.in_use.lock();
        let of_project = counts.projects.get(&project).copied().unwrap_or(0);
        let left_for_project = project_share(self.max).saturating_sub(of_project);
        let acquired = wanted.min(self.max.saturating_sub(counts.all)).min(left_for_project);
        counts.set(project, of_project + acquired);
        acquired
    }

    /// Changes how many slots a workflow of a project uses.
    fn resize(&self, project: ProjectId, from: usize, to: usize) {
        let mut counts = self.in_use.lock();
        let of_project = counts.projects.get(&project).copied().unwrap_or(0);
        counts.set(project, (of_project + to).saturating_sub(from));
        drop(counts);
        if to < from {
            self.freed.notify_waiters();
        }
    }
}

impl SlotCounts {
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
}

impl SlotShare {
    pub fn new(slots: &Arc<TaskSlots>, project: ProjectId) -> Self {
        Self { slots: Arc::clone(slots), project, in_use: 0 }
    }

    /// Takes up to this many free slots, and returns how many it took.
    pub fn acquire(&mut self, wanted: usize) -> usize {
        let acquired = self.slots.acquire(self.project, wanted);
        self.in_use += acquired;
        acquired
    }

    /// Sets how many slots the workflow occupies, and releases the rest.
    pub fn shrink_to(&mut self, used: usize) {
        self.slots.resize(self.project, self.in_use, used);
        self.in_use = used;
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

    #[test]
    fn one_project_leaves_a_quarter_of_the_slots_to_others() {
        let (slots, one, other) = (TaskSlots::new(8), ProjectId::new(), ProjectId::new());
        assert_eq!((slots.acquire(one, 10), slots.acquire(one, 1)), (6, 0));
        assert_eq!((slots.acquire(other, 10), slots.acquire(other, 1)), (2, 0));
        slots.resize(one, 6, 4);
        assert_eq!((slots.acquire(other, 10), slots.acquire(one, 1)), (2, 0));
        slots.resize(one, 4, 0);
        slots.resize(other, 4, 0);
        let counts = slots.in_use.lock();
        assert!(counts.all == 0 && counts.projects.is_empty());
    }
}
