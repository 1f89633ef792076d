//! Bounds the work that takes long: how much of it runs at once, how much of it for one project, and how long
//! a caller waits for its turn.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
    time::Duration,
};

use emergent_domain::ids::ProjectId;
use parking_lot::Mutex;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

use crate::{Error, error::Result};

/// Runs work on blocking threads, some of it at once, and one piece at a time for each project. A project
/// with much work therefore waits for itself, and not others for it.
pub struct WorkPool {
    /// What is done, in the plural, for messages: "documents are being read".
    what: &'static str,
    slots: Arc<Semaphore>,
    projects: Mutex<HashMap<ProjectId, Weak<Semaphore>>>,
    max_wait: Duration,
}

/// A turn of a project. Dropping it lets the next one start.
pub struct Turn {
    _project: OwnedSemaphorePermit,
    _slot: OwnedSemaphorePermit,
}

impl WorkPool {
    /// `slots` is how much runs at once, and `max_wait` how long a caller waits for its turn.
    pub fn new(what: &'static str, slots: usize, max_wait: Duration) -> Self {
        Self { what, slots: Arc::new(Semaphore::new(slots)), projects: Mutex::default(), max_wait }
    }

    /// Waits for a turn. The error is [`Error::Overloaded`] if that takes too long.
    pub async fn turn(&self, project: ProjectId) -> Result<Turn> {
        let of_project = self.project_slot(project);
        let slots = Arc::clone(&self.slots);
        let turn = async move {
            let project = of_project.acquire_owned().await.ok()?;
            let slot = slots.acquire_owned().await.ok()?;
            Some(Turn { _project: project, _slot: slot })
        };
        let busy = || Error::Overloaded {
            message: format!(
                "too many {}; this request waited for {} seconds: try again later",
                self.what,
                self.max_wait.as_secs()
            ),
        };
        timeout(self.max_wait, turn).await.ok().flatten().ok_or_else(busy)
    }

    /// Waits for a turn, and then runs the work on a blocking thread.
    pub async fn run<T: Send + 'static>(
        &self,
        project: ProjectId,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T> {
        let turn = self.turn(project).await?;
        #[expect(
            clippy::disallowed_methods,
            reason = "awaited here; the slots of the pool limit how many there are"
        )]
        let done = tokio::task::spawn_blocking(move || {
            // The turn ends with the work, even if the caller was dropped.
            let _turn = turn;
            work()
        });
        done.await.map_err(|_| Error::Store(emergent_store::Error::Closed))
    }

    fn project_slot(&self, project: ProjectId) -> Arc<Semaphore> {
        let mut projects = self.projects.lock();
        if let Some(slot) = projects.get(&project).and_then(Weak::upgrade) {
            return slot;
        }
        projects.retain(|_, slot| slot.strong_count() > 0);
        let slot = Arc::new(Semaphore::new(1));
        projects.insert(project, Arc::downgrade(&slot));
        slot
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_busy_project_leaves_a_slot_to_others() {
        let pool = WorkPool::new("tests are running", 2, Duration::from_millis(50));
        let (busy, other) = (ProjectId::new(), ProjectId::new());
        let first = pool.turn(busy).await.unwrap();
        assert!(matches!(pool.turn(busy).await, Err(Error::Overloaded { .. })), "one at a time");
        let second = pool.turn(other).await.unwrap();
        drop(first);
        let third = pool.turn(busy).await.unwrap();
        assert!(pool.turn(ProjectId::new()).await.is_err(), "both slots are taken");
        drop((second, third));
    }
}
