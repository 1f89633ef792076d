//! The last known state of the storage: whether a statement failed because the disk is full, and no large write has
//! succeeded since, or because a page is damaged.

use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tracing::{error, info};

/// What is wrong with the storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StorageFault {
    /// There is no room left.
    Full,
    /// A page is damaged.
    Corrupt,
}

/// A problem of the storage that lasts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StorageProblem {
    pub fault: StorageFault,
    /// What the database said about it.
    pub reason: String,
}

/// A damaged page does not hinder writes to other pages. It counts as present for this long after it was seen.
const CORRUPTION_SHOWN: Duration = Duration::from_secs(60);

/// Remembers the last problem of the storage, and logs when it appears and ends.
pub(crate) struct StorageHealth {
    /// The path of the file, or the URL without its password.
    place: String,
    problem: Mutex<Option<(StorageProblem, Instant)>>,
}

impl StorageHealth {
    pub(crate) fn new(place: String) -> Self {
        Self { place, problem: Mutex::new(None) }
    }

    pub(crate) fn problem(&self) -> Option<StorageProblem> {
        self.problem.lock().as_ref().map(|(problem, _)| problem.clone())
    }

    /// Records a failed statement. The first one of its kind is logged with the place.
    pub(crate) fn report(&self, fault: StorageFault, reason: String) {
        let mut current = self.problem.lock();
        let is_new = !matches!(&*current, Some((known, _)) if known.fault == fault);
        if is_new {
            match fault {
                StorageFault::Full => error!(
                    place = %self.place, cause = %reason,
                    "the storage of `{}` is full: writes fail until there is room again", self.place
                ),
                StorageFault::Corrupt => error!(
                    place = %self.place, cause = %reason,
                    "the database `{}` is damaged: stop the server and restore a backup", self.place
                ),
            }
        }
        *current = Some((StorageProblem { fault, reason }, now()));
    }

    /// Records that a write was committed. It says nothing about a full disk, which often has room for a small write.
    pub(crate) fn report_commit(&self) {
        self.end_problem(|problem, seen| {
            problem.fault == StorageFault::Corrupt && seen.elapsed() > CORRUPTION_SHOWN
        });
    }

    /// Records that there is room for a large write, as [`crate::health::check`] found out.
    pub(crate) fn report_room(&self) {
        self.end_problem(|problem, _| problem.fault == StorageFault::Full);
    }

    fn end_problem(&self, has_ended: impl FnOnce(&StorageProblem, &Instant) -> bool) {
        let mut current = self.problem.lock();
        if current.as_ref().is_some_and(|(problem, seen)| has_ended(problem, seen)) {
            *current = None;
            info!(place = %self.place, "writes to `{}` succeed again", self.place);
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the writer is a thread outside the runtime, and measures real time"
)]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_storage_is_known_until_there_is_room_for_a_large_write() {
        let health = StorageHealth::new("emergent.db".to_owned());
        assert_eq!(health.problem(), None);
        health.report(StorageFault::Full, "database or disk is full".to_owned());
        assert_eq!(health.problem().unwrap().fault, StorageFault::Full);
        health.report_commit();
        assert_eq!(health.problem().unwrap().fault, StorageFault::Full, "a small write may fit");
        health.report_room();
        assert_eq!(health.problem(), None);
    }

    #[test]
    fn a_damaged_page_is_shown_although_other_writes_succeed() {
        let health = StorageHealth::new("emergent.db".to_owned());
        health.report(StorageFault::Corrupt, "malformed".to_owned());
        health.report_commit();
        health.report_room();
        assert_eq!(health.problem().unwrap().fault, StorageFault::Corrupt);
    }
}
