//! Claims runs for the free slots of a runner: runs whose runner crashed, then queued ones. When slots are
//! scarce, they are divided fairly between the projects that wait ([`crate::fair_queue`]).

use std::{collections::HashSet, sync::Arc, time::Duration};

use emergent_domain::{ids::ProjectId, run::Run, time::Timestamp};
use emergent_store::{
    Tx,
    runs::{claim, waiting},
};
use tokio::time::Instant;
use tracing::warn;
use uuid::Uuid;

use crate::{
    Executor,
    fair_queue::{Candidate, ClaimOrder, WaitingProjects},
    run_task,
    slots::{RunSlot, RunnerHandle, Slots},
};

/// How long a silent runner keeps its runs, unless the settings say otherwise. As runners poll every second,
/// another one claims them within eleven seconds.
pub(crate) const DEFAULT_LEASE: Duration = Duration::from_secs(9);
/// How often the runner tries to claim runs without being woken.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// The most runs that one transaction claims.
const CLAIM_BATCH: usize = 256;
/// Why a request of an external server for input is withdrawn when the runner of its run is gone.
const INPUT_LOST: &str =
    "the server that made the call stopped, and the connection to the external server was lost";

/// What an attempt to claim runs found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Claimed {
    /// Runs were claimed, and there may be more.
    Some,
    /// Runs wait for a slot.
    Waiting,
    /// No run waits.
    None,
}

/// Claims runs for one runner.
pub(crate) struct Claims {
    executor: Executor,
    runner: RunnerHandle,
    order: ClaimOrder,
    /// Where the list of waiting projects continues, if it is longer than one statement returns.
    after: ProjectId,
    /// When the queue was read; `None` when runs were claimed since.
    read_at: Option<Instant>,
}

/// What there is to claim.
struct Queue {
    /// The projects with queued runs.
    projects: Vec<ProjectId>,
    /// Those of them that may use more slots.
    startable: Vec<ProjectId>,
    /// Whether a runner that lost its lease owns runs. It is looked up only if no project is startable:
    /// otherwise the claim looks for such runs anyway.
    has_orphans: bool,
}

/// The runs that a transaction claimed, each with its slot.
struct Batch {
    runs: Vec<(Run, RunSlot)>,
    order: ClaimOrder,
}

impl Claims {
    pub fn new(executor: &Executor, runner: &RunnerHandle) -> Self {
        let (executor, runner) = (executor.clone(), runner.clone());
        Self { executor, runner, order: ClaimOrder::default(), after: first_project(), read_at: None }
    }

    /// Records that runs were queued. Until the queue is read, no slot is given to a run that is newer.
    pub fn note_queued(&self) {
        if self.runner.slots.free() == 0 {
            self.runner.waiting.lock().add_unread();
        }
    }

    /// Claims as many runs as one transaction may, and starts their drivers.
    pub async fn claim(&mut self) -> Claimed {
        if !is_read_due(self.runner.slots.free(), self.read_at.map(|at| at.elapsed())) {
            return Claimed::Waiting;
        }
        // The read comes first, because a write transaction is needed only if there is something to claim.
        let queue = match self.read_queue().await {
            Ok(queue) => queue,
            Err(error) => {
                warn!(error = %error, "could not read the queue of runs, trying again");
                return Claimed::None;
            }
        };
        self.read_at = Some(Instant::now());
        let Queue { projects, startable, has_orphans } = queue;
        let nothing_claimed = if projects.is_empty() { Claimed::None } else { Claimed::Waiting };
        *self.runner.waiting.lock() = WaitingProjects::new(projects.iter().copied(), !startable.is_empty());
        if self.runner.slots.free() == 0 || (startable.is_empty() && !has_orphans) {
            return nothing_claimed;
        }
        match self.claim_batch(startable.clone()).await {
            Ok(Batch { runs, order }) => {
                self.order = order;
                if runs.is_empty() {
                    // What cannot be claimed now, for example because another server claims it, is in nobody's
                    // way.
                    let full = projects.into_iter().filter(|project| !startable.contains(project));
                    *self.runner.waiting.lock() = WaitingProjects::new(full, false);
                    return nothing_claimed;
                }
                self.read_at = None;
                for (run, slot) in runs {
                    run_task::spawn(&self.executor, run, Arc::clone(&self.runner.owner), slot, None);
                }
                Claimed::Some
            }
            Err(error) => {
                warn!(error = %error, "could not claim runs, trying again");
                nothing_claimed
            }
        }
    }

    async fn read_queue(&mut self) -> Result<Queue, emergent_store::Error> {
        let (after, now, slots) = (self.after, self.executor.clock().now(), Arc::clone(&self.runner.slots));
        let read = move |tx: &mut Tx<'_>| {
            let mut projects = claim::list_waiting_projects(tx, after)?;
            if projects.len() < claim::MAX_WAITING_PROJECTS && after != first_project() {
                let known: HashSet<ProjectId> = projects.iter().copied().collect();
                let from_start = claim::list_waiting_projects(tx, first_project())?;
                projects.extend(from_start.into_iter().filter(|project| !known.contains(project)));
            }
            let may_start = |project: &ProjectId| slots.left_for(*project) > 0;
            let startable: Vec<ProjectId> = projects.iter().copied().filter(may_start).collect();
            let has_orphans = startable.is_empty() && claim::has_orphaned(tx, now)?;
            Ok::<_, emergent_store::Error>(Queue { projects, startable, has_orphans })
        };
        let queue = self.executor.db().read(read).await?;
        let is_full = queue.projects.len() >= claim::MAX_WAITING_PROJECTS;
        self.after = queue.projects.last().copied().filter(|_| is_full).unwrap_or_else(first_project);
        Ok(queue)
    }

    async fn claim_batch(&self, projects: Vec<ProjectId>) -> Result<Batch, emergent_store::Error> {
        let (slots, order) = (Arc::clone(&self.runner.slots), self.order.clone());
        let (owner, now) = (Arc::clone(&self.runner.owner), self.executor.clock().now());
        let lease = self.executor.settings().lease;
        let work = move |tx: &mut Tx<'_>| {
            let mut batch = Batch { runs: Vec::new(), order: order.clone() };
            waiting::withdraw_orphaned(tx, &owner, INPUT_LOST, now, CLAIM_BATCH)?;
            claim_orphaned(tx, &slots, &owner, (lease, now), &mut batch)?;
            claim_queued(tx, &slots, &owner, now, &projects, &mut batch)?;
            Ok(batch)
        };
        self.executor.db().write(work).await
    }
}

/// The id before those of all projects.
fn first_project() -> ProjectId {
    ProjectId(Uuid::nil())
}

/// Whether the queue is to be read. While no slot is free, nothing can be claimed: the queue is then read once
/// per interval, however many runs are queued meanwhile.
fn is_read_due(free_slots: usize, since_read: Option<Duration>) -> bool {
    free_slots > 0 || since_read.is_none_or(|since| since >= POLL_INTERVAL)
}

/// How many more runs a transaction may claim.
fn capacity(slots: &Slots, batch: &Batch) -> usize {
    slots.free().min(CLAIM_BATCH.saturating_sub(batch.runs.len()))
}

/// Takes over the runs of runners that lost their lease, as far as the projects may use slots here.
fn claim_orphaned(
    tx: &mut Tx<'_>,
    slots: &Arc<Slots>,
    owner: &str,
    (lease, now): (Duration, Timestamp),
    batch: &mut Batch,
) -> Result<(), emergent_store::Error> {
    let mut full: Vec<ProjectId> = Vec::new();
    loop {
        let limit = capacity(slots, batch);
        if limit == 0 {
            return Ok(());
        }
        let orphans = claim::lock_orphaned(tx, owner, &full, now, limit)?;
        let full_before = full.len();
        for orphan in orphans {
            let project = orphan.run.project;
            if full.contains(&project) {
                continue;
            }
            // A slot is acquired before a run is claimed, so that nobody else takes it in between.
            let Some(slot) = slots.try_acquire(project) else {
                full.push(project);
                continue;
            };
            if let Some(run) = claim::claim_orphan(tx, owner, orphan, lease, now)? {
                batch.runs.push((run, slot));
            }
        }
        // The runs of projects that may use no more slots were in the way of others.
        if full.len() == full_before {
            return Ok(());
        }
    }
}

/// Claims queued runs of these projects, and divides the free slots between them. A project whose runs cannot
/// be claimed, or that has fewer than its share, leaves the rest of its share to the others.
fn claim_queued(
    tx: &mut Tx<'_>,
    slots: &Arc<Slots>,
    owner: &str,
    now: Timestamp,
    projects: &[ProjectId],
    batch: &mut Batch,
) -> Result<(), emergent_store::Error> {
    let mut waiting = projects.to_vec();
    loop {
        let candidate = |project: ProjectId| Candidate {
            project,
            in_use: slots.in_use(project),
            left: slots.left_for(project),
        };
        let candidates: Vec<Candidate> = waiting.iter().copied().map(candidate).collect();
        let shares = batch.order.divide(capacity(slots, batch), &candidates);
        let mut exhausted: HashSet<ProjectId> = HashSet::new();
        for share in shares {
            let mut runs = claim::lock_queued(tx, share.project, share.runs)?;
            let acquired: Vec<RunSlot> =
                std::iter::from_fn(|| slots.try_acquire(share.project)).take(runs.len()).collect();
            runs.truncate(acquired.len());
            // It has no more runs, or somebody else took the slots of the project meanwhile.
            if runs.len() < share.runs {
                exhausted.insert(share.project);
            }
            if !runs.is_empty() {
                batch.order.record(share.project);
            }
            claim::mark_started(tx, owner, now, &mut runs)?;
            batch.runs.extend(runs.into_iter().zip(acquired));
        }
        // Otherwise every share was used, and no slot is left that one of the projects may use.
        if exhausted.is_empty() {
            return Ok(());
        }
        waiting.retain(|project| !exhausted.contains(project));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_runner_reads_the_queue_once_per_interval() {
        let (soon, later) = (Some(Duration::from_millis(10)), Some(POLL_INTERVAL));
        assert!(is_read_due(0, None) && is_read_due(0, later));
        assert!(!is_read_due(0, soon), "nothing can be claimed");
        assert!(is_read_due(1, soon));
    }
}
