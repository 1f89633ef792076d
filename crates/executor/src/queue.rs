//! The limits of the run queue: over all projects, and for one project. The length of the queue is counted at
//! most once per second instead of at each admission, and that of one project only if the queue is long
//! enough for its limit.

use std::collections::HashMap;

use emergent_domain::ids::ProjectId;
use emergent_store::{Tx, runs};
use parking_lot::Mutex;
use tokio::time::{Duration, Instant};

use crate::{Error, Executor, Result, Settings};

/// How long a count of the queue is used.
const COUNT_TTL: Duration = Duration::from_secs(1);
/// Below this free capacity, servers take a lock before they queue triggered runs. Otherwise two
/// servers would see the same free capacity, and both would fill it.
const LOCK_BELOW: usize = 1_000;

/// The names of the limits in errors: of the whole queue, and of the part that one project may use.
pub(crate) const QUEUE_LIMIT: &str = "max_queued";
pub(crate) const PROJECT_LIMIT: &str = "max_project_queued";

/// No transaction queues more triggered runs than this.
const MAX_TRIGGERED: usize = 1_000;

/// The last counts of the queue, plus the runs that this process queued since.
#[derive(Default)]
pub(crate) struct QueueGauge {
    counts: Mutex<Counts>,
}

#[derive(Default)]
struct Counts {
    all: Option<Count>,
    /// Only of projects that queued runs while the queue was long.
    projects: HashMap<ProjectId, Count>,
}

#[derive(Clone, Copy)]
struct Count {
    at: Instant,
    waiting: i64,
}

impl Count {
    fn is_fresh(self) -> bool {
        self.at.elapsed() <= COUNT_TTL
    }
}

impl Executor {
    /// Refuses requests from outside if the queue, or the part of it that the project may use, is full.
    pub(crate) async fn check_queue_capacity(&self, project: ProjectId) -> Result<()> {
        let (max_queued, max_of_project) = (self.settings().max_queued, self.settings().project_queued());
        let waiting = self.count_waiting(None, max_queued).await?;
        if waiting >= limit(max_queued) {
            return Err(Error::Overloaded { limit: QUEUE_LIMIT, waiting });
        }
        if waiting >= limit(max_of_project) {
            let waiting = self.count_waiting(Some(project), max_of_project).await?;
            if waiting >= limit(max_of_project) {
                // Runs that are refused must not make the queue seem full to other projects.
                self.queue().remove_one();
                return Err(Error::Overloaded { limit: PROJECT_LIMIT, waiting });
            }
        }
        Ok(())
    }

    /// Returns how many runs were queued before this one, which it adds to the count.
    async fn count_waiting(&self, project: Option<ProjectId>, max: usize) -> Result<i64> {
        if let Some(waiting) = self.queue().add_one(project) {
            return Ok(waiting);
        }
        let at = Instant::now();
        let waiting = self.db().read(move |tx| count_queued(tx, project, max.saturating_add(1))).await?;
        self.queue().set(project, Count { at, waiting: waiting + 1 });
        Ok(waiting)
    }
}

fn limit(max: usize) -> i64 {
    i64::try_from(max).unwrap_or(i64::MAX)
}

fn count_queued(
    tx: &mut Tx<'_>,
    project: Option<ProjectId>,
    limit: usize,
) -> Result<i64, emergent_store::Error> {
    match project {
        None => runs::count_queued(tx, limit),
        Some(project) => runs::count_project_queued(tx, project, limit),
    }
}

impl QueueGauge {
    /// Adds runs that triggers queued, which count the free capacity themselves.
    pub(crate) fn add(&self, by: usize) {
        if let Some(count) = &mut self.counts.lock().all {
            count.waiting += limit(by);
        }
    }

    fn remove_one(&self) {
        if let Some(count) = &mut self.counts.lock().all {
            count.waiting -= 1;
        }
    }

    /// Counts one more queued run, and returns how many there were; `None` if the count is too old.
    fn add_one(&self, project: Option<ProjectId>) -> Option<i64> {
        let mut counts = self.counts.lock();
        let count = match project {
            None => counts.all.as_mut(),
            Some(project) => counts.projects.get_mut(&project),
        };
        let count = count.filter(|count| count.is_fresh())?;
        count.waiting += 1;
        Some(count.waiting - 1)
    }

    fn set(&self, project: Option<ProjectId>, count: Count) {
        let mut counts = self.counts.lock();
        match project {
            None => counts.all = Some(count),
            Some(project) => {
                counts.projects.retain(|_, count| count.is_fresh());
                counts.projects.insert(project, count);
            }
        }
    }
}

/// Returns how many more runs may be queued, counted in the transaction that is about to queue them.
pub(crate) fn free_queue_capacity(tx: &mut Tx<'_>, settings: &Settings) -> Result<usize> {
    let free = count_free(tx, None, settings.max_queued)?;
    if free >= LOCK_BELOW {
        return Ok(free);
    }
    tx.advisory_lock("triggers:room")?;
    count_free(tx, None, settings.max_queued)
}

/// How many more runs of a project may be queued.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProjectCapacity {
    pub free: usize,
    /// The limit that is reached with these runs.
    pub limit: &'static str,
}

/// As [`free_queue_capacity`], for runs of one project. Only one server at a time queues the runs that the
/// events of a project trigger, so the count of the project needs no lock.
pub(crate) fn free_project_capacity(
    tx: &mut Tx<'_>,
    settings: &Settings,
    project: ProjectId,
) -> Result<ProjectCapacity> {
    let (free, max_of_project) = (free_queue_capacity(tx, settings)?, settings.project_queued());
    let of_queue = ProjectCapacity { free, limit: QUEUE_LIMIT };
    // While the whole queue is shorter than the limit of a project, no project has reached it.
    let queued = settings.max_queued.saturating_sub(free);
    if queued + MAX_TRIGGERED < max_of_project {
        return Ok(of_queue);
    }
    let of_project = count_free(tx, Some(project), max_of_project)?;
    Ok(if of_project < free { ProjectCapacity { free: of_project, limit: PROJECT_LIMIT } } else { of_queue })
}

fn count_free(tx: &mut Tx<'_>, project: Option<ProjectId>, max: usize) -> Result<usize> {
    let waiting = usize::try_from(count_queued(tx, project, max)?).unwrap_or(0);
    Ok(max.saturating_sub(waiting))
}
